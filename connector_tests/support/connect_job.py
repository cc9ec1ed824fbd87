"""A client of Spark Connect in a process without a JVM: a stream that is stopped gracefully, a batch read, a
write. Run as a program, see ``main``; prints what it saw, in JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

import rocketmq_spark
from connector_tests.support.timeouts import END_TO_END_S


def main() -> None:
    server, namesrv_addr, topic, group, copies, folder = sys.argv[1:]
    assert shutil.which("java") is None
    spark = SparkSession.builder.remote(server).getOrCreate()
    reads = {"namesrvAddr": namesrv_addr, "subscribe": topic, "startingOffsets": "earliest"}
    seen = stream(spark, reads | {"consumerGroup": group}, folder)
    bodies = spark.read.format("rocketmq").options(**reads).load().select("body")
    seen["batch"] = [row.body.decode() for row in bodies.collect()]
    bodies.write.format("rocketmq").options(namesrvAddr=namesrv_addr, topic=copies).mode("append").save()
    spark.stop()
    sys.stdout.write(json.dumps(seen))


def stream(spark: SparkSession, options: dict[str, str], folder: str) -> dict[str, Any]:
    """Read into a table until nothing waits, and stop gracefully; returns what the progress showed."""
    messages = spark.readStream.format("rocketmq").options(**options).load()
    writer = messages.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.start(f"{folder}/table")
    deadline = time.monotonic() + END_TO_END_S
    while not (shown := shown_of(query)) or shown["lag"] != 0:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.2)
    rocketmq_spark.stop(query, timeout_s=END_TO_END_S)
    rows = sum(source["numInputRows"] for progress in query.recentProgress for source in progress["sources"])
    return {"lag": shown["lag"], "lagByQueue": shown["lagByQueue"], "rows": rows, "isActive": query.isActive}


def shown_of(query: Any) -> dict[str, Any]:
    """The fields of the query's one source; {} before the first progress."""
    return next(iter(rocketmq_spark.progress_of(query)), {})


if __name__ == "__main__":
    main()
