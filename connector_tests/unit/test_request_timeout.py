"""``brokerTimeoutMs`` of ``rocketmq_spark.send`` and of the command line: both had a fixed timeout."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rocketmq_spark
from connector_tests.support.scripted_broker import ScriptedBroker
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.wire.remoting.codes import RequestCode

OPTIONS = {"brokertimeoutms": "150"}


@pytest.fixture
def address() -> Iterator[str]:
    """A name server that accepts requests and never responds."""
    with ScriptedBroker() as server:
        server.unresponsive_on(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        yield server.listen()


def test_send_waits_for_the_configured_broker_timeout(address: str) -> None:
    with pytest.raises(RocketMQError, match=r"\b150 ms"):
        rocketmq_spark.send(address, "orders", "a book", options=OPTIONS)


def test_a_command_waits_for_the_configured_broker_timeout(address: str) -> None:
    with (
        pytest.raises(RocketMQError, match=r"\b150 ms"),
        cluster_at(address, OPTIONS) as cluster,
    ):
        cluster.routes.route("orders")
