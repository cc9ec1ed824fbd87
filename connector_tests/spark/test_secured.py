"""Queries on a cluster with ACL and TLS, with the rights that a query needs and no others.

``integration/test_security_matrix`` has the clusters with one of the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.security_shapes import user_options
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.pull import PullStatus

TO_THE_DLQ = -1
ONE_SECOND = 1
SCHEMA = "topic STRING, brokerName STRING, msgId STRING, body BINARY, reconsumeTimes INT, commitLogOffset BIGINT"


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(acl=True, tls=True)


MemberOf = Callable[..., Stream]


@pytest.fixture
def rights(topic: str, group: str) -> Sequence[Right]:
    """As docs/security.md lists them."""
    return [Right(f"Topic:{topic}", ("SUB", "GET")), Right(f"Group:{group}", ("SUB",))]


@pytest.fixture
def member(cluster: EmbeddedCluster, stream: StreamOf, rights: Sequence[Right]) -> MemberOf:
    """A query of a user who has these rights only, and more where more is read."""

    def make(*more: Right, **options: str) -> Stream:
        return stream(**user_options(cluster, *rights, *more), **options)

    return make


def test_a_query_starts_reads_commits_and_restarts(messages: Topic, member: MemberOf, group: str) -> None:
    reading, sent = member(), list[str]()
    for count in (25, 40, 7):
        sent += messages.send(count)
        reading.run_to_end()
        assert reading.bodies() == sorted(sent)
        assert messages.lag(group) == 0


@pytest.mark.parametrize("own_group", [False, True], ids=["TOOLS_CONSUMER", "consumerGroup"])
def test_batch_reads_with_the_permissions_of_one_group(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, group: str, own_group: bool
) -> None:
    sent = messages.send(12)
    named = group if own_group else "TOOLS_CONSUMER"
    rights = [Right(f"Topic:{messages.name}", ("SUB", "GET")), Right(f"Group:{named}", ("SUB",))]
    options = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "startingTimestamp": "0"}
    options |= (
        cluster.security_options | user_options(cluster, *rights) | ({"consumerGroup": group} if own_group else {})
    )
    rows = spark.read.format("rocketmq").schema("body BINARY").options(**options).load().collect()
    assert sorted(bytes(row.body).decode() for row in rows) == sorted(sent)
    assert set(messages.committed(group).values()) == {None}


def test_what_is_sent_is_read_and_comes_back_or_ends_in_the_dlq(
    cluster: EmbeddedCluster, topic: str, member: MemberOf, group: str
) -> None:
    sender = cluster.security_options | user_options(cluster, Right(f"Topic:{topic}", ("PUB",)))
    rocketmq_spark.send(cluster.namesrv_addr, topic, ["fails", "is done"], options=sender)
    reading = member(Right(f"Group:{group}", ("GET",)), retryTopic="true")
    reading.schema = SCHEMA
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic, **PATIENT}
    given |= {"retryTopic": "true"}
    given |= cluster.security_options | dict(reading.options)
    seen: list[tuple[str, int]] = []

    def work(batch: DataFrame, _batch_id: int) -> None:
        batch.persist()
        seen.extend((row.text, row.reconsumeTimes) for row in batch.selectExpr("string(body) text", "*").collect())
        failed = batch.where("body = 'fails'")
        rocketmq_spark.send_back(failed.where("reconsumeTimes = 0"), given, delay_level=ONE_SECOND)
        rocketmq_spark.send_back(failed.where("reconsumeTimes = 1").collect(), given, delay_level=TO_THE_DLQ)
        batch.unpersist()

    writer = reading.load().writeStream.foreachBatch(work)
    query = writer.option("checkpointLocation", str(reading.folder / "checkpoint")).start()
    try:
        eventually(lambda: sorted(seen) == [("fails", 0), ("fails", 1), ("is done", 0)], "each, and one of them again")
        eventually(lambda: is_dead_letter(cluster, group, b"fails"), "a dead letter")
    finally:
        query.stop()
    assert query.exception() is None


def is_dead_letter(cluster: EmbeddedCluster, group: str, body: bytes) -> bool:
    """Whether the first of the group's dead letters has that body. Their topic is made with the first."""
    with closing(ConnectionPool(PATIENT_MS, security=cluster.security)) as pool:
        broker = Broker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        try:
            pulled = broker.pull("operator", MessageQueue(f"%DLQ%{group}", "broker-a", 0), 0, 1)
        except BrokerError as error:
            assert error.code == ResponseCode.TOPIC_NOT_EXIST
            return False
        return pulled.status is PullStatus.FOUND and body in bytes(pulled.body)


def test_an_orderly_query_locks_its_queues_and_obeys_a_reset(messages: Topic, member: MemberOf, group: str) -> None:
    sent = messages.send(20)
    reading = member(consumeOrderly="true")
    with reading.running(processingTime="300 milliseconds"):
        eventually(lambda: len(reading.places()) == len(sent), "all of them")
        eventually(lambda: not messages.lockable(group), "its locks")
        eventually(lambda: messages.lag(group) == 0, "its commits")
        messages.reset_to_the_beginning(group)
        eventually(lambda: len(reading.places()) == 2 * len(sent), "all of them again")


def test_a_query_begins_at_a_time(messages: Topic, member: MemberOf, group: str) -> None:
    sent = messages.send(20)
    reading = member(startingTimestamp="1000")
    reading.run_to_end()
    assert reading.bodies() == sorted(sent)


def test_a_client_that_lacks_the_right_gets_an_error_from_the_query(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, rights: Sequence[Right]
) -> None:
    if cluster.security.credentials is None:
        pytest.skip("a cluster without users")
    messages.send(1)
    query = stream(**user_options(cluster, rights[0])).start(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"ROCKETMQ_GROUP_DENIED.*lacks a permission on group"):
        query.awaitTermination(int(TIMEOUT_S))
