"""A program for a Python that has PySpark and what the package needs, and nothing of the benchmark: it reads a topic
to its end, twice, and prints what the second time took."""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from pyspark.sql import SparkSession

from connector_tests.support.spark_session import local_session

SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def read(spark: SparkSession, options: Mapping[str, str], count: int) -> dict[str, float]:
    """``rows``, ``seconds`` of the query and ``batch_seconds`` of its batches. Raises AssertionError for other rows
    than ``count``."""
    reader = spark.readStream.format("rocketmq").options(**options)
    stream = reader.option("consumerGroup", f"benchmark-{uuid.uuid4().hex}").load()
    with tempfile.TemporaryDirectory() as folder:
        writer = stream.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True)
        begin = perf_counter()
        query = writer.start()
        query.awaitTermination()
        seconds = perf_counter() - begin
        batches: list[Any] = [batch for batch in query.recentProgress if batch["numInputRows"]]
    rows = sum(batch["numInputRows"] for batch in batches)
    assert rows == count, f"{rows} rows instead of {count}"
    return {
        "rows": rows,
        "seconds": seconds,
        "batch_seconds": sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000,
    }


def main(options: str, count: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {**SETTINGS, "spark.sql.warehouse.dir": str(Path(folder) / "warehouse")}
        with local_session("benchmark", settings) as spark:
            read(spark, json.loads(options), int(count))
            sys.stdout.write(json.dumps(read(spark, json.loads(options), int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
