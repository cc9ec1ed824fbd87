"""What a user sees who requests what there is not: what to use instead, whichever way Spark is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from connector_tests.support.timeouts import END_TO_END_S

NOWHERE = "127.0.0.1:1"
GIVEN = {"namesrvAddr": NOWHERE, "consumerGroup": "g", "subscribe": "t"}
SQL_OPTIONS = f"OPTIONS (namesrvAddr '{NOWHERE}', subscribe 't')"
NO_OPTIONS = r"ROCKETMQ_MISSING_OPTION.*'namesrvAddr'"
NO_TABLE = r"ROCKETMQ_UNSUPPORTED_OPERATION.*CREATE TABLE is not.*CREATE TEMPORARY VIEW"
TIMEOUT_S = int(END_TO_END_S)


@pytest.mark.parametrize("schema", [None, "body BINARY"])
def test_batch_without_options_names_the_first_that_is_missing(spark: SparkSession, schema: str | None) -> None:
    reader = spark.read.format("rocketmq")
    with pytest.raises(AnalysisException, match=NO_OPTIONS):
        (reader if schema is None else reader.schema(schema)).load().count()


@pytest.mark.parametrize("options", [SQL_OPTIONS, ""], ids=["options", "none"])
def test_create_table_names_the_view(spark: SparkSession, options: str) -> None:
    with pytest.raises(AnalysisException, match=NO_TABLE):
        spark.sql(f"CREATE TABLE no_table USING rocketmq {options}")


def test_a_table_with_columns_gets_no_options_from_spark(spark: SparkSession) -> None:
    """Spark makes it without asking the source."""
    spark.sql(f"CREATE TABLE some_table (body BINARY) USING rocketmq {SQL_OPTIONS}")
    try:
        with pytest.raises(AnalysisException, match=NO_OPTIONS):
            spark.table("some_table").count()
        with pytest.raises(AnalysisException, match=NO_OPTIONS):
            spark.sql("INSERT INTO some_table VALUES (X'00')")
    finally:
        spark.sql("DROP TABLE some_table")


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}, {"processingTime": "1 second"}])
def test_a_streams_invalid_option_is_named_with_a_schema_of_the_users_own_too(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, bool | str]
) -> None:
    reader = spark.readStream.format("rocketmq").schema("body BINARY").options(**GIVEN).option("subscrib", "t")
    writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(**trigger).start()  # type: ignore[arg-type]  # one of several kinds
    with pytest.raises(StreamingQueryException, match=r"UNKNOWN_OPTION.*'subscrib'.*'subscribe'"):
        query.awaitTermination(TIMEOUT_S)


def test_a_streams_invalid_option_is_named_by_load(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"UNKNOWN_OPTION.*'subscrib'.*'subscribe'"):
        spark.readStream.format("rocketmq").options(**GIVEN).option("subscrib", "t").load()
