"""How fast pulled bytes become Arrow batches: ``python -m connector_tests.benchmarks.decode``.

No broker; rows per second of CPU time, so per core. Messages have the properties that a 5.x broker stores for a Java
producer (7 of them, 140 bytes). The best round is what the code can do, the median what the machine let it do.
"""

from __future__ import annotations

import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time

import numpy as np
import pyarrow as pa

from connector_tests.support.message_bytes import Record, pull_body
from rocketmq_spark.wire.columns import COLUMNS, DEFAULT_COLUMNS, ColumnDecoder
from rocketmq_spark.wire.message import decode_messages

ROUNDS = 30
PROJECTIONS = {
    f"default {len(DEFAULT_COLUMNS)}": DEFAULT_COLUMNS,
    f"all {len(COLUMNS)}": tuple(COLUMNS),
    "queueOffset, body": ("queueOffset", "body"),
}


def message(number: int, body_bytes: int) -> Record:
    return Record(
        topic="benchmark-topic",
        body=bytes(body_bytes),
        properties={
            "MSG_REGION": "DefaultRegion",
            "UNIQ_KEY": f"{number * 7919:032X}",
            "CLUSTER": "DefaultCluster",
            "WAIT": "true",
            "TAGS": "TagA",
            "KEYS": f"key-{number:08d}",
            "TRACE_ON": "true",
        },
        queue_offset=number,
        commit_log_offset=number * 400,
        born_timestamp_ms=1_700_000_000_000 + number,
        store_timestamp_ms=1_700_000_000_003 + number,
    )


def pulls(body_bytes: int, messages_per_pull: int, total_bytes: int) -> list[bytes]:
    """Pull response bodies of ``total_bytes`` together."""
    count = total_bytes // len(message(0, body_bytes).encode())
    return [
        pull_body(*(message(number, body_bytes) for number in range(begin, min(begin + messages_per_pull, count))))
        for begin in range(0, count, messages_per_pull)
    ]


def cpu_seconds(work: Callable[[], object]) -> list[float]:
    durations = []
    for _ in range(ROUNDS):
        begin = process_time()
        work()
        durations.append(process_time() - begin)
    return durations


def report(name: str, bodies: Sequence[bytes], row_count: int, durations: Sequence[float]) -> None:
    best, median = (row_count / duration / 1e6 for duration in (min(durations), statistics.median(durations)))
    rate_mb = sum(map(len, bodies)) / min(durations) / 1e6
    sys.stdout.write(f"{name:64} {best:5.2f} M rows/s best, {median:5.2f} median, {rate_mb:6.0f} MB/s best\n")


def measure(body_bytes: int, messages_per_pull: int, total_bytes: int) -> None:
    bodies = pulls(body_bytes, messages_per_pull, total_bytes)
    name = f"{body_bytes} B bodies, {messages_per_pull} a pull, {total_bytes >> 20} MiB a batch"
    for projection, columns in PROJECTIONS.items():
        decoder = ColumnDecoder(columns, broker_name="broker-a", tags=None)
        row_count = decoder.decode(bodies, 0, 2**62).num_rows
        report(f"{name}, {projection}", bodies, row_count, cpu_seconds(partial(decoder.decode, bodies, 0, 2**62)))


def measure_scalar(body_bytes: int) -> None:
    (body,) = pulls(body_bytes, 2**31, 2**20)
    row_count = len(decode_messages(body, broker_name="broker-a"))
    durations = cpu_seconds(lambda: decode_messages(body, broker_name="broker-a"))
    report(f"{body_bytes} B bodies, scalar decoder", [body], row_count, durations)


def main() -> None:
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, pyarrow {pa.__version__}"
    sys.stdout.write(f"{versions}, {platform.machine()}, {ROUNDS} rounds each\n")
    for body_bytes in (100, 1024):
        for messages_per_pull in (32, 1024):
            for total_bytes in (2 * 2**20, 4 * 2**20):
                measure(body_bytes, messages_per_pull, total_bytes)
        measure_scalar(body_bytes)


if __name__ == "__main__":
    main()
