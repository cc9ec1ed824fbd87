"""The server that a range is pulled from: every kind of server and every event, and the suggestions of responses."""

from __future__ import annotations

from itertools import product

import pytest

from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.pull.server_choice import TRANSITIONS, ServerEvent, next_server, suggested_server
from rocketmq_spark.remoting.replicas import FIRST_SERVERS, Server, ServerKind

SLAVE_ID = 2
SERVERS = {kind: Server(kind) for kind in ServerKind} | {
    ServerKind.SUGGESTED_SLAVE: Server(ServerKind.SUGGESTED_SLAVE, SLAVE_ID)
}
SUGGESTED_IDS = {ServerEvent.MASTER_SUGGESTED: MASTER_ID, ServerEvent.SLAVE_SUGGESTED: SLAVE_ID}
SUGGESTED = (ServerKind.SUGGESTED_MASTER, ServerKind.SUGGESTED_SLAVE)
PAIRS = list(product(ServerKind, ServerEvent))
LEGAL = [pair for pair in PAIRS if pair in TRANSITIONS]
ILLEGAL = [pair for pair in PAIRS if pair not in TRANSITIONS]


@pytest.mark.parametrize(("kind", "event"), LEGAL)
def test_a_legal_event_leads_to_the_next_server(kind: ServerKind, event: ServerEvent) -> None:
    after = next_server(SERVERS[kind], event, SUGGESTED_IDS.get(event, MASTER_ID))
    assert after == SERVERS[TRANSITIONS[kind, event]]


@pytest.mark.parametrize(("kind", "event"), ILLEGAL)
def test_an_illegal_event_raises(kind: ServerKind, event: ServerEvent) -> None:
    with pytest.raises(ValueError, match=f"a range's server is {kind.name}, which has no event {event.name}"):
        next_server(SERVERS[kind], event)


def test_only_suggested_servers_change_by_suggestion() -> None:
    assert {kind for kind, event in LEGAL if event in SUGGESTED_IDS} == set(SUGGESTED)
    assert {pair for pair in ILLEGAL if pair[0] in SUGGESTED} == {
        (ServerKind.SUGGESTED_MASTER, ServerEvent.MASTER_SUGGESTED)
    }


def test_each_kind_is_reached_from_a_first_server() -> None:
    assert {server.kind for server in FIRST_SERVERS.values()} | set(TRANSITIONS.values()) == set(ServerKind)


@pytest.mark.parametrize("kind", ServerKind)
def test_absent_offsets_lead_to_the_master_for_good(kind: ServerKind) -> None:
    assert TRANSITIONS[kind, ServerEvent.OFFSETS_ABSENT] is ServerKind.ONLY_MASTER
    ways_on = {to for (before, _), to in TRANSITIONS.items() if before is ServerKind.ONLY_MASTER}
    assert ways_on == {ServerKind.ONLY_MASTER}


@pytest.mark.parametrize(
    ("kind", "following"),
    [
        (ServerKind.ONLY_MASTER, ServerKind.ONLY_MASTER),
        (ServerKind.SUGGESTED_MASTER, ServerKind.ANY_SLAVE),
        (ServerKind.SUGGESTED_SLAVE, ServerKind.ANY_MASTER),
        (ServerKind.ANY_SLAVE, ServerKind.ANY_MASTER),
        (ServerKind.ANY_MASTER, ServerKind.ANY_SLAVE),
    ],
)
def test_a_failed_server_is_replaced(kind: ServerKind, following: ServerKind) -> None:
    assert next_server(SERVERS[kind], ServerEvent.FAILED) == Server(following)


@pytest.mark.parametrize("kind", ServerKind)
@pytest.mark.parametrize("suggested_id", [MASTER_ID, SLAVE_ID, 3])
def test_a_suggestion_counts_for_another_suggested_server(kind: ServerKind, suggested_id: int) -> None:
    after = suggested_server(SERVERS[kind], suggested_id)
    if kind not in SUGGESTED or suggested_id == SERVERS[kind].suggested_id:
        assert after is None
    else:
        followed = ServerKind.SUGGESTED_SLAVE if suggested_id else ServerKind.SUGGESTED_MASTER
        assert after == Server(followed, suggested_id)
