"""Which server of a broker a request goes to: the table of ``remoting.replicas``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rocketmq_spark.model import BrokerAddress, BrokerData
from rocketmq_spark.remoting.replicas import (
    AUTO,
    FIRST_SERVERS,
    FROM_MASTER,
    FROM_SLAVE,
    Server,
    ServerKind,
    pull_address,
)

FULL = BrokerData("c", "b", {0: "m:1", 2: "s:2", 1: "s:1"})
ALONE = BrokerData("c", "b", {0: "m:1"})
ORPHANED = BrokerData("c", "b", {2: "s:2", 1: "s:1"})
ACTING = BrokerData("c", "b", {0: "s:1", 2: "s:2"}, is_acting=True)
EMPTY = BrokerData("c", "b", {})
KINDS = (ServerKind.ONLY_MASTER, ServerKind.ANY_MASTER, ServerKind.ANY_SLAVE)


def assert_pulled_from(broker: BrokerData, servers: Iterable[Server], expected: Iterable[str | None]) -> None:
    found = [pull_address(broker, server) for server in servers]
    assert found == [None if server is None else BrokerAddress(server) for server in expected]


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (FULL, ("m:1", "m:1", "s:1")),
        (ALONE, ("m:1", "m:1", "m:1")),
        (ORPHANED, (None, "s:1", "s:1")),
        (ACTING, (None, "s:1", "s:1")),
        (EMPTY, (None, None, None)),
    ],
)
def test_a_pull_goes_where_the_table_states(broker: BrokerData, expected: tuple[str | None, ...]) -> None:
    assert_pulled_from(broker, map(Server, KINDS), expected)


@pytest.mark.parametrize(
    ("broker", "suggested_id", "expected"),
    [
        (FULL, 0, "m:1"),
        (FULL, 2, "s:2"),
        (FULL, 7, "m:1"),
        (ALONE, 0, "m:1"),
        (ALONE, 2, "m:1"),
        (ORPHANED, 0, "s:1"),
        (ORPHANED, 2, "s:1"),
        (ACTING, 0, "s:1"),
        (EMPTY, 0, None),
    ],
)
def test_a_pull_goes_to_the_suggested_server(broker: BrokerData, suggested_id: int, expected: str | None) -> None:
    kind = ServerKind.SUGGESTED_SLAVE if suggested_id else ServerKind.SUGGESTED_MASTER
    assert_pulled_from(broker, [Server(kind, suggested_id)], [expected])


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (FULL, ("m:1", "s:1", "m:1")),
        (ALONE, ("m:1", "m:1", "m:1")),
        (ORPHANED, (None, "s:1", "s:1")),
        (ACTING, (None, "s:1", "s:1")),
        (EMPTY, (None, None, None)),
    ],
)
def test_the_first_pull_goes_where_read_from_leads(broker: BrokerData, expected: tuple[str | None, ...]) -> None:
    assert_pulled_from(broker, [FIRST_SERVERS[mode] for mode in (FROM_MASTER, FROM_SLAVE, AUTO)], expected)
