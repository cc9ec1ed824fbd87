"""As a program: run a query over a topic, and write an archive of the classes that its JVM has loaded.

The one argument is the file. Java: ``-XX:ArchiveClassesAtExit``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from pyspark import SparkContext

from connector_tests.support.jvm_options import QUIET_ARCHIVE, SHORT_LIVED
from connector_tests.support.spark_session import test_session
from connector_tests.support.streams import Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster

NAME: Final = "classes"
JVM_ENDS_S: Final = 120


def write_archive(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(".written")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={written} {QUIET_ARCHIVE}"
    with tempfile.TemporaryDirectory() as folder:
        run_query(Path(folder))
        end_jvm()
    written.rename(file)


def run_query(folder: Path) -> None:
    with EmbeddedCluster() as cluster, closing(Topic(cluster, cluster.create_topic(NAME))) as messages:
        messages.send(10)
        with test_session(folder) as spark:
            Stream(spark, cluster, messages.name, NAME, folder / "query", {}, None).run_to_end()


def end_jvm() -> None:
    """Close the JVM's standard input, on which it ends, as Python does at its own end."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_ENDS_S)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]))
