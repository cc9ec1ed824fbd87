"""``rocketmq_spark.run_available_now`` reads, writes and commits all that is there, on every Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic, steady_messages
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
    assert messages.members(group) == []
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
