"""A program: read what a topic has into a folder, one run after the other in a Spark session with settings of its own.

As a program: see ``main``. A run is a line of JSON on standard input; what came of it is in a file of the run's folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from connector_tests.support.process_tree import kill_tree
from connector_tests.support.spark_session import test_session
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PROCESS_S

REPOSITORY: Final = Path(__file__).parents[2]
DYING: Final = "dying"
OUTCOME: Final = "outcome"


@dataclass(frozen=True)
class Outcome:
    """``error`` is empty if the query has ended well. ``seconds`` of the query alone."""

    error: str
    seconds: float


class RunsToEnd:
    """The running program; ``folder`` has its log."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._log = folder / "log"
        self._run_begin_bytes = 0

    @property
    def log(self) -> str:
        """What the program and its processes have written since the last run began; lines may come after its end."""
        return self._log.read_bytes()[self._run_begin_bytes :].decode(errors="replace")

    def run(self, folder: Path, options: dict[str, str], how: str = "") -> Outcome:
        """One run, to its end. ``folder`` may be that of a run before, which then continues. With ``DYING`` a worker of
        each task's first attempt kills itself, which Spark has to be told to try again."""
        folder.mkdir(exist_ok=True)
        outcome = folder / OUTCOME
        outcome.unlink(missing_ok=True)
        self._run_begin_bytes = self._log.stat().st_size
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
        requests = self._stdin()
        requests.write(json.dumps([str(folder), options, how]) + "\n")
        requests.flush()

        def is_done() -> bool:
            assert self._process.poll() is None, self.log[-3000:]
            return outcome.exists()

        try:
            eventually(is_done, "the end of a run", PROCESS_S)
        except AssertionError:
            kill_tree(self._process)  # else later runs would wait behind this one
            raise
        return Outcome(**json.loads(outcome.read_text("utf-8")))

    def end(self) -> None:
        """End the program, which has no other run to do."""
        self._stdin().close()
        assert self._process.wait(PROCESS_S) == 0, self.log[-3000:]

    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin


@contextmanager
def runs_to_end(folder: Path, **settings: str) -> Iterator[RunsToEnd]:
    """The program, with settings of its Spark session; all of it is gone after the block."""
    command = [sys.executable, "-m", "connector_tests.support.run_to_end_job", str(folder), json.dumps(settings)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder, text=True
        )
    try:
        runs = RunsToEnd(process, folder)
        yield runs
        runs.end()
    finally:
        kill_tree(process)


def die_at_first(body: bytearray) -> bytes:
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(body)


def run(spark: SparkSession, folder: str, options: dict[str, str], how: str) -> Outcome:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{folder}/out/batch={batch_id}")

    error = ""
    rows = spark.readStream.format("rocketmq").options(**options).load()
    if how == DYING:
        rows = rows.withColumn("body", udf(die_at_first, BinaryType())("body"))
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    began = time.monotonic()
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as raised:
        error = str(raised)
    return Outcome(error, time.monotonic() - began)


def main(folder: str, settings: str) -> None:
    """Do each run that standard input requests, until its end."""
    with test_session(Path(folder), **json.loads(settings)) as spark:
        for request in sys.stdin:
            run_folder, options, how = json.loads(request)
            outcome = run(spark, run_folder, options, how)
            unfinished = Path(run_folder) / f"{OUTCOME}.unfinished"
            unfinished.write_text(json.dumps({"error": outcome.error, "seconds": outcome.seconds}), "utf-8")
            unfinished.rename(unfinished.with_suffix(""))


if __name__ == "__main__":
    main(*sys.argv[1:])
