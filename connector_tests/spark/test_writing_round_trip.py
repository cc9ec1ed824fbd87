"""Whatever rows brokers take: written by Spark, in a batch and by a stream, and read back by our source and by Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.java_reader import ADDED_ON_THE_WAY, read_by_java
from connector_tests.support.row_strategies import Row, good_rows
from connector_tests.support.streams import TIMEOUT_S, Topic
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.sink.message_ids import column_ids

pytestmark = pytest.mark.full

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "body": pa.binary(),
        "tags": pa.string(),
        "keys": pa.list_(pa.string()),
        "properties": pa.map_(pa.string(), pa.string()),
        "shardingKey": pa.string(),
        "brokerName": pa.string(),
        "queueId": pa.int32(),
    }
)
ONE_TEXT = "nullif(array_join(keys, ' '), '') AS keys"
"""Of keys; a row without any has none."""
SENT = ("body", "tags", "properties", "shardingKey", "brokerName", "queueId", "number")

Write = Callable[[SparkSession, Path, Topic, EmbeddedCluster], None]


def rows(count: int) -> list[Row]:
    """So many that brokers take, the same each time."""
    drawn: list[Row] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck])
    @given(good_rows())
    def draw(row: Row) -> None:
        drawn.append(row)

    while len(drawn) < count:
        draw()
    return [row | {"number": number} for number, row in enumerate(drawn[:count])]


def stored_rows(rows: list[Row], folder: Path) -> Path:
    """As Parquet, in two files."""
    folder.mkdir()
    half = len(rows) // 2
    for name, some in (("a", rows[:half]), ("b", rows[half:])):
        pairs = [
            row | {"properties": None if row["properties"] is None else [*row["properties"].items()]} for row in some
        ]
        pq.write_table(pa.Table.from_pylist(pairs, schema=SCHEMA), folder / f"{name}.parquet")
    return folder


def write_batch(spark: SparkSession, folder: Path, topic: Topic, cluster: EmbeddedCluster) -> None:
    """Keys are an array, and each row names the topic."""
    frame = spark.read.parquet(str(folder)).selectExpr(*SENT, "keys", f"'{topic.name}' AS topic")
    writer = frame.write.format("rocketmq").mode("append").option("messageIdColumns", "number")
    writer.options(namesrvAddr=cluster.namesrv_addr, **PATIENT).save()


def write_stream(spark: SparkSession, folder: Path, topic: Topic, cluster: EmbeddedCluster) -> None:
    """Keys are a text, and the option names the topic."""
    reader = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", "1")
    frame: DataFrame = reader.parquet(str(folder)).selectExpr(*SENT, ONE_TEXT)
    writer = frame.writeStream.format("rocketmq").option("messageIdColumns", "number").option("topic", topic.name)
    writer = writer.options(namesrvAddr=cluster.namesrv_addr, **PATIENT).option("compression", "zstd")
    query = writer.option("checkpointLocation", f"{folder}-checkpoint").trigger(availableNow=True).start()
    assert query.awaitTermination(int(TIMEOUT_S))
    assert query.exception() is None


def expected(row: Row, id_: str) -> dict[str, Any]:
    """What a reader is to find."""
    keys = " ".join(key for key in row["keys"] or [] if key is not None) or None
    named = {"TAGS": row["tags"], "KEYS": keys, "__SHARDINGKEY": row["shardingKey"], "UNIQ_KEY": id_}
    properties = {name: value for name, value in named.items() if value is not None} | (row["properties"] or {})
    return {"msgId": id_, "body": row["body"], "tags": row["tags"], "keys": keys, "properties": properties}


def found(one: dict[str, Any]) -> dict[str, Any]:
    """The same of what was read, without what was added on the way."""
    own = {name: value for name, value in one["properties"].items() if name not in ADDED_ON_THE_WAY}
    return {name: one[name] for name in ("msgId", "body", "tags", "keys")} | {"properties": own}


def by_ids(read: Iterator[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(one["msgId"]): one for one in read}


def assert_read_as_written(read: list[dict[str, Any]], rows: list[Row]) -> None:
    """Every column of every row, once each, and in the queue that it names."""
    ids = [id_.decode() for id_ in column_ids([pa.array([row["number"] for row in rows])]).tolist()]
    assert len(read) == len(rows)
    one_by_one = by_ids(iter(read))
    for id_, row in zip(ids, rows, strict=True):
        assert found(one_by_one[id_]) == expected(row, id_)
        assert row["queueId"] in (None, one_by_one[id_]["queueId"])


def round_trip(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    messages: Topic,
    stream: StreamOf,
    java: Any,
    folder: Path,
    write: Write,
    count: int,
) -> None:
    written = rows(count)
    write(spark, stored_rows(written, folder / "rows"), messages, cluster)
    reading = stream(includeProperties="true")
    messages.await_dispatch()
    reading.run_to_end()
    ours = [row.asDict() | {"body": bytes(row.body)} for row in reading.rows()]
    assert_read_as_written(ours, written)
    assert_read_as_written(read_by_java(java, cluster.namesrv_addr, messages.name, count), written)


WRITES = pytest.mark.parametrize("write", [write_batch, write_stream])


@WRITES
def test_whatever_is_written_is_read_by_us_and_by_java(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    messages: Topic,
    stream: StreamOf,
    java: Any,
    tmp_path: Path,
    write: Write,
) -> None:
    round_trip(spark, cluster, messages, stream, java, tmp_path, write, 1_000)


@pytest.mark.long
@WRITES
def test_ten_thousand_rows_are_read_as_they_were_written(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    messages: Topic,
    stream: StreamOf,
    java: Any,
    tmp_path: Path,
    write: Write,
) -> None:
    round_trip(spark, cluster, messages, stream, java, tmp_path, write, 10_000)
