"""What has to hold on every version of RocketMQ; a module that imports these tests states on which, by its ``cluster``.

The cluster has a JVM for the broker alone, which one of the stories kills.
"""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.java_group import java_group
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

BURST = 100
TRIGGER = "300 milliseconds"
SELDOM = "8 seconds"
REBALANCE_INTERVAL_MS = 2_000


def test_start_and_restarts_read_each_message_once(messages: Topic, stream: StreamOf, group: str) -> None:
    sent: list[str] = []
    for count in (25, 40, 7):
        sent += messages.send(count)
        stream().run_to_end()
        assert stream().bodies() == sorted(sent)
        assert messages.lag(group) == 0


def test_a_time_finds_the_first_message_stored_then(messages: Topic, stream: StreamOf) -> None:
    """Of many that were stored in one millisecond; and after the last one, none."""
    for _ in range(3):
        messages.send_batches(BURST)
    everything = stream("everything", schema="body BINARY, storeTimestamp TIMESTAMP")
    everything.run_to_end()
    stored_ms = {bytes(row.body).decode(): round(row.storeTimestamp.timestamp() * 1000) for row in everything.rows()}
    times_ms = sorted(set(stored_ms.values()))
    assert len(stored_ms) == 3 * BURST > len(times_ms)
    for since_ms in (times_ms[len(times_ms) // 2], times_ms[-1] + 1):
        since = stream(
            f"since {since_ms}",
            consumerGroup=unique_name("since"),
            startingTimestamp=str(since_ms),
            startingOffsetsByTimestampStrategy="latest",
        )
        since.run_to_end()
        assert since.bodies() == sorted(body for body, at_ms in stored_ms.items() if at_ms >= since_ms)


def test_batch_read_is_bound_once_for_all_actions(
    messages: Topic, spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    """Also on Spark 4.0, which plans each action separately."""
    sent = messages.send(10)
    reader = spark.read.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr)
    frame = reader.option("subscribe", messages.name).load()
    assert frame.count() == 10
    messages.send(5)
    bodies = [row.text for row in frame.selectExpr("CAST(body AS STRING) AS text").collect()]
    assert sorted(bodies) == sorted(sent)
    assert (frame.union(frame).count(), frame.where("queueId >= 0").count()) == (20, 10)
    assert reader.load().count() == 15, "each load() binds its own end"


def test_a_tag_filter_reads_the_tag_and_moves_past_the_rest(messages: Topic, stream: StreamOf, group: str) -> None:
    expected = messages.send(3, tag="TagA")
    messages.send(50, tag="TagB")
    expected += messages.send(2, tag="TagC")
    filtered = stream(subExpression="TagA || TagC")
    filtered.run_to_end()
    assert filtered.bodies() == sorted(expected)
    assert messages.lag(group) == 0


def test_a_recreated_topic_is_noticed(messages: Topic, stream: StreamOf, cluster: EmbeddedCluster, group: str) -> None:
    old = messages.send(8)
    stream().run_to_end()
    cluster.delete_topic(messages.name)
    cluster.create_topic(messages.name, 4)
    eventually(messages.bounds_are_empty, "an empty topic")
    new = messages.send(20)
    query = stream().start(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"ROCKETMQ_DATA_LOSS\.TOPIC_RECREATED.*created again"):
        query.awaitTermination(int(TIMEOUT_S))
    stream(failOnDataLoss="false").run_to_end()
    assert stream().bodies() == sorted(old + new)
    assert messages.lag(group) == 0


def test_a_recreated_topic_between_two_plans(
    messages: Topic, stream: StreamOf, cluster: EmbeddedCluster, group: str
) -> None:
    """It outgrows the old one before the running query looks again. RocketMQ 4 keeps the group's offsets: 8 of 24
    messages were once skipped, without a word."""
    old = messages.send(8)
    query = stream(failOnDataLoss="false")
    with query.running(processingTime=SELDOM):
        eventually(lambda: query.bodies() == sorted(old), "all rows of the old topic")
        eventually(lambda: messages.lag(group) == 0, "and committed: a trigger has just begun")
        cluster.delete_topic(messages.name)
        cluster.create_topic(messages.name, 4)
        new = messages.send(24)
        eventually(lambda: set(new) <= set(query.bodies()), "all rows of the new topic")
        eventually(lambda: messages.lag(group) == 0, "and committed")
    assert query.bodies() == sorted(old + new)


def test_a_java_member_and_a_query_share_the_queues(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    query = stream(rebalanceIntervalMs=str(REBALANCE_INTERVAL_MS))
    with java_group(REBALANCE_INTERVAL_MS) as java:
        member = java.push(cluster.namesrv_addr, group, messages.name, "java")
        with query.running(processingTime=TRIGGER):
            eventually(lambda: messages.is_shared(group, 2), "two queues each")
            sent = messages.send(40)
            eventually(lambda: len(query.places()) + len(member.bodies()) >= len(sent), "all of them")
            assert sorted(query.bodies() + member.bodies()) == sorted(sent)
            assert query.places() and member.bodies()
            member.leave()
            sent = messages.send(20)
            eventually(lambda: set(sent) <= set(query.bodies()), "the query alone")


def test_a_killed_broker_costs_nothing(cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str) -> None:
    query = stream()
    with query.running(processingTime=TRIGGER):
        sent = messages.send(40)
        eventually(lambda: query.bodies() == sorted(sent), "those before")
        cluster.restart_broker(clean=False)
        sent += messages.send(40)
        eventually(lambda: query.bodies() == sorted(sent), "those after")
