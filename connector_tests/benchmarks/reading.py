"""Part ``reading``: everybody reads the same topic from its beginning to its end, in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connector_tests.benchmarks.names import (
    OUR_BODY_DECODES,
    OUR_DECODES,
    OUR_LIKE_KAFKA,
    OUR_LIKE_KAFKA_DECODES,
    OUR_MAPS,
    OUR_PULLS,
    OUR_PULLS_AT_ONCE,
    OURS,
    PYTHON_SUFFIX,
)
from connector_tests.benchmarks.other_settings import read_with_other_settings
from connector_tests.benchmarks.pulling import (
    DECODE,
    DECODE_BODIES,
    DECODE_LIKE_KAFKA,
    PULL,
    PULL_AT_ONCE,
    java_pullers,
    read_apart,
)
from connector_tests.benchmarks.python_decoded import PythonDecodedSource
from connector_tests.benchmarks.queries import connectors, narrow
from connector_tests.benchmarks.race import alternate, entered
from connector_tests.benchmarks.run import Contestant, Outcome
from connector_tests.benchmarks.schemas import LIKE_KAFKA
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, spark_session, stream_of
from connector_tests.benchmarks.stand import Stand, open_stand
from connector_tests.benchmarks.throughput import read_all
from connector_tests.benchmarks.workload import Workload

PART: Final = "reading"


def read_base(workload: Workload, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """With everybody; then once more the two connectors, with other settings."""
    with ExitStack() as resources:
        stand = resources.enter_context(open_stand(workload, with_kafka=bool(jars)))
        yield from stand.failures
        with spark_session(RECOMMENDED_SETTINGS, jars) as spark:
            java, failures = entered(resources, java_pullers(stand.rocketmq, workload.count), "Java pull consumers")
            yield from failures
            spark.dataSource.register(PythonDecodedSource)
            yield from alternate(PART, workload.name, all_contestants(spark, stand) | java, rounds)
        yield from read_with_other_settings(PART, stand, rounds, jars)


def read_variation(workload: Workload, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """With the two connectors, see ``connectors``."""
    with open_stand(workload, with_kafka=bool(jars)) as stand, spark_session(RECOMMENDED_SETTINGS, jars) as spark:
        yield from stand.failures
        yield from alternate(PART, workload.name, connectors(spark, stand), rounds)


def read_cold(workload: Workload, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """With the two connectors, and with pulls alone: ours and Java's."""
    with ExitStack() as resources:
        stand = resources.enter_context(open_stand(workload, with_kafka=bool(jars)))
        yield from stand.failures
        spark = resources.enter_context(spark_session(RECOMMENDED_SETTINGS, jars))
        java, failures = entered(resources, java_pullers(stand.rocketmq, workload.count), "Java pull consumers")
        yield from failures
        yield from alternate(PART, workload.name, connectors(spark, stand) | pullers(stand) | java, rounds)


def all_contestants(spark: SparkSession, stand: Stand) -> dict[str, Contestant]:
    """But Java's clients."""
    return connectors(spark, stand) | narrow(spark, stand) | decoded_in_python(spark, stand) | pullers(stand)


def decoded_in_python(spark: SparkSession, stand: Stand) -> dict[str, Contestant]:
    """Ours with all kinds of columns once more."""
    ours, rows = replace(stand.rocketmq, source=PythonDecodedSource.name()), stand.workload.count
    racing: dict[str, Contestant] = {
        OURS: lambda: read_all(spark, ours, stream_of(spark, ours), rows),
        OUR_LIKE_KAFKA: lambda: read_all(spark, ours, stream_of(spark, ours, LIKE_KAFKA), rows),
        OUR_MAPS: lambda: read_all(spark, ours, stream_of(spark, ours, includeProperties="true"), rows),
    }
    return {f"{name}{PYTHON_SUFFIX}": run for name, run in racing.items()}


def pullers(stand: Stand) -> dict[str, Contestant]:
    """What our executors do, without Spark."""
    ours, queues, rows = stand.rocketmq, stand.workload.queues, stand.workload.count
    return {
        OUR_PULLS: lambda: read_apart(PULL, ours, queues, rows),
        OUR_PULLS_AT_ONCE: lambda: read_apart(PULL_AT_ONCE, ours, queues, rows),
        OUR_DECODES: lambda: read_apart(DECODE, ours, queues, rows),
        OUR_LIKE_KAFKA_DECODES: lambda: read_apart(DECODE_LIKE_KAFKA, ours, queues, rows),
        OUR_BODY_DECODES: lambda: read_apart(DECODE_BODIES, ours, queues, rows),
    }
