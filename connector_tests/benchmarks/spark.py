"""Spark's part: a session for both connectors, with the same settings, and queries that read a side's topic."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from connector_tests.benchmarks.side import Side
from connector_tests.support.spark_session import PYTHON, local_session
from rocketmq_spark_python import COMMAND

DEFAULT_SETTINGS: Final[Mapping[str, str]] = {}
"""A JVM that has found a source keeps its Python: what depends on that has to be measured in a JVM of its own."""
RECOMMENDED_SETTINGS: Final[Mapping[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    PYTHON: COMMAND,
}
"""What ``conf/spark-defaults.conf`` states about Python sources, and the Python that it recommends."""
UNCHECKED_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": (
        "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
    )
}
"""What it offers beside, commented out."""


@contextmanager
def spark_session(settings: Mapping[str, str], jars: Sequence[Path]) -> Iterator[SparkSession]:
    """Two cores; every file in a temporary folder. The JVM, with ``jars``, is the same for all sessions."""
    with TemporaryDirectory(prefix="benchmark-spark-") as folder:
        fixed = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.streaming.numRecentProgressUpdates": "10",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        }
        with local_session("benchmark", {**fixed, **settings}) as session:
            yield session


def jvm_pid(spark: SparkSession) -> int:
    """Of the driver, which in local mode is everything but Python."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def stream_of(spark: SparkSession, side: Side, schema: str | StructType | None = None, **options: str) -> DataFrame:
    """The side's topic from its beginning, for a group that nobody has used."""
    reader = spark.readStream.format(side.source).options(**side.options).options(**options)
    if "namesrvAddr" in side.options:
        reader = reader.option("consumerGroup", f"benchmark-{uuid.uuid4().hex}")
    return (reader if schema is None else reader.schema(schema)).load()


@contextmanager
def checkpoint() -> Iterator[str]:
    with TemporaryDirectory(prefix="benchmark-checkpoint-") as folder:
        yield folder
