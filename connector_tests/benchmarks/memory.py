"""Part ``memory``: how much a Python worker needs for a partition with very many messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connector_tests.benchmarks.names import OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.rocketmq_side import rocketmq_side
from connector_tests.benchmarks.run import Outcome
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, spark_session, stream_of
from connector_tests.benchmarks.throughput import read_all
from connector_tests.benchmarks.workload import Workload

PART: Final = "memory"


def run_memory(workload: Workload) -> Iterator[Outcome]:
    """Once: one queue is one partition of one batch."""
    with rocketmq_side(workload) as side, spark_session(RECOMMENDED_SETTINGS, []) as spark:
        racing = {OURS: lambda: read_all(spark, side, stream_of(spark, side), workload.count)}
        case = f"{workload.count} messages, {workload.name}"
        yield from alternate(PART, case, racing, rounds=1, warm_up=False)
