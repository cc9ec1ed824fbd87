"""A query in a program of its own, for what its user is told: everything that is written on standard error, at Spark's
own log level, and the query's progress.

As a program: read a topic, or write rows to one, batch by batch, and note each new progress, until the query fails or
somebody ends it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.support.process_tree import kill_tree, written_bodies
from connector_tests.support.spark_session import test_session
from connector_tests.support.timeouts import END_TO_END_S

REPOSITORY = Path(__file__).parents[2]
POLL_S = 0.1
END_TIMEOUT_S = END_TO_END_S
ROWS_PER_SECOND = 4
OUR_BEGIN = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ rocketmq_spark \[")
"""Of each line of the connector."""


class LoggedJob:
    """The running program, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text("utf-8", errors="replace")

    def lines(self) -> list[str]:
        """Those of the connector, without Spark's bar of progress before them."""
        matches = [OUR_BEGIN.search(line) for line in self.log.splitlines()]
        return [match.string[match.start() :] for match in matches if match is not None]

    def lines_with(self, text: str) -> list[str]:
        """Lines of the connector with ``text`` in them."""
        return [line for line in self.lines() if text in line]

    def progress(self) -> list[dict[str, Any]]:
        """``sources[0].latestOffset`` of each progress, in order."""
        with suppress(FileNotFoundError):
            lines = (self._folder / "progress").read_text("utf-8").splitlines(keepends=True)
            return [json.loads(line) for line in lines if line.endswith("\n")]
        return []

    def bodies(self) -> list[str]:
        """What its batches have written, sorted."""
        return sorted(written_bodies(self._folder))

    def signal_all(self, number: signal.Signals) -> None:
        """To every process of the program's group, as terminals and notebooks do; waits for the program's end."""
        os.killpg(self._process.pid, number)
        self._process.wait(END_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL for all that is left. May be called again."""
        kill_tree(self._process)


@contextmanager
def logged_job(folder: Path, **options: str) -> Iterator[LoggedJob]:
    """The program with the options of the source; ``folder`` may be that of a job before, which continues. A test that
    fails states what the program has written."""
    folder.mkdir(exist_ok=True)
    with _program("read", folder, options) as job:
        yield job


@contextmanager
def logged_sink(folder: Path, **options: str) -> Iterator[LoggedJob]:
    """As ``logged_job``, of a query that writes some rows a second with the options of the sink: in one task after the
    other, and so in one process."""
    folder.mkdir(exist_ok=True)
    with _program("write", folder, options) as job:
        yield job


@contextmanager
def _program(what: str, folder: Path, options: dict[str, str]) -> Iterator[LoggedJob]:
    command = [sys.executable, "-m", "connector_tests.support.logged_job", what, str(folder), json.dumps(options)]
    settings = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    job = LoggedJob(process, folder)
    try:
        yield job
    except AssertionError as failure:
        failure.add_note(job.log)
        raise
    finally:
        job.kill()


def reading(spark: SparkSession, folder: str, options: dict[str, str]) -> StreamingQuery:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{folder}/out/batch={batch_id}")

    reader = spark.readStream.format("rocketmq").options(**options)
    writer = reader.load().writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


def writing(spark: SparkSession, folder: str, options: dict[str, str]) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_SECOND).option("numPartitions", 1).load()
    writer = rows.selectExpr("CAST(value AS STRING) AS body").writeStream.format("rocketmq").options(**options)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


def main(what: str, folder: str, options: str) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a suite below ``nohup`` ignores it, and so would Spark's JVM
    with test_session(Path(folder)) as spark, (Path(folder) / "progress").open("w", encoding="utf-8") as progress_file:
        spark.sparkContext.setLogLevel("WARN")  # what PySpark sets by itself
        query = {"read": reading, "write": writing}[what](spark, folder, json.loads(options))
        last = ""
        while query.isActive:
            progress = query.lastProgress
            if progress is not None and progress.json != last:
                last = progress.json
                progress_file.write(f"{progress.sources[0].latestOffset}\n")
                progress_file.flush()
            time.sleep(POLL_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
