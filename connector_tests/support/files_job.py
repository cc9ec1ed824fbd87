"""A query that writes the rows of files to a topic, cut into tasks as its settings state; killed from outside, and
continued in the Spark of the test.

As a program: see ``main``. What is written has positional IDs: the query names no columns that identify a row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.support.process_tree import kill_tree
from connector_tests.support.spark_session import test_session
from connector_tests.support.timeouts import PROCESS_S

REPOSITORY: Final = Path(__file__).parents[2]
CLICKS: Final = ("click", "view", "scroll")
"""Bodies of rows that nothing distinguishes: every second row has one of them."""
ROW_GROUP: Final = 1_000
POLL_S: Final = 0.005


@dataclass(frozen=True)
class FilesJob:
    """The program; its files, its checkpoint and its log are in ``folder``."""

    namesrv_addr: str
    topic: str
    folder: Path

    def write_files(self, count: int, rows_a_file: int) -> Counter[str]:
        """Write new files; returns the bodies of their rows, by count."""
        bodies = [CLICKS[n // 2 % len(CLICKS)] if n % 2 else f"order {n}" for n in range(count * rows_a_file)]
        (self.folder / "source").mkdir(parents=True)
        for file in range(count):
            table = pa.table({"body": bodies[file * rows_a_file : (file + 1) * rows_a_file]})
            pq.write_table(table, self.folder / "source" / f"{file}.parquet", row_group_size=ROW_GROUP)
        return Counter(bodies)

    def is_in_a_batch(self) -> bool:
        """Whether its batch is logged and not committed; it has one."""
        checkpoint = self.folder / "checkpoint"
        return (checkpoint / "offsets" / "0").exists() and not (checkpoint / "commits" / "0").exists()

    def kill_when(self, is_so: Callable[[], bool], shuffle: str, **settings: str) -> None:
        """Run until ``is_so``, then kill all of it; the batch must not be committed then."""
        process = self._start(shuffle, settings)
        try:
            deadline = time.monotonic() + PROCESS_S
            while not is_so():
                assert process.poll() is None, self._log()
                assert time.monotonic() < deadline, self._log()
                time.sleep(POLL_S)
        finally:
            kill_tree(process)
        assert self.is_in_a_batch(), "killed too late"

    def run_to_end(self, spark: SparkSession, shuffle: int) -> None:
        """Continue the query in ``spark``."""
        query = started(spark, self.namesrv_addr, self.topic, str(self.folder), shuffle)
        try:
            assert query.awaitTermination(int(PROCESS_S))
        finally:
            query.stop()
        assert query.exception() is None

    def _start(self, shuffle: str, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        arguments = (self.namesrv_addr, self.topic, str(self.folder), shuffle, json.dumps(settings))
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self.folder)}
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "connector_tests.support.files_job", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]


def started(spark: SparkSession, namesrv_addr: str, topic: str, folder: str, shuffle: int) -> StreamingQuery:
    """Write the rows of ``folder``/source to ``topic`` in one micro-batch. ``shuffle``: number of partitions that it
    mixes rows into; 0 for none."""
    rows = spark.readStream.schema("body STRING").parquet(f"{folder}/source")
    if shuffle:
        rows = rows.repartition(shuffle)
    writer = rows.writeStream.format("rocketmq").option("namesrvAddr", namesrv_addr).option("topic", topic)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()


def main(namesrv_addr: str, topic: str, folder: str, shuffle: str, settings: str) -> None:
    with test_session(Path(folder), **json.loads(settings)) as spark:
        started(spark, namesrv_addr, topic, folder, int(shuffle)).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
