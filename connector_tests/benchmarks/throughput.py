"""Streaming AvailableNow to the noop sink: how long Spark takes to read what a topic holds."""

from __future__ import annotations

from datetime import datetime
from time import perf_counter

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.benchmarks.machine import Machine
from connector_tests.benchmarks.roles import BENCHMARK, BROKER, JVM
from connector_tests.benchmarks.run import Figures
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.spark import checkpoint, jvm_pid
from connector_tests.benchmarks.usage import Usage
from connector_tests.benchmarks.wall import IDLE_IN_BATCHES


def read_all(spark: SparkSession, side: Side, stream: DataFrame, stored: int, delivered: int | None = None) -> Figures:
    """``seconds``: from the start of the query to its end; ``batch_seconds``: what its micro-batches took of that;
    ``machine idle_in_batches_core_s``: what no core did meanwhile.

    ``rows`` are those that are ``stored``. Raises AssertionError if Spark got other than ``delivered`` of them, by
    default all.
    """
    processes = {BROKER: side.broker_pid, JVM: jvm_pid(spark), BENCHMARK: psutil.Process().pid}
    with checkpoint() as folder, Machine() as machine, Usage(processes, jvm_pid(spark)) as usage:
        begin = perf_counter()
        writer = stream.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        seconds = perf_counter() - begin
        rows, batches = batches_of(query)
    expected = stored if delivered is None else delivered
    assert rows == expected, f"{side.source}: {rows} rows instead of {expected}"
    return {
        "rows": stored,
        "seconds": seconds,
        "batch_seconds": sum(end_s - begin_s for begin_s, end_s in batches),
        IDLE_IN_BATCHES: sum(machine.idle_core_s(begin_s, end_s) for begin_s, end_s in batches),
        **usage.figures(),
        **machine.figures(),
    }


def batches_of(query: StreamingQuery) -> tuple[int, list[tuple[float, float]]]:
    """Rows of all micro-batches, and when each began and ended, in seconds since the epoch."""
    progress = [batch for batch in query.recentProgress if batch["numInputRows"]]
    return sum(batch["numInputRows"] for batch in progress), [_time_of(batch) for batch in progress]


def _time_of(batch: StreamingQueryProgress) -> tuple[float, float]:
    begin_s = datetime.fromisoformat(batch["timestamp"]).timestamp()
    return begin_s, begin_s + batch["durationMs"]["triggerExecution"] / 1000
