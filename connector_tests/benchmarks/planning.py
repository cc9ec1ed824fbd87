"""Part ``planning``: what our code takes to plan a batch of many queues, the cluster being one in memory.

Measured is what Spark's two calls do in the source runner: ``latestOffset`` (survey, rebalance, plan, commit) and
``partitions``, JSON included. Requests are function calls, whose cost is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Final

from connector_tests.benchmarks.names import OURS
from connector_tests.benchmarks.run import Figures, Outcome, Run
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import SourceRunner

PART: Final = "planning"
QUEUES: Final = 1_000
BATCHES: Final = 5


def run_planning() -> Iterator[Outcome]:
    with SimulatedGroup({"t": {"broker-a": QUEUES}}) as group:
        runner = group.start(group.query("benchmark"))
        for number in range(1, BATCHES + 1):
            for queue in group.cluster.queues():
                group.cluster.produce(queue, 1)
            yield Run(PART, f"{QUEUES} queues", OURS, number, plan_and_read(runner))


def plan_and_read(runner: SourceRunner) -> Figures:
    """One batch of every queue."""
    checkpoint, checker = runner.query.checkpoint, runner.query.checker
    requests_before = runner.query.cluster.now
    begin, cpu_begin = perf_counter(), process_time()
    end = runner.latest_offset(checkpoint.last)
    ranges = runner.partitions(end)
    seconds, cpu_seconds = perf_counter() - begin, process_time() - cpu_begin
    requests = runner.query.cluster.now - requests_before
    assert len(ranges) == QUEUES
    checkpoint.offsets.append(end)
    checker.written(runner.query, len(checkpoint.offsets) - 1, ranges)
    return {"planning_ms": seconds * 1000, "cpu_ms": cpu_seconds * 1000, "requests": requests}
