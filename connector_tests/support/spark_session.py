"""Spark sessions on two cores of this machine that state little; the tests' one has every file in a folder of its
run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from traceback import walk_tb
from typing import Final, TypeVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from connector_tests.support.jvm_options import joined
from rocketmq_spark_python import COMMAND, command

PYTHON: Final = "spark.pyspark.python"
"""Only ``spark-submit`` heeds it; a session that Python starts goes by ``PYSPARK_PYTHON``, which is set to it here."""

T = TypeVar("T")

JVM_ENDED: Final = "JAVA_GATEWAY_EXITED"
JVM_STARTS: Final = 3
"""Seen once in some thousand starts, on a busy machine: a JVM ended before it had a port, and 75 tests with it."""


@contextmanager
def test_session(folder: Path, **settings: str) -> Iterator[SparkSession]:
    defaults = {
        PYTHON: COMMAND,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": joined((f"-Dderby.system.home={folder}", f"-Djava.io.tmpdir={folder}")),
    }
    with local_session("connector tests", {**defaults, **settings}) as session:
        yield session


@contextmanager
def local_session(name: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with just these settings, stopped at the end of the block."""
    # Else Spark's workers are whatever "python3" is on the path.
    os.environ["PYSPARK_PYTHON"] = command() if PYTHON in settings else sys.executable
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in settings.items():
        if key != PYTHON:
            builder = builder.config(key, value)
    session = from_started_jvm(builder.getOrCreate)
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def from_started_jvm(start: Callable[[], T]) -> T:
    """What ``start`` returns; it is called again if Spark's JVM ended at its start."""
    for starts_left in reversed(range(JVM_STARTS)):
        try:
            return start()
        except PySparkRuntimeError as error:
            _close_pipe_of_jvm(error)
            if error.getCondition() != JVM_ENDED or not starts_left:
                raise
            sys.stderr.write("Spark's JVM ended at its start; starting another one.\n")
    raise AssertionError("the last start returns or raises")


def _close_pipe_of_jvm(error: PySparkRuntimeError) -> None:
    """Close the pipe to the JVM that ended: PySpark's ``launch_gateway`` leaves it open, which is an error here."""
    for frame, _ in walk_tb(error.__traceback__):
        process = frame.f_locals.get("proc")
        if isinstance(process, Popen) and process.stdin is not None:
            process.stdin.close()
