"""Where an ``availableNow`` query ends, and for whom it waits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.support.queues import queue, queues
from connector_tests.support.steady_member import (
    TARGET_TIMEOUT_MS,
    A,
    B,
    SteadyMember,
    holding,
    planner,
    reached,
    read,
)
from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.source.stream.available_now import AvailableNowTargets
from rocketmq_spark.source.stream.batch_planner import OTHER_MEMBERS_WAIT_MS, BatchPlanner
from rocketmq_spark.source.stream.offsets import SourceOffset


def snapshot(*maxima: tuple[MessageQueue, int], is_complete: bool = True) -> MetadataSnapshot:
    bounds, topics = {one: holding(max_offset) for one, max_offset in maxima}, frozenset({"orders"})
    return MetadataSnapshot(frozenset(), bounds, is_complete, topics=topics)


def test_targets_are_what_the_first_complete_refresh_reports() -> None:
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 5), is_complete=False))
    assert targets.offsets == {}
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    targets.fix_targets(snapshot((A, 99), (B, 99)))
    assert targets.offsets == {A: 6, B: 7}


def test_nothing_is_reached_before_targets_are_fixed() -> None:
    assert not AvailableNowTargets(0).check_progress(SourceOffset(), {}, now_ms=10**9)


def test_targets_are_reached_by_this_query_or_by_another_member() -> None:
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    assert not targets.check_progress(reached((A, 6)), {B: 6}, now_ms=0)
    assert targets.check_progress(reached((A, 6)), {B: 7}, now_ms=0)


def test_a_target_that_its_queue_does_not_reach_any_more_is_none() -> None:
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    targets.lower_to_bounds({A: QueueBounds(0, 9, 1), B: QueueBounds(0, 2, 1)})
    assert targets.offsets == {A: 6, B: 2}
    targets.lower_to_bounds({})
    assert targets.offsets == {A: 6, B: 2}


def test_no_queue_at_all_is_reached_at_once() -> None:
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot())
    assert targets.check_progress(SourceOffset(), {}, now_ms=0)


def test_the_wait_for_other_members_is_bounded_and_names_its_member(caplog: pytest.LogCaptureFixture) -> None:
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    assert not targets.check_progress(reached((A, 6)), {B: 0}, now_ms=1_000)
    assert not targets.check_progress(reached((A, 6)), {B: 0}, now_ms=1_000 + TARGET_TIMEOUT_MS - 1)
    assert targets.check_progress(reached((A, 6)), {B: 0}, now_ms=1_000 + TARGET_TIMEOUT_MS)
    assert caplog.messages == [
        (
            "TARGET_OFFSETS_NOT_REACHED: availableNow ends, but other members have not committed their queues up to "
            f"the target offsets. Check these members: queue={B} remaining=7"
        )
    ]


def test_all_queues_that_were_not_waited_for_longer_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    targets = AvailableNowTargets(0)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    assert targets.check_progress(SourceOffset(), {}, now_ms=1_000)
    assert caplog.messages == [
        (
            "TARGET_OFFSETS_NOT_REACHED: availableNow ends, but other members have not committed their queues up to "
            f"the target offsets. Check these members: queue={A} remaining=6, queue={B} remaining=7"
        )
    ]


@pytest.mark.parametrize(("checkpoint", "stored"), [(reached((A, 6)), {B: 3}), (reached((A, 6), (B, 3)), {})])
def test_the_wait_starts_again_while_the_group_changes(
    checkpoint: SourceOffset, stored: dict[MessageQueue, int | None]
) -> None:
    """It used to count from the first call that found something missing, however much was read after that."""
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    assert not targets.check_progress(reached((A, 5)), {}, now_ms=0)
    assert not targets.check_progress(checkpoint, stored, now_ms=TARGET_TIMEOUT_MS)
    assert not targets.check_progress(checkpoint, stored, now_ms=2 * TARGET_TIMEOUT_MS - 1)
    assert targets.check_progress(checkpoint, stored, now_ms=2 * TARGET_TIMEOUT_MS)


def test_the_wait_for_other_members_begins_again_after_a_time_when_no_member_could_resume() -> None:
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    assert not targets.check_progress(reached((A, 6)), {B: 0}, now_ms=0)
    targets.restart_timeout(now_ms=TARGET_TIMEOUT_MS)
    assert not targets.check_progress(reached((A, 6)), {B: 0}, now_ms=2 * TARGET_TIMEOUT_MS - 1)
    assert targets.check_progress(reached((A, 6)), {B: 0}, now_ms=2 * TARGET_TIMEOUT_MS)


def test_available_now_reads_to_its_targets_and_ends() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    subject.stop_at_current_end()
    end, ranges = read(subject, SourceOffset(), limit=6)
    assert ranges == [QueueRange(A, 0, 6)]
    member.hold(A, holding(500))
    end, ranges = read(subject, end, limit=6)
    assert ranges == [QueueRange(A, 6, 10)]
    assert subject.latest_offset(end, 6) is end
    assert member.stored == {A: 10}, "the last call is a proof too"


class Waiting(SteadyMember):
    """Time passes while the query waits."""

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        return False


def run_to_end(subject: BatchPlanner, start: SourceOffset) -> None:
    """Batches without rows, as Spark runs them, until there is none."""
    while (end := subject.latest_offset(start, None)) is not start:
        assert list(end.ranges()) == []
        start = end


def test_available_now_waits_for_other_members_within_limits() -> None:
    member = Waiting({A: holding(10), B: holding(10)}, stored={A: 10, B: 4}, not_owned={B})
    clock, subject = member.clock, planner(member, clusterTimeoutMs=str(TARGET_TIMEOUT_MS))
    subject.stop_at_current_end()
    run_to_end(subject, reached((A, 10)))
    assert TARGET_TIMEOUT_MS <= clock() <= TARGET_TIMEOUT_MS + 1_000


class UnavailableForAWhile(SteadyMember):
    """Queues that are away come back after ``clusterTimeoutMs`` and more; time passes while the query waits."""

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        if self.clock() < 2 * TARGET_TIMEOUT_MS:
            return False
        self.unavailable = set()
        return True


def available_now(member: UnavailableForAWhile, **given: str) -> BatchPlanner:
    subject = planner(member, drain=None, clusterTimeoutMs=str(TARGET_TIMEOUT_MS), **given)
    subject.stop_at_current_end()
    return subject


def test_available_now_waits_for_queues_that_are_unavailable_and_reads_them() -> None:
    """It would end without them, and state nothing."""
    member = UnavailableForAWhile({A: holding(10), B: holding(10)}, stored={A: 10, B: 4}, unavailable={B})
    _, ranges = read(available_now(member), reached((A, 10), (B, 4)))
    assert ranges == [QueueRange(B, 4, 10)]


def test_available_now_does_not_end_while_queues_are_unavailable_that_it_has_not_finished() -> None:
    member = UnavailableForAWhile({A: holding(10), B: holding(10)}, stored={A: 0, B: 0})
    subject = available_now(member)
    end, _ = read(subject, SourceOffset(), limit=8)
    member.unavailable = {B}
    ranges = []
    for _ in range(3):
        end, more = read(subject, end, limit=8)
        ranges += more
    assert ranges == [QueueRange(A, 4, 10), QueueRange(B, 4, 10)]


def test_available_now_ends_without_queues_that_may_be_dropped() -> None:
    member = UnavailableForAWhile({A: holding(10), B: holding(10)}, stored={A: 4, B: 4}, unavailable={B})
    subject = available_now(member, missingQueues="drop")
    end, ranges = read(subject, reached((A, 4), (B, 4)))
    assert ranges == [QueueRange(A, 4, 10)]
    assert subject.latest_offset(end, None) is end
    assert member.clock() == 0
    assert end.queues[B].end_offset == 4


def test_available_now_ends_though_the_last_batch_of_a_dropped_queue_cannot_be_committed_any_more() -> None:
    """Its topic was deleted while the batch was written, and the group's offset with it. The run never ended."""
    member = UnavailableForAWhile({A: holding(10)})
    subject = available_now(member, missingQueues="drop")
    end, _ = read(subject, SourceOffset())
    assert end.queues[A].end_offset == 10
    broker = member.cluster.brokers["broker-a"]
    broker.offsets.pop(A, None)
    broker.stored_ms.pop(A)
    member.cluster.name_server_error = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:9876")
    assert subject.latest_offset(end, None) is end


def test_available_now_ends_without_queues_that_are_dropped_on_the_way() -> None:
    member = UnavailableForAWhile({A: holding(10), B: holding(10)}, stored={A: 0, B: 0})
    subject = available_now(member, missingQueues="drop")
    end, _ = read(subject, SourceOffset(), limit=8)
    member.unavailable = {B}
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 4, 10)]
    assert subject.latest_offset(end, None) is end
    assert member.clock() == 0


def test_available_now_reads_no_queue_that_came_later() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    member.hold(B, holding(10))
    assert subject.latest_offset(end, None) is end


class UnavailableInBetween(SteadyMember):
    """The last queue goes while the query waits for another member, and comes back."""

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        self.unavailable = {queue(2)} if 30_000 <= self.clock() < 50_000 else set()
        return True


def test_available_now_waits_for_others_again_when_queues_were_unavailable() -> None:
    theirs, *others = queues(3)
    member = UnavailableInBetween(
        dict.fromkeys((theirs, *others), holding(10)),
        stored={theirs: 4, **dict.fromkeys(others, 10)},
        not_owned={theirs},
    )
    subject = planner(member, clusterTimeoutMs=str(TARGET_TIMEOUT_MS))
    subject.stop_at_current_end()
    run_to_end(subject, reached(*((one, 10) for one in others)))
    assert 50_000 + TARGET_TIMEOUT_MS - 1_000 <= member.clock() <= 50_000 + TARGET_TIMEOUT_MS + 1_000


def test_while_others_read_spark_is_given_batches_without_rows_and_can_use_the_other_loads() -> None:
    """Two loads of one group in one query are members of it, and Spark asks one after the other."""
    member = Waiting({A: holding(10), B: holding(10)}, stored={A: 10, B: 4}, not_owned={B})
    subject = planner(member)
    subject.stop_at_current_end()
    start = reached((A, 10))
    first, ranges = read(subject, start)
    assert (ranges, first == start, first.queues[A].end_offset) == ([], False, 10)
    assert OTHER_MEMBERS_WAIT_MS <= member.clock() <= OTHER_MEMBERS_WAIT_MS + 1_000
    second, ranges = read(subject, first)
    assert (ranges, second == first) == ([], False)
    member.store(B, 10)
    assert subject.latest_offset(second, None) is second


def test_what_is_waited_for_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    targets = AvailableNowTargets(TARGET_TIMEOUT_MS)
    targets.fix_targets(snapshot((A, 6), (B, 7)))
    for stored in (0, 0, 3):
        targets.check_progress(reached((A, 6)), {B: stored}, now_ms=0)
    assert caplog.messages == [
        (
            "TARGET_OFFSETS_NOT_REACHED: availableNow waits for other members to commit their queues up to the target "
            f"offsets. If they commit nothing for 60 s, the query ends without an error: queue={B} remaining=7"
        )
    ]
