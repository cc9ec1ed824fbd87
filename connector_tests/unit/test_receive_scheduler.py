"""How many polls there are, to whom and how long."""

from __future__ import annotations

import logging
from itertools import product

import pytest

from connector_tests.support.state_tables import connected_states
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.pop.receive_scheduler import (
    LONG_POLL_MS,
    MAX_CONCURRENT_REQUESTS,
    MAX_MESSAGES_PER_REQUEST,
    REDELIVERY_WITHIN_MS,
    SHORT_POLL_MS,
    TRANSITIONS,
    PrefetchLimit,
    ReceiveRequest,
    ReceiveScheduler,
    Target,
    TargetEvent,
    TargetState,
)
from rocketmq_spark.remoting.outage_log import LogLine

A, B = Target("T", "broker-a"), Target("T", "broker-b")
ROOM = 1_000
INVISIBLE_MS = 10_500
PAIRS = list(product(TargetState, TargetEvent))


def polls_of(*targets: Target, is_available_now: bool = False) -> ReceiveScheduler:
    polls = ReceiveScheduler(is_available_now, INVISIBLE_MS)
    polls.set_targets(targets)
    return polls


def schedule(polls: ReceiveScheduler, *targets: Target, capacity: int = ROOM) -> list[ReceiveRequest]:
    return list(polls.schedule(capacity, targets))


def test_each_target_is_called_once_while_no_server_has_responded() -> None:
    polls = polls_of(A, B)
    assert schedule(polls, A, B) == [
        ReceiveRequest(A, MAX_MESSAGES_PER_REQUEST, SHORT_POLL_MS),
        ReceiveRequest(B, MAX_MESSAGES_PER_REQUEST, SHORT_POLL_MS),
    ]
    assert schedule(polls, A, B) == []


def test_a_broker_that_has_responded_may_take_its_time_and_one_that_had_something_is_called_several_times() -> None:
    """As long as everybody's polls: a broker gives what comes to the one that has the least time left."""
    polls = polls_of(A, B)
    schedule(polls, A, B)
    polls.mark_responded(A, has_messages=False)
    polls.mark_responded(B, has_messages=True)
    assert schedule(polls, A, B) == [ReceiveRequest(A, MAX_MESSAGES_PER_REQUEST, LONG_POLL_MS)] + [
        ReceiveRequest(B, MAX_MESSAGES_PER_REQUEST, LONG_POLL_MS)
    ] * (MAX_CONCURRENT_REQUESTS)
    assert schedule(polls, A, B) == []


def test_a_query_that_reads_what_is_there_checks_often_for_the_end() -> None:
    polls = polls_of(A, is_available_now=True)
    assert {poll.poll_ms for poll in schedule(polls, A)} == {SHORT_POLL_MS}
    polls.mark_responded(A, has_messages=True)
    assert {poll.poll_ms for poll in schedule(polls, A)} == {SHORT_POLL_MS}


def test_no_more_are_requested_than_there_is_space_for() -> None:
    assert schedule(polls_of(A), A, capacity=0) == []
    assert schedule(polls_of(A), A, capacity=1) == [ReceiveRequest(A, 1, SHORT_POLL_MS)]
    assert schedule(polls_of(A), A, capacity=5) == [ReceiveRequest(A, 5, SHORT_POLL_MS)]


def test_failing_target_is_polled_for_single_message_without_space() -> None:
    """Nothing else could end its failure, by which the query ended."""
    polls = polls_of(A, B)
    assert list(polls.schedule(0, [A, B], {B}.__contains__)) == [ReceiveRequest(B, 1, SHORT_POLL_MS)]
    assert list(polls.schedule(-1, [A, B], {B}.__contains__)) == []
    assert [poll.max_messages for poll in polls.schedule(5, [A, B], {B}.__contains__)] == [5]


def test_a_query_that_runs_once_polls_an_empty_target_that_fails() -> None:
    """As the last message there was in a batch and expired, no other request ended the failure."""
    polls = polls_of(A, B, is_available_now=True)
    empty_polls(polls, A, B)
    for capacity in (ROOM, 0):
        before = polls.are_all_empty
        assert list(polls.schedule(capacity, [A, B], {B}.__contains__)) == [ReceiveRequest(B, 1, SHORT_POLL_MS)]
        assert (before, polls.are_all_empty) == (True, False)
        assert list(polls.schedule(capacity, [A, B], {B}.__contains__)) == []
        polls.mark_responded(B, has_messages=False)
    assert polls.are_all_empty


def test_failing_target_with_messages_has_one_poll_without_space() -> None:
    """It had four, each for a message beyond the limit."""
    polls = polls_of(A)
    schedule(polls, A)
    polls.mark_responded(A, has_messages=True)
    assert list(polls.schedule(0, [A], {A}.__contains__)) == [ReceiveRequest(A, 1, LONG_POLL_MS)]
    assert list(polls.schedule(0, [A], {A}.__contains__)) == []


def test_a_broker_that_may_not_be_called_is_not() -> None:
    polls = polls_of(A, B)
    assert [poll.target for poll in schedule(polls, B)] == [B]


def test_all_have_responded_when_each_has() -> None:
    polls = polls_of(A, B)
    assert not ReceiveScheduler(False, INVISIBLE_MS).have_all_responded
    schedule(polls, A, B)
    polls.mark_responded(A, has_messages=True)
    polls.mark_failed(B)
    assert not polls.have_all_responded
    schedule(polls, A, B)
    polls.mark_responded(B, has_messages=False)
    assert polls.have_all_responded


def test_it_is_dry_when_the_last_one_that_was_on_its_way_has_brought_nothing() -> None:
    polls = polls_of(A, is_available_now=True)
    assert not ReceiveScheduler(True, INVISIBLE_MS).are_all_empty
    schedule(polls, A)
    polls.mark_responded(A, has_messages=True)
    schedule(polls, A)
    for _ in range(MAX_CONCURRENT_REQUESTS - 1):
        polls.mark_responded(A, has_messages=False)
        assert not polls.are_all_empty
    polls.mark_responded(A, has_messages=False)
    assert polls.are_all_empty


def test_a_query_that_runs_once_leaves_no_poll_behind_at_an_empty_broker() -> None:
    """It would take what is stored after the query's end, and nobody else would get that until its time is over."""
    polls = polls_of(A, B, is_available_now=True)
    schedule(polls, A, B)
    polls.mark_responded(A, has_messages=False)
    polls.mark_responded(B, has_messages=True)
    assert {poll.target for poll in schedule(polls, A, B)} == {B}
    assert polls.pending_requests == MAX_CONCURRENT_REQUESTS


def test_a_query_that_runs_once_calls_again_where_something_was_skipped_until_its_redelivery_is_due() -> None:
    polls = polls_of(A, is_available_now=True)
    for now_ms in (5_000, 5_000 + REDELIVERY_WITHIN_MS // 2, 5_000 + REDELIVERY_WITHIN_MS):
        schedule(polls, A)
        polls.mark_responded(A, has_messages=False)
        if now_ms == 5_000:
            polls.expect_redelivery(now_ms)
        assert not polls.are_all_empty
        polls.recheck_empty_targets(now_ms)
        assert not polls.are_all_empty
    assert schedule(polls, A) == [ReceiveRequest(A, MAX_MESSAGES_PER_REQUEST, SHORT_POLL_MS)]
    polls.mark_responded(A, has_messages=False)
    assert polls.are_all_empty
    polls.recheck_empty_targets(5_001 + REDELIVERY_WITHIN_MS)
    assert polls.are_all_empty


def test_a_query_that_does_not_run_once_polls_an_empty_broker_again() -> None:
    polls = polls_of(A)
    schedule(polls, A)
    polls.mark_responded(A, has_messages=False)
    assert schedule(polls, A) == [ReceiveRequest(A, MAX_MESSAGES_PER_REQUEST, LONG_POLL_MS)]
    polls.mark_responded(A, has_messages=True)
    assert not polls.are_all_empty


def test_a_broker_that_does_not_respond_is_not_dry() -> None:
    polls = polls_of(A)
    schedule(polls, A)
    polls.mark_responded(A, has_messages=False)
    schedule(polls, A)
    polls.mark_failed(A)
    assert not polls.are_all_empty


def test_a_group_that_has_begun_has_begun_while_no_name_server_has_a_route() -> None:
    """An outage: a query that waits for it still answers Spark, and so shows in its progress what it waits for."""
    polls = polls_of(A)
    schedule(polls, A)
    polls.mark_responded(A, has_messages=False)
    polls.set_targets([])
    assert polls.have_all_responded
    polls.set_targets([A])
    assert polls.have_all_responded


def test_a_response_while_no_name_server_has_a_route_is_no_begin() -> None:
    polls = polls_of(A)
    schedule(polls, A)
    polls.set_targets([])
    polls.mark_responded(A, has_messages=False)
    assert not polls.have_all_responded


def test_a_response_of_a_member_that_has_left_changes_nothing() -> None:
    polls = polls_of(A, B)
    schedule(polls, A, B)
    polls.set_targets([B])
    polls.mark_responded(A, has_messages=True)
    polls.mark_responded(B, has_messages=False)
    assert polls.are_all_empty
    assert polls.have_all_responded


def test_target_that_returns_is_empty_once_its_poll_from_before_is_back() -> None:
    """The poll was forgotten, then counted as one less than none: the query ended before the messages of another one in
    flight came, or never."""
    polls = polls_of(A, is_available_now=True)
    schedule(polls, A)
    polls.set_targets([])
    assert polls.pending_requests == 1
    polls.set_targets([A])
    assert (schedule(polls, A), polls.are_all_empty) == ([], False)
    polls.mark_responded(A, has_messages=False)
    assert (polls.pending_requests, polls.are_all_empty) == (0, True)


def test_target_that_left_the_route_is_not_empty_until_its_poll_is_back() -> None:
    """A name server had restarted, and a run to the end ended without the messages of that poll."""
    polls = polls_of(A, B, is_available_now=True)
    schedule(polls, A, B)
    polls.set_targets([A])
    polls.mark_responded(A, has_messages=False)
    assert (polls.pending_requests, polls.are_all_empty) == (1, False)
    polls.mark_responded(B, has_messages=True)
    assert (polls.pending_requests, polls.are_all_empty) == (0, True)


def test_target_that_comes_and_goes_has_no_more_polls_than_others() -> None:
    """Each time added one for good."""
    polls = polls_of(A)
    for _ in range(10):
        schedule(polls, A)
        polls.set_targets([])
        polls.set_targets([A])
    assert polls.pending_requests == 1
    polls.mark_responded(A, has_messages=True)
    assert len(schedule(polls, A)) == polls.pending_requests == MAX_CONCURRENT_REQUESTS


def test_topic_whose_first_route_fails_is_not_empty() -> None:
    """A run to the end ended without its messages, and a later one skipped what was stored meanwhile."""
    polls = polls_of(A, is_available_now=True)
    polls.set_targets([A], {"U"})
    schedule(polls, A)
    polls.mark_responded(A, has_messages=False)
    assert (polls.are_all_empty, polls.have_all_responded) == (False, False)
    other = Target("U", "broker-a")
    polls.set_targets([A, other])
    schedule(polls, A, other)
    polls.mark_responded(other, has_messages=False)
    assert (polls.are_all_empty, polls.have_all_responded) == (True, True)


def test_topic_that_fails_from_the_first_refresh_on_is_not_empty() -> None:
    """One of its proxies did not respond, and a run to the end ended as successful without its broker."""
    polls = ReceiveScheduler(True, INVISIBLE_MS)
    for _ in range(2):
        polls.set_targets([A], {"T"})
        empty_polls(polls, A)
        assert (polls.are_all_empty, polls.have_all_responded) == (False, False)
    polls.set_targets([A, B])
    empty_polls(polls, A, B)
    assert (polls.are_all_empty, polls.have_all_responded) == (True, True)


def test_topic_that_loses_a_target_as_it_fails_is_not_empty_until_it_recovers() -> None:
    """One of its proxies was unavailable for a moment."""
    polls = polls_of(A, B, is_available_now=True)
    empty_polls(polls, A, B)
    for failing in ({"T"}, {"T"}, ()):
        polls.set_targets([A], failing)
        assert polls.are_all_empty is not bool(failing)


def test_topic_that_keeps_its_last_route_while_it_fails_may_be_empty() -> None:
    """No name server has to respond at the end."""
    polls = polls_of(A, is_available_now=True)
    empty_polls(polls, A)
    polls.set_targets([A], {"T"})
    assert polls.are_all_empty


def test_those_that_are_not_back_are_on_the_way() -> None:
    polls = ReceiveScheduler(False, INVISIBLE_MS)
    targets = [Target("T", "a"), Target("T", "b")]
    polls.set_targets(targets)
    assert len(list(polls.schedule(100, targets))) == polls.pending_requests == 2
    polls.mark_responded(targets[0], has_messages=True)
    polls.mark_failed(targets[1])
    assert polls.pending_requests == 0


ISOLATED_MS = INVISIBLE_MS + REDELIVERY_WITHIN_MS
FAILURE = BrokerError(
    "PROXY_UNAVAILABLE",
    address="p:8081",
    request="ReceiveMessage",
    code=50001,
    code_name="INTERNAL_SERVER_ERROR",
    remark='For input string: "x". NumberFormatException',
)


def fail_conversion(polls: ReceiveScheduler, target: Target, now_ms: int) -> int:
    """A poll whose response fails for an unconvertible message; returns for how many messages it was."""
    (request,) = schedule(polls, target)
    polls.record_incomplete(request, 0, FAILURE, now_ms)
    polls.mark_failed(target)
    return request.max_messages


def test_after_failed_conversion_target_is_polled_for_single_messages() -> None:
    """All neighbours of the message counted a delivery attempt with each failure, and ended as dead letters unread."""
    polls = polls_of(A, B)
    fail_conversion(polls, A, now_ms=1_000)
    assert [poll.max_messages for poll in schedule(polls, A, B)] == [1, MAX_MESSAGES_PER_REQUEST]
    polls.mark_responded(A, has_messages=True)
    assert [poll.max_messages for poll in schedule(polls, A)] == [1] * MAX_CONCURRENT_REQUESTS


def test_isolation_lasts_until_redelivery_after_the_last_failure() -> None:
    polls = polls_of(A)
    fail_conversion(polls, A, now_ms=1_000)
    assert fail_conversion(polls, A, now_ms=9_000) == 1
    polls.recheck_empty_targets(9_000 + ISOLATED_MS - 1)
    assert [poll.max_messages for poll in schedule(polls, A)] == [1]
    polls.mark_responded(A, has_messages=False)
    polls.recheck_empty_targets(9_000 + ISOLATED_MS)
    assert [poll.max_messages for poll in schedule(polls, A)] == [MAX_MESSAGES_PER_REQUEST]


def test_isolation_outlives_a_route_without_the_target() -> None:
    polls = polls_of(A, B)
    fail_conversion(polls, A, now_ms=1_000)
    polls.set_targets([B])
    polls.recheck_empty_targets(2_000)
    polls.set_targets([A])
    assert [poll.max_messages for poll in schedule(polls, A)] == [1]


def test_isolation_is_logged_once_when_it_begins_and_ends() -> None:
    polls = polls_of(A)
    for now_ms in (1_000, 9_000):
        fail_conversion(polls, A, now_ms)
    (begin,) = polls.take_lines()
    assert (begin.level, begin.key) == (logging.WARNING, "UNCONVERTIBLE_MESSAGE")
    assert begin.text.startswith("A proxy cannot convert a message of topic=T broker=broker-a, and fails each ")
    assert begin.text.endswith(f" {FAILURE.summary}")
    assert polls.take_lines() == []
    polls.recheck_empty_targets(9_000 + ISOLATED_MS)
    end = LogLine(logging.INFO, "UNCONVERTIBLE_MESSAGE", "Recovered after 26 s: topic=T broker=broker-a")
    assert polls.take_lines() == [end]


def empty_polls(polls: ReceiveScheduler, *targets: Target) -> None:
    for poll in schedule(polls, *targets):
        polls.mark_responded(poll.target, has_messages=False)


def test_a_query_that_runs_once_awaits_redelivery_of_a_failed_response() -> None:
    """It ended as successful, without the messages of the failed response."""
    polls = polls_of(A, is_available_now=True)
    fail_conversion(polls, A, now_ms=1_000)
    for now_ms in (2_000, 1_000 + ISOLATED_MS - 1, 1_000 + ISOLATED_MS):
        empty_polls(polls, A)
        assert not polls.are_all_empty
        polls.recheck_empty_targets(now_ms)
        assert not polls.are_all_empty
    assert [poll.max_messages for poll in schedule(polls, A)] == [MAX_MESSAGES_PER_REQUEST]
    polls.mark_responded(A, has_messages=False)
    assert polls.are_all_empty


TIMED_OUT = BrokerError(
    "PROXY_UNAVAILABLE",
    address="p:8081",
    request="ReceiveMessage",
    code=50400,
    code_name="PROXY_TIMEOUT",
    remark="slow broker",
)


def test_a_query_that_runs_once_awaits_what_an_incomplete_response_lacks() -> None:
    """Not by polls for single messages: the next response may be complete."""
    polls = polls_of(A, is_available_now=True)
    (request,) = schedule(polls, A)
    polls.record_incomplete(request, MAX_MESSAGES_PER_REQUEST - 1, TIMED_OUT, now_ms=1_000)
    polls.mark_responded(A, has_messages=True)
    empty_polls(polls, A)
    for now_ms, is_empty in ((999 + ISOLATED_MS, False), (1_000 + ISOLATED_MS, True)):
        polls.recheck_empty_targets(now_ms)
        (request,) = schedule(polls, A)
        assert request.max_messages == MAX_MESSAGES_PER_REQUEST
        polls.mark_responded(A, has_messages=False)
        assert polls.are_all_empty is is_empty
    assert polls.take_lines() == []


def test_a_query_that_runs_once_awaits_nothing_of_a_response_with_all_messages_of_its_poll() -> None:
    """It lacks its end only."""
    polls = polls_of(A, is_available_now=True)
    (request,) = schedule(polls, A)
    polls.record_incomplete(request, request.max_messages, TIMED_OUT, now_ms=1_000)
    polls.mark_responded(A, has_messages=True)
    empty_polls(polls, A)
    assert polls.are_all_empty


def test_a_query_that_runs_once_awaits_no_single_message() -> None:
    """A failed response for one message hides no other: the query must not wait until that has no retry left."""
    polls = polls_of(A, is_available_now=True)
    fail_conversion(polls, A, now_ms=1_000)
    fail_conversion(polls, A, now_ms=9_000)
    polls.recheck_empty_targets(1_000 + ISOLATED_MS)
    empty_polls(polls, A)
    assert polls.are_all_empty
    polls.recheck_empty_targets(1_001 + ISOLATED_MS)
    assert polls.are_all_empty


def test_no_more_are_received_ahead_than_could_be_kept_and_a_few_more_with_each_batch() -> None:
    ahead = PrefetchLimit(1_000)
    seen = [ahead.max_messages]
    for kept in (400, None, 900, 0):
        if kept is None:
            ahead.grow()
        else:
            ahead.shrink(kept)
        seen.append(ahead.max_messages)
    assert seen == [1_000, 400, 432, 432, 32]
    for _ in range(100):
        ahead.grow()
    assert ahead.max_messages == 1_000


def test_it_is_never_more_than_the_limit() -> None:
    ahead = PrefetchLimit(5)
    ahead.shrink(0)
    ahead.grow()
    assert ahead.max_messages == 5


# ------------------------------------------------------------------------------------------------ the table


def in_state(state: TargetState) -> ReceiveScheduler:
    """One target, A, in ``state``."""
    polls = polls_of(A)
    if state is TargetState.NOT_ROUTED:
        polls.set_targets([])
    elif state is TargetState.EMPTY:
        empty_polls(polls, A)
    elif state is not TargetState.NEW:
        schedule(polls, A)
        polls.mark_responded(A, has_messages=True)
    if state is TargetState.UNKNOWN:
        schedule(polls, A)
        polls.mark_failed(A)
    assert polls._records[A].state is state
    return polls


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_target_changes_as_the_table_has_it_or_not_at_all(pair: tuple[TargetState, TargetEvent]) -> None:
    state, event = pair
    record = in_state(state)._records[A]
    if pair in TRANSITIONS:
        record.apply(event)
    else:
        with pytest.raises(ValueError, match=f"is {state.name}, which has no event {event.name}"):
            record.apply(event)
    assert record.state is TRANSITIONS.get(pair, state)


def test_no_target_is_stuck() -> None:
    """From every state there is a way to every other."""
    assert connected_states(TRANSITIONS) >= set(product(TargetState, TargetState))


def test_response_of_an_empty_target_raises_and_changes_nothing() -> None:
    """It is of a poll that is not counted."""
    polls = in_state(TargetState.EMPTY)
    with pytest.raises(ValueError, match="EMPTY, which has no event MESSAGES"):
        polls.mark_responded(A, has_messages=True)
    assert (polls.pending_requests, polls.are_all_empty) == (0, True)


def test_poll_to_a_removed_target_raises_and_is_not_in_flight() -> None:
    polls = in_state(TargetState.NOT_ROUTED)
    with pytest.raises(ValueError, match="NOT_ROUTED, which has no event RECHECKED"):
        schedule(polls, A)
    assert polls.pending_requests == 0


def test_target_whose_first_poll_failed_is_new() -> None:
    polls = polls_of(A, B)
    schedule(polls, A, B)
    polls.mark_failed(A)
    polls.mark_responded(B, has_messages=False)
    assert not polls.have_all_responded
    assert schedule(polls, A) == [ReceiveRequest(A, MAX_MESSAGES_PER_REQUEST, SHORT_POLL_MS)]


def test_target_without_a_poll_is_not_empty() -> None:
    assert not in_state(TargetState.NEW).are_all_empty


def test_one_of_several_polls_without_messages_is_not_replaced() -> None:
    polls = in_state(TargetState.HAS_MESSAGES)
    schedule(polls, A)
    polls.mark_responded(A, has_messages=False)
    assert (schedule(polls, A), polls.pending_requests) == ([], MAX_CONCURRENT_REQUESTS - 1)
