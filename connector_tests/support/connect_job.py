"""A client of Spark Connect in a process without a JVM: a stream that is stopped gracefully, a batch read, a write, and
all that Spark shows of these. Run as a program, see ``main``: it prints what it saw in JSON, as its last line."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

import rocketmq_spark
from connector_tests.support.secret_statements import (
    REJECTED,
    describe,
    fail_to_read,
    failing,
    show,
    write_options,
    wrong,
)
from connector_tests.support.timeouts import END_TO_END_S

END: Final = "the end of the client"
"""In its last statement."""


def main() -> None:
    """``connection`` is on standard input, in JSON: it has secrets."""
    server, topic, group, copies, folder = sys.argv[1:]
    connection = json.load(sys.stdin)
    assert shutil.which("java") is None
    spark = SparkSession.builder.remote(server).getOrCreate()
    reads = {**connection, "subscribe": topic, "startingOffsets": "earliest"}
    seen = stream(spark, {**reads, "consumerGroup": group}, folder)
    frame = spark.read.format("rocketmq").options(**reads).load()
    bodies = frame.select("body")
    seen["batch"] = [row.body.decode() for row in bodies.collect()]
    writes = write_options(reads) | {"topic": copies}
    bodies.write.format("rocketmq").options(**writes).mode("append").save()
    fail(spark, reads | {"consumerGroup": group}, writes, folder)
    frame.explain(True)
    frame.explain("formatted")
    describe(spark, frame, reads)
    spark.sql(f"SELECT '{END}'").collect()
    spark.stop()
    sys.stdout.write(json.dumps(seen))


def stream(spark: SparkSession, options: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Read into a table until nothing waits, and stop gracefully; returns what the progress showed."""
    messages = spark.readStream.format("rocketmq").options(**options).load()
    messages.explain(True)
    writer = messages.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.start(f"{folder}/table")
    deadline = time.monotonic() + END_TO_END_S
    while not (shown := shown_of(query)) or shown["lag"] != 0:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.2)
    query.explain(True)
    rocketmq_spark.stop(query, timeout_s=END_TO_END_S)
    show([progress.json for progress in query.recentProgress])
    rows = sum(source["numInputRows"] for progress in query.recentProgress for source in progress["sources"])
    drawn = [line.get_label() for line in rocketmq_spark.plot_lag(query).axes[0].get_lines()]
    return {
        "lag": shown["lag"],
        "lagByQueue": shown["lagByQueue"],
        "drawn": drawn,
        "rows": rows,
        "isActive": query.isActive,
    }


def shown_of(query: Any) -> dict[str, Any]:
    """The fields of the query's one source; {} before the first progress."""
    return next(iter(rocketmq_spark.progress_of(query)), {})


def fail(spark: SparkSession, reads: Mapping[str, str], writes: Mapping[str, str], folder: str) -> None:
    """Show with what a query and a write with another key fail."""
    fail_to_read(spark, wrong(reads), f"{folder}/refused", REJECTED)
    with failing(REJECTED):
        row = spark.createDataFrame([(b"refused",)], "body BINARY")
        row.write.format("rocketmq").options(**wrong(writes)).mode("append").save()


if __name__ == "__main__":
    main()
