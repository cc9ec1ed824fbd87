"""Reading without Spark: our range puller and decoder, and what RocketMQ's own pull consumers do."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from time import perf_counter, process_time
from typing import Final

import psutil
from pyspark.sql.types import StructType

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.java_clients import java_client
from connector_tests.benchmarks.machine import Machine
from connector_tests.benchmarks.names import JAVA_PULL, LITE_PULL
from connector_tests.benchmarks.roles import BROKER, CLIENT, cpu_s
from connector_tests.benchmarks.run import Contestant, Figures
from connector_tests.benchmarks.schemas import BODY_ONLY, DEFAULT, LIKE_KAFKA
from connector_tests.benchmarks.side import TOPIC, Side
from connector_tests.benchmarks.usage import Usage
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient, shared_pull_client
from rocketmq_spark.pull.range_puller import new_range_puller
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.source.partition_reader import read_ranges

PULL: Final = "pull"
PULL_AT_ONCE: Final = "pull at once"
DECODE: Final = "decode"
DECODE_LIKE_KAFKA: Final = "decode Kafka's columns"
DECODE_BODIES: Final = "decode body and queueOffset"


def read_apart(kind: str, side: Side, queues: int, rows: int) -> Figures:
    """What ``KINDS`` states, see ``apart``."""
    numbers = map(str, (side.broker_pid, queues, rows))
    figures: Figures = json.loads(run_apart(__name__, kind, json.dumps(dict(side.options)), *numbers))
    return figures


def pull_all(most_tasks: int, options: ReadOptions, broker_pid: int, queues: int, rows: int) -> Figures:
    """All queues, in as many processes at once as an executor would have tasks: each pulls its share, one queue after
    another."""
    tasks = min(most_tasks, queues)
    shares = [range(task, queues, tasks) for task in range(tasks)]
    with get_context("fork").Pool(tasks) as pool, Machine() as machine, Usage({BROKER: broker_pid}) as usage:
        begin = perf_counter()
        pulled = pool.map(partial(_pull_share, options, rows // queues), shares, chunksize=1)
        seconds = perf_counter() - begin
    return {
        "rows": rows,
        "seconds": seconds,
        "pulled_mb": sum(pulled_bytes for pulled_bytes, _ in pulled) / 1e6,
        cpu_s(CLIENT): sum(used_s for _, used_s in pulled),
        **usage.figures(),
        **machine.figures(),
    }


def decode_all(schema: StructType, options: ReadOptions, broker_pid: int, queues: int, rows: int) -> Figures:
    """All queues, one after another, as one task would, and made into columns."""
    ranges = [QueueRange(MessageQueue(TOPIC, "broker-a", queue_id), 0, rows // queues) for queue_id in range(queues)]
    with Usage({BROKER: broker_pid, CLIENT: psutil.Process().pid}) as usage:
        begin = perf_counter()
        decoded = sum(batch.num_rows for queue_range in ranges for batch in read_ranges([queue_range], options, schema))
        seconds = perf_counter() - begin
    assert decoded == rows, f"{decoded} rows instead of {rows}"
    return {"rows": rows, "seconds": seconds, **usage.figures()}


def _pull_share(options: ReadOptions, rows: int, queue_ids: Sequence[int]) -> tuple[int, float]:
    """Bytes of some queues' messages, and the processor time that this process took, in seconds."""
    client = shared_pull_client(options)
    begin_s = process_time()
    pulled_bytes = sum(_pull(client, options, queue_id, rows) for queue_id in queue_ids)
    return pulled_bytes, process_time() - begin_s


def _pull(client: ExecutorPullClient, options: ReadOptions, queue_id: int, rows: int) -> int:
    """Bytes of the messages of one queue."""
    queue_range = QueueRange(MessageQueue(TOPIC, "broker-a", queue_id), 0, rows)
    return sum(
        len(pulled.body)
        for pulled in new_range_puller(queue_range, client, options, monotonic_ms, is_filtered=False).pull()
    )


@contextmanager
def java_pullers(side: Side, rows: int) -> Iterator[dict[str, Contestant]]:
    """RocketMQ's LitePull and Pull consumers, in a JVM of their own."""
    with java_client("pull-loops", ["PullLoops.java"], rocketmq_class_path()) as jvm:
        loops = jvm.connect().PullLoops
        yield {
            LITE_PULL: lambda: _timed(jvm, side, rows, loops.litePull),
            JAVA_PULL: lambda: _timed(jvm, side, rows, loops.pull),
        }


def _timed(jvm: ChildJvm, side: Side, rows: int, loop: object) -> Figures:
    assert callable(loop)
    with Usage({BROKER: side.broker_pid, CLIENT: jvm.pid}) as usage:
        nanos = loop(side.address, TOPIC, rows)
    return {"rows": rows, "seconds": nanos / 1e9, **usage.figures()}


KINDS: Final[Mapping[str, Callable[[ReadOptions, int, int, int], Figures]]] = {
    PULL: partial(pull_all, 1),
    PULL_AT_ONCE: partial(pull_all, psutil.cpu_count()),
    DECODE: partial(decode_all, DEFAULT),
    DECODE_LIKE_KAFKA: partial(decode_all, LIKE_KAFKA),
    DECODE_BODIES: partial(decode_all, BODY_ONLY),
}


def main(kind: str, options: str, *numbers: str) -> None:
    """See ``read_apart``."""
    group = f"benchmark-{uuid.uuid4().hex}"
    figures = KINDS[kind](ReadOptions.parse({**json.loads(options), "consumerGroup": group}), *map(int, numbers))
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
