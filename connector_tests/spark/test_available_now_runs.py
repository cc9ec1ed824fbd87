"""``rocketmq_spark.run_available_now`` reads, writes and commits all that is there, on every Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic, steady_messages

pytestmark = pytest.mark.full


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


def test_producer_that_goes_on_keeps_no_run_from_ending(messages: Topic, stream: StreamOf, group: str) -> None:
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
