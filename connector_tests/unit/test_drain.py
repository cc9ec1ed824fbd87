"""The handshake of a graceful stop: every state and every event, and what the files of a folder show."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from rocketmq_spark.source.stream.drain import FILES, IRREVERSIBLE, TRANSITIONS, DrainEvent, DrainState, shown_by

GOING_ON, CALLED, HANDING_OVER, RELEASED = DrainState


@pytest.mark.parametrize(("state", "event"), list(product(DrainState, (DrainEvent.REQUEST, DrainEvent.WITHDRAW))))
def test_a_requester_may_request_and_withdraw_at_any_time(state: DrainState, event: DrainEvent) -> None:
    assert (state, event) in TRANSITIONS


def test_there_is_no_way_back_once_a_request_is_claimed_and_one_before() -> None:
    leads_to = {state: {TRANSITIONS[pair] for pair in TRANSITIONS if pair[0] is state} for state in DrainState}
    assert {state for state in DrainState if leads_to[state] <= IRREVERSIBLE} == IRREVERSIBLE
    assert GOING_ON in leads_to[CALLED]


def test_queues_are_released_by_a_claim_and_a_response_and_in_no_other_way() -> None:
    ways = {event for (state, event), to in TRANSITIONS.items() if to is RELEASED is not state}
    assert ways == {DrainEvent.FINISH}
    assert [state for state in DrainState if (state, DrainEvent.CLAIM) in TRANSITIONS] == [CALLED]
    assert {state for state in DrainState if (state, DrainEvent.FINISH) in TRANSITIONS} == IRREVERSIBLE


@pytest.mark.parametrize("count", range(len(FILES) + 1))
def test_a_folder_shows_the_furthest_state_of_which_it_has_a_file(count: int) -> None:
    order = list(DrainState)
    for states in combinations(FILES, count):
        files = [FILES[state] for state in states]
        assert shown_by(files) is max(states, key=order.index, default=GOING_ON)


def test_other_files_show_nothing() -> None:
    assert shown_by([".nfs0001", "drain.bak"]) is GOING_ON
