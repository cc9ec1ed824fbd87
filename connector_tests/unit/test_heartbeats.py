"""One round of heartbeats: who answers is told of, who does not is told to nobody but the log."""

from __future__ import annotations

import logging

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import (
    Reach,
    SimulatedBrokerClient,
    SimulatedCluster,
    SimulatedClusterClient,
    address_of,
)
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.wire.body.groups import ConsumerData, Heartbeat

BROKERS = ("broker-a", "broker-b")
BEAT = Heartbeat("me", (ConsumerData("g", "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", ()),))
REFUSAL = BrokerError("BROKER_ERROR", address="a:1", request="HEART_BEAT", code=1, code_name="X", remark="no")


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(list(BROKERS), ManualClock(1_000_000))


def responded(cluster: SimulatedCluster, *names: str) -> set[BrokerAddress]:
    round_ = Heartbeats(BEAT, tuple(address_of(name) for name in names))
    return round_.send(SimulatedClusterClient(cluster, "me"))


def test_every_address_is_reported(cluster: SimulatedCluster) -> None:
    assert responded(cluster, *BROKERS) == set(map(address_of, BROKERS))
    assert [cluster.brokers[name].consumer_ids() for name in BROKERS] == [["me"], ["me"]]


def test_no_other_member_is(cluster: SimulatedCluster) -> None:
    assert responded(cluster, "broker-b") == {address_of("broker-b")}
    assert cluster.brokers["broker-a"].consumer_ids() == []


def test_a_caller_that_is_out_of_reach_prevents_no_other_caller_from_being_notified(
    cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.brokers["broker-a"].reach = Reach.UNRESPONSIVE
    with caplog.at_level(logging.DEBUG, "rocketmq_spark.consumer.heartbeats"):
        assert responded(cluster, *BROKERS) == {address_of("broker-b")}
    assert {record.levelname for record in caplog.records if "HEARTBEAT_FAILED" in record.message} == {"DEBUG"}


def test_a_refused_one_is_a_warning_because_nothing_else_reports_it(
    cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.brokers["broker-a"].refusal = REFUSAL
    assert responded(cluster, *BROKERS) == {address_of("broker-b")}
    (warning,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert f"HEARTBEAT_FAILED: Heartbeat to address={address_of('broker-a')}" in warning.getMessage()


class Unreachable(SimulatedClusterClient):
    """Nobody can even be asked."""

    def broker(self, address: BrokerAddress) -> SimulatedBrokerClient:
        raise BrokerError("BROKER_ERROR", address=str(address), request="?", code=1, code_name="X", remark="no")


def test_a_caller_that_cannot_be_called_is_named_too(
    cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    addresses = tuple(map(address_of, BROKERS))
    assert Heartbeats(BEAT, addresses).send(Unreachable(cluster, "me")) == set()
    assert [message.partition(";")[0] for message in caplog.messages] == [
        f"HEARTBEAT_FAILED: Heartbeat to address={address} failed" for address in addresses
    ]
