"""Rows that are written to topics, in batches and by streams, as readers find them there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, MapType, StringType, StructField, StructType

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.read_once import by_time_of_reading, write_to_end
from connector_tests.support.streams import TIMEOUT_S, Topic
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster

ROWS = [
    Row(body=b"\x00\xff", tags="books", keys=["k1", "k2"], properties={"colour": "blue", "é": "\x01"}),
    Row(body=b"plain", tags=None, keys=None, properties=None),
    Row(body=b"x" * 300_000, tags=None, keys=["one"], properties={}),
]
SCHEMA = "body BINARY, tags STRING, keys ARRAY<STRING>, properties MAP<STRING, STRING>"


def seen(rows: list[Row]) -> list[tuple[object, ...]]:
    """What readers see of what was written; a broker and a producer add properties of their own."""
    return sorted(
        (
            bytes(row.body),
            row.tags,
            row["keys"],
            tuple(sorted((name, value) for name, value in row.properties.items() if name in ("colour", "é"))),
        )
        for row in rows
    )


def test_a_batch_is_read_as_it_was_written(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    given = {"namesrvAddr": cluster.namesrv_addr, "topic": messages.name, **PATIENT}
    frame.write.format("rocketmq").mode("append").options(**given).save()

    reading = stream(includeProperties="true")
    messages.await_dispatch()
    reading.run_to_end()
    rows = reading.rows()
    assert seen(rows) == [
        (b"\x00\xff", "books", "k1 k2", (("colour", "blue"), ("é", "\x01"))),
        (b"plain", None, None, ()),
        (b"x" * 300_000, None, "one", ()),
    ]
    assert len({row.msgId for row in rows}) == 3


def test_lossless_types_are_written_as_their_plain_types_are(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    """Python's ints are BIGINT, ``NULL AS tags`` is VOID, and a string may have a collation."""
    frame = spark.createDataFrame([("one", "broker-a", 2)], ["body", "brokerName", "queueId"]).selectExpr(
        "body COLLATE UTF8_LCASE AS body",
        "brokerName",
        "queueId",
        "NULL AS tags",
        "array() AS keys",
        "map('colour', body COLLATE UTF8_LCASE) AS properties",
        "NULL AS delayLevel",
        "NULL AS deliverTimestamp",
    )
    given = {"namesrvAddr": cluster.namesrv_addr, "topic": messages.name, **PATIENT}
    frame.write.format("rocketmq").mode("append").options(**given).save()

    text = StringType()
    map_without_nulls = StructType([StructField("properties", MapType(text, text, False))])
    columns = StructType([StructField("body", BinaryType()), StructField("queueId", IntegerType())])
    reading = stream(schema=StructType([*columns.fields, *map_without_nulls.fields]))
    messages.await_dispatch()
    reading.run_to_end()
    (row,) = reading.rows()
    assert (bytes(row.body), row.queueId, row.properties["colour"]) == (b"one", 2, "one")
    assert not {"TAGS", "KEYS", "DELAY"} & row.properties.keys()


def test_a_reader_whose_schema_has_a_column_not_null_is_refused(stream: StreamOf) -> None:
    query = stream(schema=StructType([StructField("tags", StringType(), nullable=False)])).start()
    with pytest.raises(StreamingQueryException, match=r"NON_NULLABLE_COLUMN\] Column 'tags' is declared NOT NULL"):
        query.awaitTermination(int(TIMEOUT_S))


def test_a_stream_writes_each_row_once_and_a_replayed_batch_the_same_ids(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, tmp_path: Path
) -> None:
    """The last commit is taken away, as by a crash just before it: the batch is written again."""
    source, checkpoint = tmp_path / "source", tmp_path / "written"

    def write() -> None:
        query = (
            spark.readStream.schema("value STRING, topic STRING, key STRING")
            .json(str(source))
            .writeStream.format("rocketmq")
            .queryName("a name is Spark's own")
            .options(namesrvAddr=cluster.namesrv_addr, **PATIENT)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(TIMEOUT_S))
        assert query.exception() is None
        assert [progress.sink.numOutputRows for progress in query.recentProgress if progress.numInputRows] == [5_000]

    spark.range(5_000).selectExpr(
        "CAST(id AS STRING) AS value", f"'{messages.name}' AS topic", "CONCAT('k', id) AS key"
    ).write.json(str(source))
    write()
    for file in (checkpoint / "commits" / "0", checkpoint / "commits" / ".0.crc"):
        file.unlink()
    write()

    reading = stream(includeProperties="true")
    messages.await_dispatch()
    reading.run_to_end()
    rows = reading.rows()
    assert Counter(bytes(row.body).decode() for row in rows) == {str(number): 2 for number in range(5_000)}
    assert len({row.msgId for row in rows}) == 5_000
    assert len({(row.msgId, bytes(row.body), row["keys"]) for row in rows}) == 5_000
    once = stream("once", includeProperties="true", consumerGroup=f"once-{messages.name}")
    write_to_end(by_time_of_reading(once.load()), once.folder)
    assert spark.read.parquet(str(once.folder / "rows")).select("body").distinct().count() == 5_000
    assert spark.read.parquet(str(once.folder / "rows")).count() == 5_000


@pytest.mark.full
def test_micro_batches_of_one_query_have_ids_of_their_own(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, tmp_path: Path
) -> None:
    """Two with equal rows; the second is written again, as after a crash just before its commit."""
    source, checkpoint = tmp_path / "source", tmp_path / "written"

    def write() -> list[int]:
        files = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", 1).json(str(source))
        writer = files.writeStream.format("rocketmq").options(namesrvAddr=cluster.namesrv_addr, **PATIENT)
        writer = writer.option("topic", messages.name).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(int(TIMEOUT_S))
        assert query.exception() is None
        return [progress.sink.numOutputRows for progress in query.recentProgress if progress.numInputRows]

    for _ in range(2):
        equal = spark.range(100).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
        equal.write.mode("append").json(str(source))
    assert write() == [100, 100]
    for file in (checkpoint / "commits" / "1", checkpoint / "commits" / ".1.crc"):
        file.unlink()
    assert write() == [100]

    reading = stream()
    messages.await_dispatch()
    reading.run_to_end()
    rows = reading.rows()
    assert Counter(Counter(row.msgId for row in rows).values()) == {1: 100, 2: 100}
    assert Counter(bytes(row.body).decode() for row in rows) == {str(number): 3 for number in range(100)}
    assert len({(row.msgId, bytes(row.body)) for row in rows}) == 200


@pytest.mark.full
def test_ids_of_columns_that_are_not_sent_are_the_same_in_each_write(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    """In another order, and as another write; queue and compression are those of the columns and options too."""
    for ascending in (True, False):
        frame = spark.range(200).selectExpr(
            "id AS number", "REPEAT(CAST(id AS STRING), 2000) AS value", "'k' AS shardingKey"
        )
        writer = (
            frame.orderBy("number", ascending=ascending)
            .write.format("rocketmq")
            .mode("append")
            .option("topic", messages.name)
        )
        options = {"namesrvAddr": cluster.namesrv_addr, "messageIdColumns": "number", "compression": "zstd"}
        options |= PATIENT
        writer.options(**options).save()

    reading = stream(includeProperties="true")
    messages.await_dispatch()
    reading.run_to_end()
    rows = reading.rows()
    assert len(rows) == 400
    assert len({row.msgId for row in rows}) == 200
    assert len({(row.msgId, bytes(row.body)) for row in rows}) == 200
    assert len({(row.brokerName, row.queueId) for row in rows}) == 1


def test_what_cannot_be_sent_fails_with_its_row_and_nothing_is_sent(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic
) -> None:
    frame = spark.range(100).selectExpr("IF(id = 57, '', CAST(id AS STRING)) AS body").coalesce(1)
    writer = frame.write.format("rocketmq").mode("append").option("namesrvAddr", cluster.namesrv_addr)
    with pytest.raises(
        PythonException, match=r"INVALID_ROW\] Invalid row 57 in partition 0 of write \S+.*body is empty"
    ) as raised:
        writer.option("topic", messages.name).save()
    assert str(raised.value).count("INVALID_ROW") == 1
    assert "write_rows" not in str(raised.value), "the way to the error helps nobody who writes"
    assert messages.bounds_are_empty()


def test_what_is_requested_wrongly_is_reported_before_anything_is_done(spark: SparkSession) -> None:
    writer = spark.sql("SELECT 'a' AS body").write.format("rocketmq").option("namesrvAddr", "127.0.0.1:1")
    with pytest.raises(AnalysisException, match=r"ROCKETMQ_MISSING_SINK_COLUMN.*column 'topic' or option 'topic'"):
        writer.mode("append").save()
    writer = writer.option("topic", "t")
    with pytest.raises(AnalysisException, match="ROCKETMQ_UNSUPPORTED_SAVE_MODE"):
        writer.mode("overwrite").save()
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException, match=r"(?i)append"):
            writer.mode(mode).save()
    with pytest.raises(AnalysisException, match=r"ROCKETMQ_UNKNOWN_OPTION.*'topc'.*'topic'"):
        writer.mode("append").option("topc", "t").save()
