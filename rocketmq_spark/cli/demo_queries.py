"""The demo's Spark: a session without console output, and queries that collect messages or write invoices."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import rocketmq_spark_python
from rocketmq_spark.cli.demo_report import Progress

TRIGGER: Final = "2 seconds"
INVOICE: Final = "to_json(named_struct('invoice', keys, 'due_cents', get_json_object(string(body), '$.amount_cents')))"


@contextmanager
def quiet_session(folder: Path) -> Iterator[SparkSession]:
    """Start a local Spark session that keeps its files in ``folder`` and writes its log to ``folder/spark.log``, and
    yield it. After the block stop all its queries and the session. Sets PYSPARK_PYTHON in the environment, for good,
    unless it is set."""
    os.environ.setdefault("PYSPARK_PYTHON", rocketmq_spark_python.command())
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoints"),
        "spark.sql.streaming.numRecentProgressUpdates": 10,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
    }
    builder = SparkSession.builder.master("local[2]").appName("rocketmq-spark demo").config(map=settings)
    with quiet_start(folder / "spark.log"):
        session = builder.getOrCreate()
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        for query in session.streams.active:
            query.stop()
        session.stop()


@contextmanager
def quiet_start(log: Path) -> Iterator[None]:
    """Append to ``log`` the standard error of child processes that start in the block, also after the block. The
    standard error of this process is redirected in the block only.

    Ctrl-C in the block raises KeyboardInterrupt at its end: PySpark does not end a JVM whose start was interrupted.
    """
    interrupts: list[int] = []
    previous_handler = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        signal.signal(signal.SIGINT, previous_handler)
    if interrupts:
        raise KeyboardInterrupt


def collecting(messages: DataFrame, name: str) -> DataStreamWriter:
    """Return the writer of a query, not started, that collects IDs, keys and tags into an in-memory table ``name``, the
    query's name too, every 2 s."""
    output = messages.select("msgId", "keys", "tags").writeStream.queryName(name)
    return output.format("memory").trigger(processingTime=TRIGGER)


def billing(orders: DataFrame, name: str, options: Mapping[str, str]) -> DataStreamWriter:
    """Return the writer of a query ``name``, not started, that writes an invoice for each order to RocketMQ every 2 s.
    ``options``: of the sink. Invoices of a redelivered order have the same ID."""
    output = orders.selectExpr(f"{INVOICE} AS body", "tags", "keys").writeStream.queryName(name)
    return output.format("rocketmq").options(**options, messageIdColumns="keys").trigger(processingTime=TRIGGER)


def progress_since(query: StreamingQuery, shown: str) -> list[Progress]:
    """If the query has failed, raise its error, and return no events. Else return those of the query's last 10 progress
    events whose timestamp is after ``shown``, in their order."""
    if (failure := query.exception()) is not None:
        raise failure
    return [json.loads(progress.json) for progress in query.recentProgress if progress.timestamp > shown]
