"""Ranges that the broker has deleted, and queues that are away."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.support.steady_member import (
    ADDRESS,
    A,
    B,
    DrainRequest,
    LateRouteMember,
    SteadyMember,
    holding,
    planner,
    reached,
    read,
)
from rocketmq_spark.errors import DataLossError, RouteError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


def half_deleted() -> tuple[SteadyMember, SourceOffset, list[QueueRange]]:
    """A batch that is logged, of which retention has taken something of each queue since."""
    replayed = SourceOffset({A: QueueProgress(10, 30, 1_000), B: QueueProgress(0, 9, 1_000)})
    member = SteadyMember({A: holding(30, min_offset=20), B: holding(9, min_offset=5)}, stored={A: 10, B: 0})
    return member, replayed, list(replayed.ranges())


def test_what_was_deleted_of_a_batch_before_it_is_read_again_is_one_error() -> None:
    member, replayed, decision = half_deleted()
    with pytest.raises(DataLossError, match=r" 15 offsets .* \[10, 20\) of orders@broker-a:0, \[0, 5\) of "):
        planner(member).recover(replayed, decision)


def test_or_one_line_and_the_tasks_have_it_as_reported(caplog: pytest.LogCaptureFixture) -> None:
    member, replayed, decision = half_deleted()
    subject = planner(member, failOnDataLoss="false")
    assert [str(lost) for lost in subject.recover(replayed, decision)] == [f"[10, 20) of {A}", f"[0, 5) of {B}"]
    assert sum("Skipping 15 offsets" in line for line in caplog.messages) == 1
    assert subject.losses.offsets == 15


def test_what_is_skipped_of_it_is_not_lost() -> None:
    member, replayed, decision = half_deleted()
    with pytest.raises(DataLossError, match=rf" 5 offsets .*: \[0, 5\) of {B}: "):
        planner(member).recover(replayed, decision[1:])


def test_what_retention_took_fails_the_query() -> None:
    member = SteadyMember({A: holding(30, min_offset=20)}, stored={A: 10})
    with pytest.raises(DataLossError, match=r"\[10, 20\) of orders@broker-a:0.*retention"):
        planner(member).latest_offset(SourceOffset(), None)


def test_what_retention_took_of_several_queues_is_one_error_with_all_of_them() -> None:
    """It used to name the first queue only."""
    member = SteadyMember({A: holding(30, min_offset=20), B: holding(9, min_offset=5)}, stored={A: 10, B: 0})
    with pytest.raises(DataLossError, match=r" 15 offsets .* \[10, 20\) of orders@broker-a:0, \[0, 5\) of "):
        planner(member).latest_offset(SourceOffset(), None)


def test_what_is_passed_over_is_one_line_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    member = SteadyMember({A: holding(30, min_offset=20), B: holding(9, min_offset=5)}, stored={A: 10, B: 0})
    subject = planner(member, failOnDataLoss="false")
    read(subject, SourceOffset())
    (line,) = (line for line in caplog.messages if "Skipping" in line)
    ranges = f"[10, 20) of {A}, [0, 5) of {B}: the broker deleted them (retention)"
    assert line == (
        "DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping 15 offsets that the query has not read; their messages are in no "
        f"output: {ranges}"
    )
    assert (subject.losses.offsets, subject.losses.ranges) == (15, 2)


def test_what_retention_took_is_passed_over_and_logged_where_the_user_allows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = SteadyMember({A: holding(30, min_offset=20)}, stored={A: 10})
    _, ranges = read(planner(member, failOnDataLoss="false"), SourceOffset())
    assert ranges == [QueueRange(A, 20, 30)]
    assert member.stored == {A: 20}
    assert "[10, 20) of orders@broker-a:0" in caplog.text


def test_after_a_queue_lost_its_end_reading_resumes_there_and_only_there() -> None:
    """A killed broker may lose messages and keep the group's offset. The group's 100 used to be found too large again
    with each new message, until the queue had grown so far: it was read from its beginning each time."""
    member = SteadyMember({A: holding(50, stored_at_ms=900)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    end, ranges = read(subject, SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert ranges == []
    assert end.queues[A].end_offset == 50, "else a restart finds the larger number again"
    assert member.stored == {A: 50}
    member.hold(A, holding(51, stored_at_ms=2_000))
    member.has_news = True
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 50, 51)]


def test_a_recreated_queue_is_read_once_from_its_beginning() -> None:
    member = SteadyMember({A: holding(10, stored_at_ms=2_000)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    end, ranges = read(subject, SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert ranges == [QueueRange(A, 0, 10)]
    member.hold(A, holding(12, stored_at_ms=3_000))
    member.has_news = True
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]
    assert member.stored == {A: 10}


def test_a_queue_whose_offset_could_not_be_lowered_is_not_planned() -> None:
    class Stopped(SteadyMember):
        def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            drain_request.is_wanted = True
            return False

    drain_request = DrainRequest()
    member = Stopped({A: holding(10, stored_at_ms=2_000)}, stored={A: 100}, not_confirming={A})
    start = SourceOffset({A: QueueProgress(0, 100, 1_000)})
    assert planner(member, drain=drain_request, failOnDataLoss="false").latest_offset(start, None) is start
    assert drain_request.is_answered


def test_a_recreated_queue_stays_so_until_its_offset_could_be_lowered() -> None:
    """It used to count as verified all the same; the next plan continued at the old position, past new messages."""
    held = {A: holding(150, stored_at_ms=2_000)}
    member = LateRouteMember(held, stored_after={A: 0}, stored={A: 100}, not_confirming={A})
    _, ranges = read(planner(member, failOnDataLoss="false"), SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert member.stored_before == {A: 100}
    assert ranges == [QueueRange(A, 0, 150)]


def test_queues_that_are_unavailable_keep_their_position_and_are_read_on_from_there() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.unavailable, member.has_news = {B}, True
    member.hold(A, holding(15))
    member.unavailable = {B}
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 15)]
    assert end.queues[B] == QueueProgress(10, 10, 1_000)
    member.hold(B, holding(17))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 10, 17)]


def test_a_query_rests_while_all_that_it_has_read_may_be_dropped_whichever_other_broker_is_unresponsive() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, unavailable={A, B}, is_complete=False)
    start = SourceOffset(dict.fromkeys((A, B), QueueProgress(10, 10, 1_000)))
    assert planner(member, missingQueues="drop").latest_offset(start, None) is start


def test_queues_that_stay_unavailable_end_the_query_though_nothing_else_happens() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)})
    clock, subject = member.clock, planner(member, missingQueuesTimeoutMs="60000")
    end, _ = read(subject, SourceOffset())
    member.unavailable = {B}
    assert subject.latest_offset(end, None) is end
    clock.advance(59_999)
    assert subject.latest_offset(end, None) is end
    clock.advance(1)
    queue = rf"orders@broker-a:1 at offset 10, last broker address {ADDRESS}"
    with pytest.raises(RouteError, match=rf"QUEUES_UNAVAILABLE\.TIMEOUT.*60000 ms \(limit 60000 ms\): {queue}"):
        subject.latest_offset(end, None)


def test_queues_that_are_back_when_the_limit_is_reached_end_nothing() -> None:
    """The last survey knew them as away; nothing had been asked since."""

    class BackInTime(SteadyMember):
        def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            self.clock.advance(60_000)
            self.unavailable = set()
            return super().wait_for_change(positions, timeout_ms)

    member, start = BackInTime({A: holding(10)}, stored={A: 10}, unavailable={A}), reached((A, 10))
    assert planner(member, missingQueuesTimeoutMs="60000").latest_offset(start, None) is start
    assert member.outages == 1


def test_a_broker_that_was_unresponsive_is_raised_to_where_we_are_when_it_is_back() -> None:
    """A killed broker forgets what was committed in its last seconds; while nothing new came, nobody told it again."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.unresponsive = {"broker-a"}
    assert subject.latest_offset(end, None) is end
    member.unresponsive = set()
    member.cluster.brokers["broker-a"].restart()
    member.store(A, 3)
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}
