"""As a program: run a query over a topic and one in SQL, and write archives of the classes that two JVMs have loaded.

The one argument is their folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import psutil
from pyspark import SparkContext

from connector_tests.support.jvm_options import ROCKETMQ, SPARK, joined, options_writing
from connector_tests.support.spark_session import test_session
from connector_tests.support.streams import Stream, Topic
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster

NAME: Final = "classes"
JVM_ENDS_S: Final = PROCESS_S
SHUFFLED: Final = "SELECT id % 3 AS key, count(*) AS rows FROM range(10) GROUP BY key ORDER BY key"


def write_archives(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = joined(options_writing(folder / SPARK))
    with (
        tempfile.TemporaryDirectory() as temporary,
        EmbeddedCluster(java_options=options_writing(folder / ROCKETMQ)) as cluster,
    ):
        (broker,) = psutil.Process().children()
        run_query(cluster, Path(temporary))
        broker.terminate()  # each JVM writes its archive as it ends
        end_spark()
        broker.wait(JVM_ENDS_S)


def run_query(cluster: EmbeddedCluster, folder: Path) -> None:
    with closing(Topic(cluster, cluster.create_topic(NAME))) as messages:
        messages.send(10)
        with test_session(folder) as spark:
            Stream(spark, cluster, messages.name, NAME, folder / "query", {}, None).run_to_end()
            spark.sql(SHUFFLED).collect()


def end_spark() -> None:
    """Close its JVM's standard input, on which it ends, as Python does at its own end."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_ENDS_S)


if __name__ == "__main__":
    write_archives(Path(sys.argv[1]))
