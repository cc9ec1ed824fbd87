"""Reading without Spark: our range puller and decoder, and what RocketMQ's own pull consumers do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import psutil

from connector_tests.benchmarks.java_program import java_program
from connector_tests.benchmarks.names import JAVA_PULL, LITE_PULL
from connector_tests.benchmarks.run import Contestant, Figures
from connector_tests.benchmarks.side import TOPIC, Side
from connector_tests.benchmarks.usage import BROKER, CLIENT, Usage
from connector_tests.support.executor_process import close_executor_connections
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.executor_client import ExecutorClient
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.range_puller import PullInbox, RangePuller
from rocketmq_spark.source.schema import default_schema


def pull_all(side: Side, queues: int, rows: int) -> Figures:
    """All queues in this process, one after another, as one task of an executor would."""
    options = _options(side)
    client = ExecutorClient.shared(options)
    with Usage({BROKER: side.broker_pid, CLIENT: psutil.Process().pid}) as usage:
        begin = perf_counter()
        pulled_bytes = sum(_pull(client, options, queue_id, rows // queues) for queue_id in range(queues))
        seconds = perf_counter() - begin
    close_executor_connections()
    return {"rows": rows, "seconds": seconds, "pulled_mb": pulled_bytes / 1e6, **usage.figures()}


def decode_all(side: Side, queues: int, rows: int) -> Figures:
    """The same, and made into the columns that a reader without a schema gets."""
    options, schema = _options(side), default_schema()
    ranges = [QueueRange(MessageQueue(TOPIC, "broker-a", queue_id), 0, rows // queues) for queue_id in range(queues)]
    with Usage({BROKER: side.broker_pid, CLIENT: psutil.Process().pid}) as usage:
        begin = perf_counter()
        decoded = sum(batch.num_rows for wanted in ranges for batch in read_ranges([wanted], options, schema))
        seconds = perf_counter() - begin
    close_executor_connections()
    assert decoded == rows, f"{decoded} rows instead of {rows}"
    return {"rows": rows, "seconds": seconds, **usage.figures()}


def _options(side: Side) -> ReadOptions:
    """For a group that nobody has used."""
    return ReadOptions.parse({**side.options, "consumerGroup": f"benchmark-{uuid.uuid4().hex}"})


def _pull(client: ExecutorClient, options: ReadOptions, queue_id: int, rows: int) -> int:
    """Bytes of the messages of one queue."""
    wanted = QueueRange(MessageQueue(TOPIC, "broker-a", queue_id), 0, rows)
    puller = RangePuller(
        wanted,
        client.submit_pulls,
        client.put_back_reset,
        inbox=PullInbox(client.receive),
        limit_ms=options.cluster_timeout_ms,
        missing_ms=options.missing_queues_limit_ms,
    )
    return sum(len(pulled.body) for pulled in puller.pulled())


@contextmanager
def java_pullers(side: Side, rows: int) -> Iterator[dict[str, Contestant]]:
    """RocketMQ's LitePull and Pull consumers, in a JVM of their own."""
    with java_program("pull-loops", ["PullLoops.java"], rocketmq_class_path()) as jvm:
        loops = jvm.java.PullLoops
        yield {
            LITE_PULL: lambda: _timed(jvm, side, rows, loops.litePull),
            JAVA_PULL: lambda: _timed(jvm, side, rows, loops.pull),
        }


def _timed(jvm: ChildJvm, side: Side, rows: int, loop: object) -> Figures:
    assert callable(loop)
    with Usage({BROKER: side.broker_pid, CLIENT: jvm.pid}) as usage:
        nanos = loop(side.address, TOPIC, rows)
    return {"rows": rows, "seconds": nanos / 1e9, **usage.figures()}
