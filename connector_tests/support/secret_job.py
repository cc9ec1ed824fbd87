"""A job whose options hold secrets, and that shows of itself whatever Spark and the connector show: on its output, in
its event log, its checkpoint, its spool, and the pages of Spark's UI, which it keeps as files.

Run as ``python -m connector_tests.support.secret_job FOLDER``; on standard input there are JSON options, of several
queries by name.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copytree
from urllib.error import HTTPError

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.support.secret_statements import (
    REJECTED,
    describe,
    fail_to_read,
    failing,
    show,
    write_options,
    wrong,
)
from connector_tests.support.spark_session import test_session
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.options import ReadOptions, WriteOptions
from rocketmq_spark.source.datasource import RocketMQDataSource

LINK = re.compile(r'href="(/(?:SQL|StreamingQuery|environment|executors|jobs|stages)[^"]*)"')
MAX_PAGES = 60
INVALID = "[ROCKETMQ_INVALID_OPTION_VALUE]"


def main() -> None:
    folder, ways = Path(sys.argv[1]), json.load(sys.stdin)
    (folder / "events").mkdir()
    logging.basicConfig(level=logging.DEBUG)
    # It would log each call that PySpark makes with its arguments, those of option() too: see docs/security.md.
    logging.getLogger("py4j").setLevel(logging.INFO)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    with test_session(folder, **settings) as spark:
        spark.sparkContext.setLogLevel("INFO")
        run(spark, folder, ways)
        for number, page in enumerate(pages_of(spark)):
            (folder / f"page-{number}.html").write_text(page, encoding="utf-8")


def run(spark: SparkSession, folder: Path, ways: Mapping[str, dict[str, str]]) -> None:
    """By each way a query that reads and is explained, and one with another key; by the first also one that is unknown,
    and one whose options are refused. One after the other: Spark gives a query's process seconds to start."""
    for way, options in ways.items():
        query = started(spark, folder / way, options)
        query.awaitTermination()
        query.explain(True)
        show([progress.json for progress in query.recentProgress])
        show(RocketMQDataSource(dict(options)), ReadOptions.parse(options), vars(ReadOptions.parse(options)))
        fail_to_read(spark, wrong(options), str(folder / f"{way}-failed"), REJECTED)
    first = next(iter(ways.values()))
    fail_to_read(spark, first | {"accessKey": "nobody"}, str(folder / "failed"), REJECTED)
    fail_to_read(spark, first | {"subscribe": "a b"}, str(folder / "failed"), INVALID)
    write(spark, folder / "writing", write_options(first))
    describe(spark, spark.readStream.format("rocketmq").options(**first).load(), first)


def write(spark: SparkSession, folder: Path, options: Mapping[str, str]) -> None:
    """A batch and a stream that are written, and both with another key."""
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "rows.txt").write_text("three\n")
    rows = spark.createDataFrame([("four",)], "value string").selectExpr("cast(value as binary) body")
    lines = spark.readStream.text(str(folder / "in")).selectExpr("cast(value as binary) body")
    show(RocketMQDataSource(dict(options)), WriteOptions.parse(options), vars(WriteOptions.parse(options)))
    rows.write.format("rocketmq").options(**options).mode("append").save()
    query = written(lines, folder / "checkpoint", options)
    query.awaitTermination()
    query.explain(True)
    show([progress.json for progress in query.recentProgress])
    with failing(REJECTED):
        rows.write.format("rocketmq").options(**wrong(options)).mode("append").save()
    with failing(REJECTED):
        written(lines, folder / "failed", wrong(options)).awaitTermination()


def written(rows: DataFrame, checkpoint: Path, options: Mapping[str, str]) -> StreamingQuery:
    """A query that writes what is there."""
    writer = rows.writeStream.format("rocketmq").options(**options).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def started(spark: SparkSession, folder: Path, options: Mapping[str, str]) -> StreamingQuery:
    """A query that reads what is there, is explained, and keeps what is in its spool while it runs a batch."""
    frame = spark.readStream.format("rocketmq").options(**options).load()
    frame.explain(True)
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    if "spoolDir" not in options:
        return writer.format("parquet").option("path", str(folder / "out")).start()

    def write(batch: DataFrame, number: int) -> None:
        ours = options["consumerGroup"]
        copytree(Path(options["spoolDir"], ours), folder / "spool" / ours, dirs_exist_ok=True)
        batch.write.mode("overwrite").parquet(str(folder / "out" / str(number)))

    return writer.foreachBatch(write).start()


def pages_of(spark: SparkSession) -> Iterator[str]:
    """Those that the UI leads to, from its first and what its interface for programs states."""
    root = spark.sparkContext.uiWebUrl
    assert root is not None
    root = re.sub("//[^:/]+:", "//127.0.0.1:", root)
    application = f"/api/v1/applications/{spark.sparkContext.applicationId}"
    pages = ["/environment/", "/SQL/", "/StreamingQuery/", f"{application}/environment"]
    pages += [f"{application}/sql?details=true&planDescription=true"]
    for number in range(MAX_PAGES):
        if number == len(pages):
            return
        page = page_at(root + pages[number])
        pages += [link for link in dict.fromkeys(LINK.findall(page)) if link not in pages]
        yield page


def page_at(address: str) -> str:
    """What the UI answers, be it an error of its own: Spark's link to a query without batches leads to one."""
    try:
        with urllib.request.urlopen(address, timeout=WAIT_S) as response:
            return str(response.read().decode())
    except HTTPError as error:
        with error:
            return error.read().decode()


if __name__ == "__main__":
    main()
