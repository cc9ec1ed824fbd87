"""``rocketmq_spark.run_available_now`` reads, writes and commits all that is there, on every Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.spark_version import HAS_READ_LIMITS

pytestmark = pytest.mark.full

WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


def run(stream: Stream) -> StreamingQuery:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{stream.folder}/out/batch={batch_id}")

    writer = stream.load().writeStream.foreachBatch(write)
    return rocketmq_spark.run_available_now(writer.option("checkpointLocation", str(stream.folder / "checkpoint")))


def test_row_limit_ends_no_run_early_and_no_lag_remains(messages: Topic, stream: StreamOf, group: str) -> None:
    query_of = stream(maxOffsetsPerTrigger="20")
    sent = messages.send(50)
    assert not run(query_of).isActive
    assert query_of.bodies() == sorted(sent)
    assert max(len(batch) for batch in batches(query_of)) <= 20
    assert messages.lag(group) == 0
    eventually(lambda: messages.members(group) == [], "the member has left")
    assert not run(query_of).isActive
    assert query_of.bodies() == sorted(sent)


def batches(stream: Stream) -> list[list[int]]:
    numbers = [number for number, _, _ in stream.batches_queues_and_offsets()]
    return [[one for one in numbers if one == number] for number in set(numbers)]


def test_producer_that_continues_keeps_no_run_from_ending(messages: Topic, stream: StreamOf, group: str) -> None:
    query_of = stream()
    before = messages.send(50)
    with steady_messages(messages):
        run(query_of)
    bodies = query_of.bodies()
    assert set(before) <= set(bodies)
    assert len(bodies) == len(set(bodies))
    assert messages.lag(group) == messages.sent - len(bodies)


def test_topic_without_messages_is_an_end(messages: Topic, stream: StreamOf, group: str) -> None:
    assert not run(stream()).isActive
    assert messages.bounds_are_empty()


def test_failed_batch_is_replayed_though_the_topic_has_gained_queues(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    def fail() -> None:
        raise RuntimeError("no disk")

    failing = stream()
    sent = messages.send(8)
    failing.before_each_batch = fail
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="no disk"):
            failing.start(availableNow=True).awaitTermination()
        cluster.create_topic(messages.name, len(messages.queues) + 2)
    with closing(Topic(cluster, messages.name)) as grown:
        grown.sent = messages.sent
        sent += grown.send(16)
        stream().run_to_end()
        assert stream().bodies() == sorted(sent)
        assert {offset for batch, _, offset in stream().batches_queues_and_offsets() if batch == 0} == {0, 1}
        assert grown.lag(group) == 0


def test_topic_that_is_re_created_shorter_during_a_run_ends_it(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    """The end of the run, which was fixed at its start, does not exist any more."""

    def recreate() -> None:
        if stream().batches_done() == 1:
            cluster.delete_topic(messages.name)
            cluster.create_topic(messages.name, 4)
            messages.send(4)

    messages.send(32)
    query_of = stream(maxOffsetsPerTrigger="8")
    query_of.before_each_batch = recreate
    with pytest.raises(StreamingQueryException, match=r"DATA_LOSS\.\w+.*\[\d, \d\) of"):
        query_of.start(availableNow=True).awaitTermination()


def test_messages_that_are_shared_come_once(messages: Topic, stream: StreamOf) -> None:
    query_of = stream(loadBalance="message", maxOffsetsPerTrigger="20")
    sent = messages.send(50)
    run(query_of)
    assert query_of.bodies() == sorted(sent)
    run(query_of)
    assert query_of.bodies() == sorted(sent)


@pytest.fixture
def wrapper(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(WRAPPER, "true")
    yield
    spark.conf.unset(WRAPPER)


@pytest.mark.skipif(HAS_READ_LIMITS, reason="from Spark 4.2 on the setting changes nothing for this source")
@pytest.mark.parametrize("has_checkpoint", [False, True], ids=["new", "restart"])
def test_wrapper_of_available_now_is_refused_by_its_name(
    messages: Topic, stream: StreamOf, spark: SparkSession, wrapper: None, has_checkpoint: bool
) -> None:
    query_of = stream()
    sent = messages.send(10)
    if has_checkpoint:
        spark.conf.set(WRAPPER, "false")
        query_of.run_to_end()
        spark.conf.set(WRAPPER, "true")
    before = query_of.bodies()
    sent += messages.send(10)
    with pytest.raises(StreamingQueryException) as raised:
        query_of.start(availableNow=True).awaitTermination()
    assert f"[ROCKETMQ_UNSUPPORTED_SPARK_SETTING] Setting '{WRAPPER}' is not supported with Spark " in str(raised.value)
    assert query_of.bodies() == before
    spark.conf.set(WRAPPER, "false")
    run(query_of)
    assert query_of.bodies() == sorted(sent)
