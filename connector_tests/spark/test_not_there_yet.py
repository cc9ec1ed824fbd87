"""What a user sees who asks for what there is not: what to use instead, whichever way Spark is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

import rocketmq_spark
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster

NOWHERE = "127.0.0.1:1"
GIVEN = {"namesrvAddr": NOWHERE, "consumerGroup": "g", "subscribe": "t"}
SQL_OPTIONS = f"OPTIONS (namesrvAddr '{NOWHERE}', consumerGroup 'g', subscribe 't')"
NO_READ = r"ROCKETMQ_NOT_THERE_YET.*no spark\.read.*readStream with trigger\(availableNow=True\)"
NO_SINK = r"ROCKETMQ_NOT_THERE_YET.*no sink.*rocketmq_spark\.send"
NO_TABLE = r"ROCKETMQ_NOT_THERE_YET.*no CREATE TABLE.*spark\.readStream"
TIMEOUT_S = 60


@pytest.mark.parametrize("options", [GIVEN, {}], ids=["options", "none"])
def test_spark_read_names_the_stream_that_ends(spark: SparkSession, options: dict[str, str]) -> None:
    reader = spark.read.format("rocketmq").schema("body BINARY").options(**options)
    with pytest.raises(AnalysisException, match=NO_READ):
        reader.load().count()


def test_a_view_is_as_a_read(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW no_view USING rocketmq {SQL_OPTIONS}")
    with pytest.raises(AnalysisException, match=NO_READ):
        spark.sql("SELECT * FROM no_view").count()


@pytest.mark.parametrize("options", [GIVEN, {"namesrvAddr": NOWHERE, "topic": "t"}, {"whatever": "1"}])
def test_a_write_names_what_sends_whatever_its_options_are(spark: SparkSession, options: dict[str, str]) -> None:
    rows = spark.sql("SELECT X'00' AS body")
    with pytest.raises(AnalysisException, match=NO_SINK):
        rows.write.format("rocketmq").mode("append").options(**options).save()


def test_a_streaming_write_names_what_sends(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.readStream.format("rate").load().writeStream.format("rocketmq").option("topic", "t")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match=NO_SINK):
        query.awaitTermination(TIMEOUT_S)


@pytest.mark.parametrize("options", [SQL_OPTIONS, ""], ids=["options", "none"])
def test_create_table_names_the_stream(spark: SparkSession, options: str) -> None:
    with pytest.raises(AnalysisException, match=NO_TABLE):
        spark.sql(f"CREATE TABLE no_table USING rocketmq {options}")


def test_a_table_whose_columns_were_named_is_as_a_read_and_a_write(spark: SparkSession) -> None:
    """Spark makes it without asking the source."""
    spark.sql(f"CREATE TABLE some_table (body BINARY) USING rocketmq {SQL_OPTIONS}")
    try:
        with pytest.raises(AnalysisException, match=NO_READ):
            spark.table("some_table").count()
        with pytest.raises(AnalysisException, match=NO_SINK):
            spark.sql("INSERT INTO some_table VALUES (X'00')")
    finally:
        spark.sql("DROP TABLE some_table")


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}, {"processingTime": "1 second"}])
def test_a_streams_bad_option_is_named_with_a_schema_of_the_users_own_too(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, bool | str]
) -> None:
    reader = spark.readStream.format("rocketmq").schema("body BINARY").options(**GIVEN).option("subscrib", "t")
    writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(**trigger).start()  # type: ignore[arg-type]  # one of several kinds
    with pytest.raises(StreamingQueryException, match=r"UNKNOWN_OPTION.*'subscrib'.*'subscribe'"):
        query.awaitTermination(TIMEOUT_S)


def test_a_streams_bad_option_is_named_by_load(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"MISSING_OPTION.*'consumerGroup'"):
        spark.readStream.format("rocketmq").option("namesrvAddr", NOWHERE).load()


def test_what_is_named_instead_of_a_sink_sends(spark: SparkSession, messages: Topic, cluster: EmbeddedCluster) -> None:
    address = cluster.namesrv_addr
    topic = messages.name

    def send_rows(rows: object) -> None:
        rocketmq_spark.send(address, topic, [bytes(row.body) for row in rows])  # type: ignore[attr-defined]  # Spark gives Rows

    spark.sql("SELECT CAST(CAST(id AS STRING) AS BINARY) AS body FROM range(6)").foreachPartition(send_rows)
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 6, "6 messages")
