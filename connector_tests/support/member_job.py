"""A Spark query in a process of its own, to be killed as a whole.

As a program: read a topic into a folder, batch by batch, until killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

from connector_tests.support.process_tree import kill_tree, written_bodies
from connector_tests.support.spark_session import test_session

REPOSITORY = Path(__file__).parents[2]


class MemberJob:
    """The running program, with everything that it starts."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def kill(self) -> None:
        """SIGKILL for the user's Python, the JVM, the source runner and all workers. May be called again."""
        kill_tree(self._process)

    def bodies(self) -> list[str]:
        """What its batches have written."""
        return written_bodies(self._folder)


@contextmanager
def member_job(folder: Path, **options: str) -> Iterator[MemberJob]:
    """The program with the options of the source, killed at the end of the block at the latest."""
    folder.mkdir()
    arguments = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "connector_tests.support.member_job", str(folder), *arguments]
    settings = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log, cwd=folder)
    job = MemberJob(process, folder)
    try:
        yield job
    finally:
        job.kill()


def main(folder: str, *options: str) -> None:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{folder}/out/batch={batch_id}")

    with test_session(Path(folder)) as spark:
        reader = spark.readStream.format("rocketmq").options(**dict(one.split("=", 1) for one in options))
        writer = reader.load().writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(processingTime="500 milliseconds")
        writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
