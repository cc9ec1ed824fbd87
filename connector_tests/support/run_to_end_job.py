"""A program: read what a topic has into a folder, with Spark settings of its own; prints what came of it as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from connector_tests.support.spark_session import test_session
from connector_tests.support.timeouts import PROCESS_S

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = PROCESS_S
DYING = "dying"


@dataclass(frozen=True)
class Outcome:
    """``error`` is empty if the query has ended well. ``seconds`` of the query alone."""

    error: str
    seconds: float
    log: str


def run_to_end(folder: Path, settings: dict[str, str], options: dict[str, str], how: str = "") -> Outcome:
    """The program, to its end. ``folder`` may be that of a run before, which then continues. With ``DYING`` a worker of
    each task's first attempt kills itself, which Spark has to be told to try again."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "connector_tests.support.run_to_end_job", str(folder)]
    done = subprocess.run(
        [*command, json.dumps(settings), json.dumps(options), how],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=TIMEOUT_S,
        check=True,
    )
    outcome_text = json.loads(done.stdout.splitlines()[-1])
    return Outcome(outcome_text["error"], outcome_text["seconds"], done.stderr)


def die_at_first(body: bytearray) -> bytes:
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(body)


def main(folder: str, settings: str, options: str, how: str) -> None:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{folder}/out/batch={batch_id}")

    error = ""
    with test_session(Path(folder), **json.loads(settings)) as spark:
        rows = spark.readStream.format("rocketmq").options(**json.loads(options)).load()
        if how == DYING:
            rows = rows.withColumn("body", udf(die_at_first, BinaryType())("body"))
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
        began = time.monotonic()
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as raised:
            error = str(raised)
        seconds = time.monotonic() - began
    sys.stdout.write(json.dumps({"error": error, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
