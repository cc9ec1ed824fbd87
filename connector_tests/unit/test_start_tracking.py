"""Where the next batch begins, by the calls of Spark 4.0 and 4.1: every order that they have, and every other call."""

from __future__ import annotations

from itertools import product

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.source.start_tracking import TRANSITIONS, Call, Offset, StartState, StartTracker

INITIAL: Offset = {}
X: Offset = {"at": 5}
Y: Offset = {"at": 9}

CALLS_TO = {
    StartState.NEW: (),
    StartState.PROPOSED: (Call.LATEST,),
    StartState.BEGUN: (Call.LATEST, Call.INITIAL),
    StartState.PROPOSED_AGAIN: (Call.LATEST, Call.INITIAL, Call.LATEST),
    StartState.RUNNING: (Call.RESUME,),
}
"""A shortest order of calls that leads to each state."""


def make(tracker: StartTracker, call: Call, end: Offset = X) -> bool | None:
    """Make a call as the reader does; what the tracker answers."""
    match call:
        case Call.LATEST:
            requests = tracker.record_latest()
            if requests:
                tracker.record_returned(end)
            return requests
        case Call.INITIAL:
            tracker.record_initial()
            return None
        case Call.RESUME:
            return tracker.record_partitions(end, end)
        case Call.PLAN:
            return tracker.record_partitions(INITIAL, end)


def tracker_in(state: StartState) -> StartTracker:
    tracker = StartTracker("4.1.4")
    for call in CALLS_TO[state]:
        make(tracker, call)
    assert tracker.state is state
    return tracker


@pytest.mark.parametrize(("state", "call"), TRANSITIONS)
def test_legal_call_leads_to_the_state_of_the_table(state: StartState, call: Call) -> None:
    tracker = tracker_in(state)
    make(tracker, call)
    assert tracker.state is TRANSITIONS[state, call]


@pytest.mark.parametrize(("state", "call"), sorted(product(StartState, Call) - TRANSITIONS.keys(), key=str))
def test_illegal_call_is_an_error_that_names_it(state: StartState, call: Call) -> None:
    tracker = tracker_in(state)
    with pytest.raises(OptionError, match="UNSUPPORTED_SPARK_SETTING") as raised:
        make(tracker, call)
    assert call.value in str(raised.value)
    assert "triggerAvailableNowWrapper" in str(raised.value)
    assert tracker.state is state


def test_new_query_begins_unknown_then_where_it_ended() -> None:
    tracker = StartTracker("4.1.4")
    assert tracker.record_latest()
    assert tracker.start is None
    tracker.record_returned(X)
    tracker.record_initial()
    assert tracker.record_partitions(INITIAL, X)
    assert tracker.record_latest()
    assert tracker.start == X


def test_restart_begins_at_the_last_logged_offset() -> None:
    tracker = StartTracker("4.1.4")
    assert not tracker.record_partitions(X, X)
    assert tracker.record_latest()
    assert tracker.start == X
    tracker.record_returned(Y)
    assert tracker.record_partitions(X, Y)
    assert tracker.record_latest()
    assert tracker.start == Y


@pytest.mark.parametrize("start", [INITIAL, {"at": 1}])
def test_restart_replays_the_uncommitted_batch_first(start: Offset) -> None:
    tracker = StartTracker("4.1.4")
    assert not tracker.record_partitions(X, X)
    if start == INITIAL:
        tracker.record_initial()
    assert tracker.record_partitions(start, X)
    assert tracker.record_latest()
    assert tracker.start == X


def test_first_response_completes_nothing_when_requested_twice() -> None:
    """Where nobody reads the rows, ``partitions`` never comes; so the answer counts only when it is requested again."""
    tracker = tracker_in(StartState.BEGUN)
    assert not tracker.record_latest()
    assert tracker.start == X
    assert tracker.record_latest()
    assert tracker.start == X


def test_new_query_without_messages_has_an_empty_first_batch() -> None:
    """A member that owns no queue, or a group that shares messages and has none, answers the initial offset first."""
    tracker = StartTracker("4.1.4")
    assert tracker.record_latest()
    tracker.record_returned(INITIAL)
    tracker.record_initial()
    assert not tracker.record_partitions(INITIAL, INITIAL)
    assert tracker.record_latest()
    assert tracker.start == INITIAL


def test_available_now_wrapper_of_a_new_query_is_refused() -> None:
    tracker = tracker_in(StartState.PROPOSED_AGAIN)
    with pytest.raises(OptionError, match="UNSUPPORTED_SPARK_SETTING"):
        tracker.record_initial()


def test_available_now_wrapper_of_a_restart_is_refused() -> None:
    tracker = tracker_in(StartState.PROPOSED)
    with pytest.raises(OptionError, match="UNSUPPORTED_SPARK_SETTING"):
        tracker.record_partitions(Y, Y)
