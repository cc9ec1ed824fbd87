"""What a job with secret options runs to show whatever Spark shows of them, in Spark's own process or over Spark
Connect."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rocketmq_spark.options import WriteOptions
from rocketmq_spark.options.table import rows as rows_of

REJECTED: Final = "[ROCKETMQ_CREDENTIALS_REJECTED]"
REDACTED: Final = (
    "SHOW TABLE EXTENDED LIKE 'orders'",
    "EXPLAIN EXTENDED SELECT * FROM orders WITH ",
    "EXPLAIN EXTENDED INSERT INTO orders WITH ",
)
"""Statements whose results have the options, each secret one redacted."""
INSERTED_COUNT: Final = 1
"""Rows that ``describe`` adds to the topic."""


def show(*shown: object) -> None:
    """On standard output, as a user would; one line, of values without line breaks."""
    sys.stdout.write(" ".join(f"{one!s} {one!r}" for one in shown) + "\n")


@contextmanager
def failing(condition: str) -> Iterator[None]:
    """Show what the block ends with, in which ``condition`` is to be found."""
    try:
        yield
    except PySparkException as error:
        logging.getLogger().exception("it failed")
        assert condition in str(error), error
        show(error)
        return
    raise AssertionError("it did not fail")


def fail_to_read(spark: SparkSession, options: Mapping[str, str], checkpoint: str, condition: str) -> None:
    """Show what a query of these options ends with, in which ``condition`` is to be found."""
    with failing(condition):
        query = spark.readStream.format("rocketmq").options(**options).load().writeStream.format("noop")
        query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def wrong(options: Mapping[str, str]) -> dict[str, str]:
    """The same with a key that begins with the right one."""
    return {**options, "secretKey": options["secretKey"] + "x"}


def write_options(reading: Mapping[str, str]) -> dict[str, str]:
    """Options of a writer to the topic that ``reading`` reads."""
    accepted = {row.name for _, row in rows_of(WriteOptions)} & reading.keys()
    return {**{name: reading[name] for name in accepted}, "topic": reading["subscribe"]}


def describe(spark: SparkSession, frame: DataFrame, reading: Mapping[str, str]) -> None:
    """Make a table and views with these options, use them, and show all that Spark states of them. ``frame`` has the
    options too."""
    frame.createOrReplaceTempView("messages")
    for statement in possible(reading):
        show(f"SQL {without_options(statement)}", [tuple(row) for row in spark.sql(statement).collect()])
    for statement, condition in impossible(reading).items():
        with failing(condition):
            spark.sql(statement).collect()
    show(spark.catalog.listTables())


def possible(reading: Mapping[str, str]) -> Iterator[str]:
    """Statements that succeed, in this order."""
    for view in ("messages", "named"):
        if view == "named":
            yield f"CREATE TEMPORARY VIEW named USING rocketmq {clause('OPTIONS', reading)}"
            yield "SELECT * FROM named"
        yield f"DESCRIBE TABLE EXTENDED {view}"
        yield f"EXPLAIN EXTENDED SELECT * FROM {view}"
        yield f"EXPLAIN FORMATTED SELECT * FROM {view}"
    yield f"CREATE TABLE orders (body BINARY) USING rocketmq {clause('OPTIONS', reading)}"
    yield "DESCRIBE TABLE EXTENDED orders"
    yield "SHOW CREATE TABLE orders"
    yield "SHOW TBLPROPERTIES orders"
    yield "SHOW TABLE EXTENDED LIKE 'orders'"
    for statement in (
        f"SELECT * FROM orders {clause('WITH', reading)}",
        f"INSERT INTO orders {clause('WITH', write_options(reading))} VALUES (X'35')",
    ):
        yield statement
        yield f"EXPLAIN EXTENDED {statement}"
        yield f"EXPLAIN FORMATTED {statement}"


def impossible(reading: Mapping[str, str]) -> dict[str, str]:
    """Statements that fail, and a condition of each."""
    return {
        f"CREATE TABLE no_columns USING rocketmq {clause('OPTIONS', reading)}": "[ROCKETMQ_UNSUPPORTED_OPERATION]",
        f"SELECT nothing FROM orders {clause('WITH', reading)}": "[UNRESOLVED_COLUMN",
        f"SELECT * FROM orders {clause('WITH', wrong(reading))}": REJECTED,
        "SELECT * FROM orders": "[ROCKETMQ_MISSING_OPTION]",
        "SHOW CREATE TABLE named": "[EXPECT_PERMANENT_VIEW_NOT_TEMP]",
    }


def clause(word: str, options: Mapping[str, str]) -> str:
    """``OPTIONS (...)`` of a view or table, ``WITH (...)`` of a statement."""
    return f"{word} ({', '.join(f'`{name}` = {value!r}' for name, value in options.items())})"


def without_options(statement: str) -> str:
    """What is before them."""
    return statement.partition("(`")[0]
