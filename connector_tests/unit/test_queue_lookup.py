"""Bounds of a batch read that no queue can have."""

from __future__ import annotations

from contextlib import closing

import pytest

from connector_tests.support.group_bodies import topic_stats
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.errors import OptionError, RocketMQError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.batch.batch_plan import QueueLookup
from rocketmq_spark.wire.remoting.codes import RequestCode


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
        held = {MessageQueue("T", "a", 0): QueueBounds(7, 5), MessageQueue("T", "a", 1): QueueBounds(3, 5)}
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
