"""What a batch reads, what it proves, and how a query ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from connector_tests.support.queues import queues
from connector_tests.support.simulated_cluster import MESSAGE_BYTES
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
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.spark_version import MAX_ROWS
from rocketmq_spark.wire.body.task_report import ReadSize, TaskReport


@pytest.mark.parametrize("stored", [20, 60])
def test_broadcasting_resumes_at_the_checkpoint_whatever_the_file_has_and_corrects_it(stored: int) -> None:
    """Who restores an old checkpoint gets what came after it again."""
    member = SteadyMember({A: holding(100), B: holding(50)}, stored={A: stored, B: 10})
    subject = planner(member, messageModel="BROADCASTING", instanceName="one")
    _, ranges = read(subject, SourceOffset({A: QueueProgress(30, 40, 1_000)}))
    assert ranges == [QueueRange(A, 40, 100), QueueRange(B, 10, 50)]
    assert member.in_file == {A: 40, B: 10}


def test_broadcasting_logs_where_the_file_resumes_and_nothing_of_what_brokers_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = SteadyMember({A: holding(100), B: holding(50)}, stored={B: 10})
    subject = planner(member, messageModel="BROADCASTING", instanceName="one")
    with caplog.at_level(logging.INFO, "rocketmq_spark.source"):
        read(subject, SourceOffset())
        read(planner(member, messageModel="BROADCASTING", instanceName="one"), reached((A, 40)))
    (line,) = caplog.messages
    assert line.startswith(
        "GROUP_OFFSETS_RESUMED: Checkpoint has no offsets of these queues; resuming from those of this query's file"
    )


def test_what_is_planned_keeps_the_store_time_that_is_known_where_a_clock_was_set_back() -> None:
    member = SteadyMember({A: holding(20)}, stored={A: 10})
    member.store_times(A, *[5_000] * 10, *[2_000] * 10)
    end, _ = read(planner(member), SourceOffset({A: QueueProgress(5, 10, 5_000)}))
    assert end.queues == {A: QueueProgress(10, 20, 5_000)}


def test_a_commit_of_another_member_since_the_refresh_is_no_sign_of_a_lost_queue() -> None:
    """The bounds were asked before the group's offset, and a ghost committed in between: its commit lay beyond
    them, and the planner took the topic for a new one of the same name."""
    member = SteadyMember({A: holding(100)}, stored={A: 95})
    subject = planner(member)

    def a_ghost_reads_on() -> None:
        member.hold(A, holding(110))
        member.store(A, 105)

    member.observed.after_refresh = a_ghost_reads_on
    _, ranges = read(subject, SourceOffset({A: QueueProgress(90, 100, 1_000)}))
    assert ranges == [QueueRange(A, 105, 110)]


def test_the_first_batch_reads_from_the_first_positions_on() -> None:
    member = SteadyMember({A: holding(10, min_offset=4), B: holding(20)})
    _, ranges = read(planner(member), SourceOffset())
    assert ranges == [QueueRange(A, 4, 10), QueueRange(B, 0, 20)]
    assert member.stored == {A: 4, B: 0}
    assert member.observed.planned[-1] == {A: (4, 10), B: (0, 20)}


def test_latest_starts_at_the_end_and_reports_it_in_the_first_offset() -> None:
    """Nothing else would remember it: what is stored before the next start of the query would be skipped."""
    member = SteadyMember({A: holding(10)})
    end, ranges = read(planner(member, startingOffsets="latest"), SourceOffset())
    assert ranges == []
    assert end.queues == {A: QueueProgress(10, 10, 1_000)}
    assert member.stored == {A: 10}


def test_a_time_starts_every_queue_with_its_first_message_since_then() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B}, stored_after={A: 7})  # B: none, its end
    _, ranges = read(
        planner(member, startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest"), SourceOffset()
    )
    assert ranges == [QueueRange(A, 7, 10)]
    assert member.stored == {A: 7, B: 20}


@pytest.mark.parametrize(
    "unknown",
    [{"is_complete": False}, {"not_searching": {B}}, {"not_confirming": {B}}],
    ids=lambda unknown: next(iter(unknown)),
)
def test_the_first_call_waits_until_it_is_resolved_where_the_topic_begins(unknown: dict[str, Any]) -> None:
    """It used to answer an empty offset. Spark ran an empty batch with it, and what was sent after that batch was
    before the beginning."""
    member = LateRouteMember({A: holding(10), B: holding(20)}, stored_after={A: 7}, **unknown)  # B: none, its end
    _, ranges = read(
        planner(member, startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest"), SourceOffset()
    )
    assert member.stored_before is not None
    assert B not in member.stored_before
    assert ranges == [QueueRange(A, 7, 10)]
    assert member.stored == {A: 7, B: 20}


def test_few_messages_are_delayed_until_there_are_enough_or_the_time_is_over() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member, minOffsetsPerTrigger="5", maxTriggerDelay="60s")
    end, ranges = read(subject, SourceOffset(), MAX_ROWS)
    assert ranges == [QueueRange(A, 0, 10)]
    member.hold(A, holding(14))
    for _ in range(3):
        assert subject.latest_offset(end, MAX_ROWS) is end
    assert subject.backlog.lag == {A: 4}
    member.hold(A, holding(15))
    end, ranges = read(subject, end, MAX_ROWS)
    assert ranges == [QueueRange(A, 10, 15)]
    member.hold(A, holding(16))
    assert subject.latest_offset(end, MAX_ROWS) is end
    member.clock.advance(60_000)
    end, ranges = read(subject, end, MAX_ROWS)
    assert ranges == [QueueRange(A, 15, 16)]


def test_bytes_are_estimated_from_first_messages_and_then_from_reports() -> None:
    member = SteadyMember({A: holding(100)})
    subject = planner(member, maxBytesPerTrigger="1000")
    end, ranges = read(subject, SourceOffset(), MAX_ROWS)
    assert ranges == [QueueRange(A, 0, 1_000 // MESSAGE_BYTES)]
    member.observed.task_reports.add(TaskReport(read=(ReadSize(A, 10, 400),)))
    end, ranges = read(subject, end, MAX_ROWS)
    assert ranges == [QueueRange(A, 10, 35)]
    _, ranges = read(subject, end, None)
    assert ranges == [QueueRange(A, 35, 100)]


def test_once_has_no_minimum() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member, minOffsetsPerTrigger="5")
    end, _ = read(subject, SourceOffset(), None)
    member.hold(A, holding(11))
    _, ranges = read(subject, end, None)
    assert ranges == [QueueRange(A, 10, 11)]


def test_a_first_call_that_waits_is_ended_by_a_graceful_stop() -> None:
    class Stopped(SteadyMember):
        def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            drain.is_wanted = True
            return False

    member, drain, start = Stopped({A: holding(10)}, is_complete=False), DrainRequest(), SourceOffset()
    assert planner(member, drain=drain).latest_offset(start, None) is start
    assert (member.has_left, member.stored) == (True, {})


def test_a_first_call_without_a_queue_of_its_own_does_not_wait() -> None:
    member, start = SteadyMember({A: holding(10)}, not_owned={A}), SourceOffset()
    assert planner(member).latest_offset(start, None) is start
    assert member.stored == {A: 0}


def test_first_positions_are_written_for_queues_of_others_too() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B})
    read(planner(member, startingOffsets="latest"), SourceOffset())
    assert member.stored == {A: 10, B: 20}


def test_the_next_batch_reads_on_and_proves_the_one_before() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(15))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 15)]
    assert member.observed.proven == {A: 10}


def test_each_queue_is_completed_once_while_it_is_ours() -> None:
    """Where one has become another since, the offset states nothing of that. One that comes later is proven then."""
    member = SteadyMember({A: holding(10), B: holding(10)}, stored={A: 10, B: 10}, not_owned={B}, has_news=True)
    subject, start = planner(member), reached((A, 10), (B, 10))
    proven = []
    for others in ({B}, {B}, {B}, set(), set(), set()):
        member.not_owned, member.observed.proven = others, {}
        assert subject.latest_offset(start, None) is start
        proven.append(set(member.observed.proven))
    assert proven == [{A, B}, {A, B}, {B}, {B}, {B}, set()], "none is held before the first survey"


def test_a_planner_reports_where_the_refresh_found_queues_and_how_many_completions_came_late() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    assert (subject.masters, subject.completed_after_rebalance) == ({}, 0)
    end, _ = read(subject, SourceOffset())
    subject.latest_offset(end, None)
    assert (subject.masters["broker-a"], subject.completed_after_rebalance) == (ADDRESS, 0)


def test_without_anything_new_the_start_itself_is_returned() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    assert subject.latest_offset(end, None) is end


def test_an_idle_call_sends_no_request() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    subject.latest_offset(end, None)
    refresh_count = member.observed.refresh_count
    subject.latest_offset(end, None)
    assert member.observed.refresh_count == refresh_count
    member.has_news = True
    subject.latest_offset(end, None)
    assert member.observed.refresh_count == refresh_count + 1


def test_what_another_member_has_read_meanwhile_is_not_read_again() -> None:
    member = SteadyMember({A: holding(30)}, stored={A: 20})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(0, 10)}))
    assert ranges == [QueueRange(A, 20, 30)]


def test_the_broker_is_raised_to_where_the_checkpoint_is() -> None:
    member = SteadyMember({A: holding(30)}, stored={A: 5})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(0, 10)}))
    assert ranges == [QueueRange(A, 10, 30)]
    assert member.stored[A] >= 10


def test_a_queue_whose_offset_is_not_confirmed_is_not_planned() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, stored={A: 0, B: 0}, not_confirming={B})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(0, 5), B: QueueProgress(0, 5)}))
    assert ranges == [QueueRange(A, 5, 10)]


def test_queues_of_others_keep_their_last_position_in_the_offset() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, not_owned={B}, stored={B: 9})
    end, _ = read(planner(member), SourceOffset({B: QueueProgress(2, 7, 5)}))
    assert end.queues[B] == QueueProgress(7, 7, 5)


def test_a_queue_that_rests_keeps_the_store_time_of_its_position() -> None:
    """What has been stored since may be another queue's, and would hide that."""
    bounds = {one: holding(10, stored_at_ms=9_000) for one in (A, B)}
    start = SourceOffset(dict.fromkeys((A, B), QueueProgress(5, 5, 1_000)))
    end, ranges = read(planner(SteadyMember(bounds, stored_after={A: 5, B: 5})), start, limit=1)
    (planned,) = ranges
    (resting,) = {A, B} - {planned.queue}
    assert end.queues[resting] == QueueProgress(5, 5, 1_000)


def test_a_queue_that_rests_and_has_no_store_time_yet_gets_one() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, stored={A: 10, B: 4})
    end, ranges = read(planner(member), SourceOffset({A: QueueProgress(10, 10, 0), B: QueueProgress(4, 4, 1_000)}))
    assert ranges == [QueueRange(B, 4, 10)]
    assert end.queues[A] == QueueProgress(10, 10, 1_000)


def test_a_limit_below_one_offset_a_queue_serves_them_round_robin() -> None:
    member = SteadyMember({A: holding(1_000), B: holding(3)})
    subject = planner(member)
    first, first_ranges = read(subject, SourceOffset(), limit=1)
    _, second_ranges = read(subject, first, limit=1)
    assert (first_ranges, second_ranges) == ([QueueRange(A, 0, 1)], [QueueRange(B, 0, 1)])


def test_each_queue_is_served_before_any_is_served_twice() -> None:
    """However much waits in some of them."""
    three = queues(3)
    subject = planner(SteadyMember({one: holding(count) for one, count in zip(three, (1_000, 50, 9), strict=True)}))
    end, served = SourceOffset(), []
    for _ in range(6):
        end, (queue_range,) = read(subject, end, limit=1)
        served.append(queue_range.queue)
    assert served == [*three, *three]


def test_a_queue_that_was_lost_is_forgotten_and_probed_again_when_it_comes_back() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.not_owned = {B}
    assert subject.latest_offset(end, None) is end
    assert subject.backlog.max_offsets == {A: 10}
    member.not_owned = set()
    member.hold(B, holding(30))
    member.store(B, 25)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 25, 30)]


def test_progress_shows_the_lag_behind_the_max_offsets() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B})
    subject = planner(member)
    read(subject, SourceOffset(), limit=4)
    assert (subject.backlog.max_offsets, subject.backlog.lag) == ({A: 10}, {A: 6})
    assert subject.backlog.waiting_ms(1_700) == {A: 700}


@pytest.mark.parametrize("failure", [{"unresponsive": {"broker-a"}}, {"unavailable": {B}}])
def test_the_lag_is_unknown_while_a_queue_of_ours_is_unavailable(failure: dict[str, Any]) -> None:
    """It used to be 0, beside what was waited for."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    knew = subject.backlog.is_complete
    for name, state in failure.items():
        setattr(member, name, state)
    subject.latest_offset(end, None)
    assert (knew, subject.backlog.is_complete) == (True, False)
    member.unresponsive = member.unavailable = set()
    subject.latest_offset(end, None)
    assert (subject.backlog.is_complete, subject.backlog.lag) == (True, {A: 0, B: 0})


def test_the_lag_is_unknown_while_the_query_runs_without_queues() -> None:
    """It used to be that of the others: 0, whatever waits in those that are away."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, missingQueues="drop")
    end, _ = read(subject, SourceOffset())
    member.unavailable = {B}
    subject.latest_offset(end, None)
    assert (subject.backlog.is_complete, subject.backlog.lag) == (False, {A: 0})
    member.unavailable = set()
    subject.latest_offset(end, None)
    assert (subject.backlog.is_complete, subject.backlog.lag) == (True, {A: 0, B: 0})


def test_a_member_without_a_queue_has_no_lag_and_one_that_has_received_nothing_has_no_lag() -> None:
    member = SteadyMember({A: holding(10)}, not_owned={A}, has_news=True)
    subject = planner(member)
    knew = subject.backlog.is_complete
    read(subject, SourceOffset())
    assert (knew, subject.backlog.is_complete, subject.backlog.lag) == (False, True, {})
    member.unresponsive = {"broker-a"}
    subject.latest_offset(SourceOffset(), None)
    assert not subject.backlog.is_complete


def test_the_lag_of_our_queues_is_known_though_others_are_unavailable() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.cluster.set_others("you")
    member.is_complete = False
    assert subject.latest_offset(end, None) is end
    assert not member.observed.refresh_metadata().is_complete
    assert (subject.backlog.is_complete, subject.backlog.lag) == (True, {A: 0})


def test_bounds_that_no_queue_has_are_neither_a_loss_nor_nothing_new() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(0, min_offset=7))
    assert subject.latest_offset(end, None) is end
    assert (subject.losses.offsets, subject.backlog.is_complete) == (0, False)
    assert "INVALID_QUEUE_OFFSETS" in member.observed.log_and_snapshot().outages[0].reason


def test_a_graceful_stop_proves_the_last_batch_plans_nothing_new_and_leaves() -> None:
    member, drain = SteadyMember({A: holding(10)}), DrainRequest()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(20))
    drain.is_wanted = True
    assert subject.latest_offset(end, None) is end
    assert member.observed.proven == {A: 10}
    assert (member.has_left, drain.is_answered) == (True, True)


def test_a_graceful_stop_that_waits_for_a_broker_calls_only_when_there_is_something_to_request() -> None:
    """It used to survey five times a second."""
    member, drain = SteadyMember({A: holding(10)}), DrainRequest()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    drain.is_wanted, member.not_confirming, refresh_count = True, {A}, member.observed.refresh_count
    for _ in range(5):
        assert subject.latest_offset(end, None) is end
    assert member.observed.refresh_count == refresh_count


def test_a_run_that_ends_by_itself_is_not_over_before_what_it_has_read_is_confirmed() -> None:
    member, drain = LateRouteMember({A: holding(10)}), DrainRequest()
    subject = planner(member, drain=drain)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    drain.is_wanted, member.not_confirming = True, {A}
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}


def test_a_graceful_stop_that_waits_for_a_broker_searches_for_no_losses_in_what_it_will_not_read() -> None:
    member, drain = SteadyMember({A: holding(10)}, has_news=True), DrainRequest()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    drain.is_wanted, member.not_confirming = True, {A}
    member.hold(A, holding(20, min_offset=15))
    assert subject.latest_offset(end, None) is end


class WithdrawnAtLast(DrainRequest):
    def claim(self) -> bool:
        self.is_wanted = False
        return False


def test_a_first_call_plans_when_the_request_to_stop_it_gracefully_is_withdrawn() -> None:
    """An AvailableNow run would be over, with nothing."""
    subject = planner(SteadyMember({A: holding(10)}), drain=WithdrawnAtLast(is_wanted=True))
    subject.stop_at_current_end()
    assert read(subject, SourceOffset())[1] == [QueueRange(A, 0, 10)]


def test_a_query_resumes_when_the_request_to_stop_it_gracefully_is_withdrawn() -> None:
    member, drain = SteadyMember({A: holding(10)}), WithdrawnAtLast()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(20))
    drain.is_wanted = True
    assert subject.latest_offset(end, None) is end
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 20)]
    assert not member.has_left
