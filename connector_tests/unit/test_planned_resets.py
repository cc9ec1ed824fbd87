"""What an operator's reset does to the next batch, and to one that is replayed."""

from __future__ import annotations

import pytest

from connector_tests.support.steady_member import (
    ADDRESS,
    ELSEWHERE,
    A,
    B,
    DrainRequest,
    LateRouteMember,
    SteadyMember,
    holding,
    planner,
    read,
)
from rocketmq_spark.model import QueueRange
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


def test_an_operators_reset_wins_over_checkpoint_and_group() -> None:
    member = SteadyMember({A: holding(100), B: holding(100)}, stored={A: 100, B: 100}, resets={A: 20})
    subject, start = planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000), B: QueueProgress(90, 100, 1_000)})
    end, ranges = read(subject, start)
    assert ranges == [QueueRange(A, 20, 100)]
    assert member.stored == {A: 20, B: 100}
    assert subject.latest_offset(end, None) is end


@pytest.mark.parametrize(("offset", "position"), [(2, 4), (4, 4), (10, 10), (500, 10)])
def test_a_reset_leads_to_what_the_queue_has(offset: int, position: int) -> None:
    held = holding(10, min_offset=4)
    member = SteadyMember({A: held}, stored={A: 7}, resets={A: offset})
    subject = planner(member)
    subject.latest_offset(SourceOffset({A: QueueProgress(7, 7, 1_000)}), 0)
    assert (subject.backlog.lag, member.stored) == ({A: 10 - position}, {A: position})


def test_a_reset_of_a_queue_of_another_member_is_left_to_that(caplog: pytest.LogCaptureFixture) -> None:
    member = SteadyMember(
        {A: holding(9), B: holding(9)}, stored={A: 9, B: 9}, resets={B: 3}, not_owned={B}, has_news=True
    )
    subject, start = planner(member), SourceOffset({A: QueueProgress(9, 9, 1_000), B: QueueProgress(9, 9, 1_000)})
    assert subject.latest_offset(start, None) is start
    assert member.stored == {A: 9, B: 9}
    member.not_owned = set()
    assert subject.latest_offset(start, None) is start
    assert "reset" not in caplog.text


def test_an_operators_reset_whose_mark_an_executor_has_received_is_obeyed_by_a_running_query() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.hold(A, holding(14))
    end, _ = read(subject, end)
    member.store(A, 2)
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 2, 14)]
    assert member.stored == {A: 2}


def test_a_reset_that_is_pending_holds_up_no_graceful_stop() -> None:
    member, drain = SteadyMember({A: holding(10)}, has_news=True), DrainRequest()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset(), limit=4)
    end, _ = read(subject, end, limit=4)
    member.store(A, 2)
    drain.is_wanted = True
    assert subject.latest_offset(end, None) is end
    assert (member.stored, drain.is_answered) == ({A: 2}, True)


def test_a_reset_of_a_queue_whose_broker_does_not_respond_is_obeyed_when_it_does() -> None:
    held = {A: holding(100), ELSEWHERE: holding(9)}
    member = LateRouteMember(held, stored={A: 100, ELSEWHERE: 9}, resets={A: 20, ELSEWHERE: 3})
    start = SourceOffset({A: QueueProgress(90, 100, 1_000), ELSEWHERE: QueueProgress(0, 9, 1_000)})
    subject = planner(member)
    member.unresponsive, member.not_confirming = {"broker-b"}, {A}
    _, ranges = read(subject, start)
    assert member.stored_before == {A: 100, ELSEWHERE: 9}
    assert ranges == [QueueRange(A, 20, 100), QueueRange(ELSEWHERE, 3, 9)]


def test_a_mark_that_is_found_before_a_batch_is_read_again_is_obeyed_after_it() -> None:
    member = SteadyMember({A: holding(100)}, stored={A: 20}, marks={A: 20})
    subject, replayed = planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000), B: QueueProgress(5, 5)})
    subject.recover(replayed, [])
    assert member.marks == {}, "the pulls of the batch would have taken it, and nobody have been told"
    _, ranges = read(subject, replayed)
    assert ranges == [QueueRange(A, 20, 100)]


def test_a_replayed_batch_is_pulled_from_where_the_refresh_found_its_broker() -> None:
    member = SteadyMember({A: holding(100)})
    subject = planner(member)
    member.observed.refresh_metadata()
    subject.recover(SourceOffset({A: QueueProgress(90, 100, 1_000)}), [])
    assert subject.masters["broker-a"] == ADDRESS


def test_a_reset_to_the_range_of_the_last_batch_moves_back_before_it_reads() -> None:
    """The end offset was equal to the start's, to the letter; Spark took that for 'no new data' and read nothing."""
    member = SteadyMember({A: holding(5)}, stored={A: 5}, resets={A: 0})
    subject, start = planner(member), SourceOffset({A: QueueProgress(0, 5, 1_000)})
    back, ranges = read(subject, start)
    assert back != start
    assert ranges == []
    again, ranges = read(subject, back)
    assert ranges == [QueueRange(A, 0, 5)]
    assert subject.latest_offset(again, None) is again
