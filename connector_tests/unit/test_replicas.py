"""Which server of a broker a request goes to: the table of ``remoting.replicas``."""

from __future__ import annotations

import pytest

from rocketmq_spark.model import BrokerAddress, BrokerData
from rocketmq_spark.remoting.replicas import ANY_MASTER, ANY_SLAVE, AUTO, FROM_MASTER, FROM_SLAVE, pull_address

FULL = BrokerData("c", "b", {0: "m:1", 2: "s:2", 1: "s:1"})
ALONE = BrokerData("c", "b", {0: "m:1"})
ORPHANED = BrokerData("c", "b", {2: "s:2", 1: "s:1"})
ACTING = BrokerData("c", "b", {0: "s:1", 2: "s:2"}, is_acting=True)
EMPTY = BrokerData("c", "b", {})
MODES = (FROM_MASTER, FROM_SLAVE, AUTO)


@pytest.mark.parametrize(
    ("broker", "suggested_id", "expected"),
    [
        (FULL, 0, ("m:1", "s:1", "m:1")),
        (FULL, 2, ("m:1", "s:1", "s:2")),
        (FULL, 7, ("m:1", "s:1", "m:1")),
        (FULL, ANY_SLAVE, ("m:1", "s:1", "s:1")),
        (FULL, ANY_MASTER, ("m:1", "m:1", "m:1")),
        (FULL, None, ("m:1", "m:1", "m:1")),
        (ALONE, 0, ("m:1", "m:1", "m:1")),
        (ALONE, ANY_SLAVE, ("m:1", "m:1", "m:1")),
        (ORPHANED, 0, (None, "s:1", "s:1")),
        (ORPHANED, ANY_MASTER, (None, "s:1", "s:1")),
        (ORPHANED, None, (None, None, None)),
        (ACTING, 0, (None, "s:1", "s:1")),
        (ACTING, None, (None, None, None)),
        (EMPTY, 0, (None, None, None)),
    ],
)
def test_a_pull_goes_where_the_table_states(
    broker: BrokerData, suggested_id: int | None, expected: tuple[str | None, ...]
) -> None:
    found = [pull_address(broker, mode, suggested_id) for mode in MODES]
    assert found == [None if server is None else BrokerAddress(server) for server in expected]
