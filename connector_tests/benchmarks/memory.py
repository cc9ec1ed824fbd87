"""Part ``memory``: how much a Python worker needs for a partition with very many messages, read or written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from connector_tests.benchmarks.names import OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.rocketmq_side import rocketmq_side
from connector_tests.benchmarks.run import Outcome
from connector_tests.benchmarks.side import TOPIC
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, spark_session, stream_of
from connector_tests.benchmarks.throughput import read_all
from connector_tests.benchmarks.workload import Workload
from connector_tests.benchmarks.writing import write_all

PART: Final = "memory"


def run_memory(workload: Workload) -> Iterator[Outcome]:
    """Once: one queue is one partition of one batch. Half as many are written by one task."""
    written = replace(workload, count=workload.count // 2)
    with rocketmq_side(workload) as side, spark_session(RECOMMENDED_SETTINGS, []) as spark:
        sink = {"namesrvAddr": side.address, "topic": TOPIC}
        cases = {
            f"{workload.count} messages, {workload.name}": partial(
                read_all, spark, side, stream_of(spark, side), workload.count
            ),
            f"{written.count} rows written by one task": partial(write_all, spark, side, sink, written, tasks=1),
        }
        for case, run in cases.items():
            yield from alternate(PART, case, {OURS: run}, rounds=1, warm_up=False)
