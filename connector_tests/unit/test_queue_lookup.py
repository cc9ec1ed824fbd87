"""Bounds of a batch read that no queue can have, and topics that only a stale list has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from connector_tests.support.group_bodies import cluster_info, topic_stats
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.batch.batch_plan import QueueLookup
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


@pytest.mark.parametrize("held", [QueueBounds(-1, 5), QueueBounds(7, 5), QueueBounds(0, 2**63 - 1)])
def test_impossible_bounds_are_an_error_of_their_broker(held: QueueBounds) -> None:
    with ScriptedCluster("a") as scripted:
        scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({MessageQueue("T", "a", 0): held}))
        address = scripted.listen()
        options = BatchReadOptions.parse({"namesrvAddr": address, "subscribe": "T", "clusterTimeoutMs": "0"})
        pool = ConnectionPool(10_000)
        try:
            with pytest.raises(RocketMQError, match=r"CLUSTER_TIMEOUT.*broker a.*INVALID_QUEUE_OFFSETS"):
                QueueLookup(options, pool).ranges()
        finally:
            pool.close()


def test_impossible_bounds_of_another_queue_change_nothing() -> None:
    with ScriptedCluster("a") as scripted:
        scripted.queue_count = 2
        held = {MessageQueue("T", "a", 0): QueueBounds(7, 5), MessageQueue("T", "a", 1): QueueBounds(3, 5, 77)}
        scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(held))
        address, assigned = scripted.listen(), '{"T": {"a": [1]}}'
        options = BatchReadOptions.parse({"namesrvAddr": address, "assign": assigned, "clusterTimeoutMs": "0"})
        pool = ConnectionPool(10_000)
        try:
            assert QueueLookup(options, pool).ranges() == [QueueRange(MessageQueue("T", "a", 1), 3, 5)]
        finally:
            pool.close()


def test_assigned_queues_without_a_route_are_listed() -> None:
    with ScriptedCluster("a") as scripted:
        given = {"namesrvAddr": scripted.listen(), "assign": '{"T": {"a": [0, 4], "b": [0]}}', "clusterTimeoutMs": "0"}
        with (
            closing(ConnectionPool(10_000)) as pool,
            pytest.raises(OptionError, match=r"ASSIGNED_QUEUES_NOT_FOUND\] 2 queues .*: T@a:4, T@b:0\."),
        ):
            QueueLookup(BatchReadOptions.parse(given), pool).ranges()


# ------------------------------------------------------------------------------------- topics that a stale list has

HELD = {MessageQueue("orders-a", "a", 0): QueueBounds(3, 5, 77)}


class StaleCluster(ScriptedCluster):
    """Name servers that list ``orders-a``, and ``deleted``, of which they may have a route too: ``has_stale_route``."""

    def __init__(self, *broker_names: str) -> None:
        super().__init__(*broker_names)
        self.has_stale_route = False
        self.deleted = f"orders-{uuid4().hex[:8]}"
        self.listed = ["orders-a", self.deleted]
        self.name_server.on(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self._topics)
        self.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info(self._addresses))
        for broker in self.brokers.values():
            broker.on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(HELD))

    def __enter__(self) -> StaleCluster:
        super().__enter__()
        return self

    def _topics(self, _request: RemotingCommand) -> RemotingCommand:
        return build_response(body=json.dumps({"topicList": self.listed}).encode())

    def route(self, request: RemotingCommand) -> RemotingCommand:
        if request.fields["topic"] == self.deleted and not self.has_stale_route:
            return build_response(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info in name server")
        return super().route(request)

    def lookup(self, name_servers: str = NAME_SERVER, **given: str) -> QueueLookup:
        """A lookup that fails instead of waiting."""
        required = {"namesrvAddr": name_servers, "clusterTimeoutMs": "0", "missingTopicTimeoutMs": "0"}
        selected = given or {"subscribePattern": "orders.*"}
        return QueueLookup(BatchReadOptions.parse(required | selected), self.pool)


@pytest.fixture
def stale() -> Iterator[StaleCluster]:
    with StaleCluster("a") as cluster:
        yield cluster


def test_listed_topic_without_a_route_is_skipped_by_a_pattern(
    stale: StaleCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert stale.lookup().query_selected_bounds() == HELD
    assert caplog.messages == [
        f"TOPIC_SKIPPED: Skipping topic={stale.deleted}: a name server lists it, and none has a route of it"
    ]


def test_subscribed_topic_without_a_route_stays_an_error(stale: StaleCluster) -> None:
    with pytest.raises(RouteError, match=f"TOPIC_NOT_FOUND.*{stale.deleted}"):
        stale.lookup(subscribe=f"orders-a,{stale.deleted}").query_selected_bounds()


def test_topic_without_a_route_is_an_error_beside_an_unresponsive_name_server(stale: StaleCluster) -> None:
    """Only that name server may have the route."""
    stale.down.add("other:9876")
    with pytest.raises(RouteError, match=f"TOPIC_NOT_FOUND.*{stale.deleted}"):
        stale.lookup(f"{NAME_SERVER};other:9876").query_selected_bounds()


def test_topic_whose_broker_is_not_registered_is_an_error() -> None:
    """It had a route, which leaves the name servers with the last of its brokers."""
    with StaleCluster("a", "b") as cluster:
        cluster.has_stale_route = True
        lookup = cluster.lookup()
        assert len(lookup.query_queues([cluster.deleted])) == 2
        cluster.has_stale_route = False
        cluster.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info({"a": "a:10911"}))
        with pytest.raises(TransportError, match=rf"CLUSTER_TIMEOUT.*NO_ROUTE.*{cluster.deleted}"):
            lookup.query_queues([cluster.deleted])
        cluster.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info({"a": "a:10911", "b": "b:10911"}))
        assert lookup.query_queues([cluster.deleted]) == []


def test_topic_without_a_route_is_an_error_while_a_broker_is_no_longer_registered() -> None:
    """A name server that is restarted after the list has no topic of a broker until that registers again."""
    with StaleCluster("a", "b") as cluster:
        registered = iter((cluster_info({"a": "a:10911", "b": "b:10911"}), cluster_info({"a": "a:10911"})))
        cluster.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, lambda _request: next(registered))
        with pytest.raises(RouteError, match=f"TOPIC_NOT_FOUND.*{cluster.deleted}"):
            cluster.lookup().query_selected_bounds()


def test_topic_that_its_broker_lacks_is_skipped_by_a_pattern(
    stale: StaleCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """One name server still has its route."""
    stale.has_stale_route = True
    assert stale.lookup().query_selected_bounds() == HELD
    (line,) = caplog.messages
    assert line == (
        f"TOPIC_SKIPPED: Skipping topic={stale.deleted} at broker=a: a name server has a route of it, and the broker "
        "does not have it"
    )


def test_subscribed_topic_that_its_broker_lacks_stays_an_error(stale: StaleCluster) -> None:
    stale.has_stale_route = True
    with pytest.raises(BrokerError, match="TOPIC_NOT_EXIST"):
        stale.lookup(subscribe=f"orders-a,{stale.deleted}").query_selected_bounds()


def test_topic_that_another_broker_at_the_address_lacks_is_not_skipped() -> None:
    with StaleCluster("a", "b") as cluster:
        cluster.listed = ["orders-b"]
        cluster.exchange("a", "b")
        with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*BROKER_ADDRESS_MISMATCH"):
            cluster.lookup().query_selected_bounds()
