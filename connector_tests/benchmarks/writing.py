"""Part ``writing``: the same rows into a topic, by the two sinks of Spark and by RocketMQ's own producer.

Each broker stores asynchronously, without a replica. Spark makes the rows as it writes them, the same for both sinks.
Nobody begins before both brokers have nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import psutil
from pyspark.sql import DataFrame, SparkSession

from connector_tests.benchmarks.java_clients import java_client
from connector_tests.benchmarks.machine import Machine
from connector_tests.benchmarks.names import COUNTED, JAVA_BATCHES, JAVA_BATCHES_AT_ONCE, KAFKA, OUR_ENCODES, OURS
from connector_tests.benchmarks.partial_sinks import CountingSink, EncodingSink
from connector_tests.benchmarks.race import alternate, entered
from connector_tests.benchmarks.roles import BENCHMARK, BROKER, CLIENT, JVM
from connector_tests.benchmarks.run import Contestant, Figures, Outcome
from connector_tests.benchmarks.settling import wait_until_idle
from connector_tests.benchmarks.side import TOPIC, Side
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, jvm_pid, spark_session
from connector_tests.benchmarks.stand import Stand, open_stand
from connector_tests.benchmarks.usage import Usage
from connector_tests.benchmarks.workload import Workload
from rocketmq_spark.embedded.jars import rocketmq_class_path

PART: Final = "writing"
TASKS: Final = 2
JAVA_THREADS: Final = 4
JAVA_BATCH: Final = 200
FIRST_NUMBER: Final = 1_000_000_000
"""All have as many digits."""


def run_writing(workloads: Sequence[Workload], rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """``count`` of a workload is what is written, each time again."""
    for workload in workloads:
        with ExitStack() as resources:
            stand = resources.enter_context(open_stand(workload.empty(), with_kafka=bool(jars)))
            yield from stand.failures
            spark = resources.enter_context(spark_session(RECOMMENDED_SETTINGS, jars))
            java, failures = entered(resources, java_producers(stand.rocketmq, workload), "Java producer")
            yield from failures
            for sink in (CountingSink, EncodingSink):
                spark.dataSource.register(sink)
            brokers = [side.broker_pid for side in (stand.rocketmq, stand.kafka) if side is not None]
            racing = sinks(spark, stand, workload) | java
            resolved = {name: partial(once_idle, brokers, run) for name, run in racing.items()}
            yield from alternate(PART, workload.name, resolved, rounds)


def once_idle(pids: Sequence[int], run: Contestant) -> Figures:
    """What ``run`` reports, begun when nothing is left to do of what others have sent."""
    wait_until_idle(pids)
    return run()


def sinks(spark: SparkSession, stand: Stand, workload: Workload) -> dict[str, Contestant]:
    """Both connectors', and two that do a part of what ours does."""
    ours = {"namesrvAddr": stand.rocketmq.address, "topic": TOPIC}
    racing: dict[str, Contestant] = {OURS: partial(write_all, spark, stand.rocketmq, ours, workload)}
    for name, sink in ((COUNTED, CountingSink), (OUR_ENCODES, EncodingSink)):
        racing[name] = partial(write_all, spark, replace(stand.rocketmq, source=sink.name()), ours, workload)
    if (kafka := stand.kafka) is not None:
        theirs = {"kafka.bootstrap.servers": kafka.address, "topic": TOPIC}
        racing[KAFKA] = partial(write_all, spark, kafka, theirs, workload)
    return racing


def write_all(
    spark: SparkSession, side: Side, options: dict[str, str], workload: Workload, tasks: int = TASKS
) -> Figures:
    """``seconds``: of the whole write, as its caller waits for it."""
    processes = {BROKER: side.broker_pid, JVM: jvm_pid(spark), BENCHMARK: psutil.Process().pid}
    with Machine() as machine, Usage(processes, jvm_pid(spark)) as usage:
        begin = perf_counter()
        rows_of(spark, workload, tasks).write.format(side.source).options(**options).mode("append").save()
        seconds = perf_counter() - begin
    return {"rows": workload.count, "seconds": seconds, **usage.figures(), **machine.figures()}


def rows_of(spark: SparkSession, workload: Workload, tasks: int) -> DataFrame:
    """``key`` and ``value``, as Kafka's sink calls them and ours understands; all values differ, and cost little."""
    numbers = spark.range(FIRST_NUMBER, FIRST_NUMBER + workload.count, 1, tasks)
    rest = "x" * (workload.body_bytes - len(str(FIRST_NUMBER)))
    return numbers.selectExpr("concat('key-', id) AS key", f"CAST(concat(id, '{rest}') AS BINARY) AS value")


@contextmanager
def java_producers(side: Side, workload: Workload) -> Iterator[dict[str, Contestant]]:
    """In a JVM of their own: one thread, and several."""
    with java_client("batch-producer", ("Bodies.java", "BatchProducer.java"), rocketmq_class_path()) as jvm:
        producer = jvm.connect().BatchProducer(side.address, TOPIC, workload.body_bytes)

        def send(threads: int) -> Figures:
            with Usage({BROKER: side.broker_pid, CLIENT: jvm.pid}) as usage:
                nanos = producer.send(threads, workload.count // threads, JAVA_BATCH)
            return {"rows": workload.count, "seconds": nanos / 1e9, **usage.figures()}

        yield {JAVA_BATCHES: partial(send, 1), JAVA_BATCHES_AT_ONCE: partial(send, JAVA_THREADS)}
