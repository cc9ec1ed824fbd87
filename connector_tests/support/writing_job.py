"""A query that writes the rows of files to a topic, and stands still in the midst of a task to be hurt there.

As a program: see ``main``. Standing still comes from a subclass of the sink's writer; the product has no hooks. Which
micro-batches are to stand still is in the folder of ``STOPS``: a file ``N.stop_file`` becomes ``N.reached``, with the
pid of the worker, which waits until the file is gone. That happens once; the next attempt passes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.types import StructType

from connector_tests.support.other_sparks import environment_of
from connector_tests.support.process_tree import kill_tree
from connector_tests.support.spark_session import test_session
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.sink.writer import BATCH_ID, RocketMQStreamWriter, TaskCommitMessage
from rocketmq_spark.source.datasource import RocketMQDataSource

if TYPE_CHECKING:
    import pyarrow as pa

REPOSITORY: Final = Path(__file__).parents[2]
STOPS: Final = "STOPS"
FILE_COUNT: Final = 8
FILES_A_BATCH: Final = 2
"""Each of them is a task's."""
ARROW_BATCHES_A_FILE: Final = 5
SENT_BEFORE_A_STOP: Final = 2
"""Arrow batches of the task that stands still."""
KEYS_A_LANE: Final = 3
FIRST_PARTITION: Final = 0
SECONDS_BETWEEN_FILES: Final = 10
"""Spark takes files by the time of their last change, the oldest first."""


class FiledRows:
    """Numbered rows in files, so many in each, in the order in which they are to be written.

    A key is one of a lane's: files of one micro-batch, which are written at once, share none.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.a_file = count // FILE_COUNT
        self.a_batch = self.a_file * FILES_A_BATCH
        self.an_arrow_batch = self.a_file // ARROW_BATCHES_A_FILE
        self.before_a_stop = self.an_arrow_batch * SENT_BEFORE_A_STOP

    def key_of(self, number: int) -> str:
        return f"lane-{number // self.a_file % FILES_A_BATCH}-key-{number % KEYS_A_LANE}"

    def batch_of(self, number: int) -> int:
        """The micro-batch."""
        return number // self.a_batch

    def write(self, folder: Path) -> None:
        import pyarrow as pa

        folder.mkdir(parents=True)
        for file in range(FILE_COUNT):
            numbers = np.arange(file * self.a_file, (file + 1) * self.a_file)
            keys = [self.key_of(number) for number in numbers.tolist()]
            path = folder / f"{file}.parquet"
            pq.write_table(pa.table({"body": pa.array(numbers).cast(pa.string()), "shardingKey": keys}), path)
            changed = time.time() + (file - FILE_COUNT) * SECONDS_BETWEEN_FILES
            os.utime(path, (changed, changed))


class WritingJob:
    """The program, which may be killed and started again: it continues from its checkpoint."""

    def __init__(self, namesrv_addr: str, topic: str, rows: FiledRows, folder: Path) -> None:
        self._arguments = (namesrv_addr, topic, str(folder), str(rows.an_arrow_batch))
        self._folder = folder
        self.python = Path(sys.executable)
        """Runs the next start; it may have another PySpark than ours."""
        self._stops = folder / "stops"
        self._stops.mkdir(parents=True)
        rows.write(folder / "source")

    @property
    def log(self) -> str:
        """Of the last start."""
        return (self._folder / "log").read_text("utf-8", errors="replace")

    def request_stop_in(self, batch: int) -> None:
        (self._stops / f"{batch}.asked").touch()

    def await_stopped_worker(self, batch: int) -> int:
        """Wait until a task of ``batch`` stands still, and return the pid of its worker."""
        reached = self._stops / f"{batch}.reached"
        eventually(reached.exists, f"a task of batch {batch} that stands still")
        return int(reached.read_text())

    def resume(self, batch: int) -> None:
        (self._stops / f"{batch}.reached").unlink()

    def batches_done(self) -> int:
        return sum(path.name.isdigit() for path in (self._folder / "checkpoint" / "commits").iterdir())

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """With everything that it starts killed at the end of the block; a test that fails states what it has
        written."""
        command = [str(self.python), "-m", "connector_tests.support.writing_job", *self._arguments]
        settings = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self._folder), STOPS: str(self._stops)}
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, env={**environment_of(self.python), **settings}, stdout=log, stderr=log, cwd=self._folder
            )
        try:
            yield process
        except AssertionError as failure:
            failure.add_note(self.log[-3000:])
            raise
        finally:
            kill_tree(process)


class StoppingWriter(RocketMQStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        return super().write(_with_a_stop(iterator))


class StoppingSink(RocketMQDataSource):
    @classmethod
    def name(cls) -> str:
        return "stopping_rocketmq"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StoppingWriter:
        return StoppingWriter(self.write_options(), schema)


def _with_a_stop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        if number == SENT_BEFORE_A_STOP:
            _stop_if_requested()
        yield batch


def _stop_if_requested() -> None:
    context = TaskContext.get()
    assert context is not None
    stop_file = Path(os.environ[STOPS]) / f"{context.getLocalProperty(BATCH_ID)}.asked"
    if context.partitionId() != FIRST_PARTITION or not stop_file.exists():
        return
    stop_file.write_text(str(os.getpid()))
    reached = stop_file.rename(stop_file.with_suffix(".reached"))
    while reached.exists():
        time.sleep(0.02)


def main(namesrv_addr: str, topic: str, folder: str, arrow_batch_rows: str) -> None:
    """Write the rows of ``folder``/source to ``topic``, two files a micro-batch; ends when all are stored. A task has
    four attempts."""
    settings = {"spark.master": "local[2,4]", "spark.sql.execution.arrow.maxRecordsPerBatch": arrow_batch_rows}
    with test_session(Path(folder), **settings) as spark:
        spark.dataSource.register(StoppingSink)
        reader = spark.readStream.schema("body STRING, shardingKey STRING").option("maxFilesPerTrigger", FILES_A_BATCH)
        writer = reader.parquet(f"{folder}/source").writeStream.format(StoppingSink.name())
        writer = writer.options(namesrvAddr=namesrv_addr, topic=topic, **PATIENT)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()


if __name__ == "__main__":
    # By its importable name: Spark's other processes must find the classes there.
    import_module("connector_tests.support.writing_job").main(*sys.argv[1:])
