"""A program for a Python with any PySpark: it reads a topic to its end, twice, and prints what the second time took."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping
from time import perf_counter

from pyspark.sql import SparkSession

from connector_tests.benchmarks.spark import DEFAULT_SETTINGS, checkpoint, spark_session
from connector_tests.benchmarks.throughput import batches_of


def read(spark: SparkSession, options: Mapping[str, str], count: int) -> dict[str, float]:
    """``rows``, ``seconds`` of the query and ``batch_seconds`` of its batches. Raises AssertionError for other rows
    than ``count``."""
    reader = spark.readStream.format("rocketmq").options(**options)
    stream = reader.option("consumerGroup", f"benchmark-{uuid.uuid4().hex}").load()
    with checkpoint() as folder:
        writer = stream.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True)
        begin = perf_counter()
        query = writer.start()
        query.awaitTermination()
        seconds = perf_counter() - begin
        rows, batches = batches_of(query)
    assert rows == count, f"{rows} rows instead of {count}"
    return {"rows": rows, "seconds": seconds, "batch_seconds": sum(end_s - begin_s for begin_s, end_s in batches)}


def main(options: str, count: str) -> None:
    """Print the figures."""
    with spark_session(DEFAULT_SETTINGS, []) as spark:
        read(spark, json.loads(options), int(count))
        sys.stdout.write(json.dumps(read(spark, json.loads(options), int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
