"""What a query of many queues costs the driver, the cluster being one in memory: to plan a batch, and while idle.

    python -m connector_tests.benchmarks.idle_planning 1000 10000

Measured is the CPU time of what Spark's calls do in the source runner: ``latestOffset``, the progress report, and what
PySpark does with their JSON. An idle call then waits for news, and Spark asks again ``SPARK_PAUSE_MS`` later: the share
of a core is what the calls take of that time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Final

from connector_tests.support.delivery_checker import DeliveryChecker
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import SourceRunner
from rocketmq_spark.source.stream.batch_planner import idle_wait_ms
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.progress import ProgressReporter

SPARK_PAUSE_MS: Final = 12
ROUNDS: Final = 5
IDLE_CALLS: Final = 20


class NoWitness(DeliveryChecker):
    """Sees nothing: what it costs is no part of the product."""

    def stored(self, *_: object) -> None: ...

    def on_completed(self, *_: object) -> None: ...

    def on_refreshed(self, *_: object, **__: object) -> None: ...

    def on_planned(self, *_: object) -> None: ...


def measure(queue_count: int) -> dict[str, float]:
    """Medians of CPU milliseconds, and the share of a core while idle."""
    with SimulatedGroup({"t": {"broker-a": queue_count}}) as group:
        group.checker = NoWitness(group.cluster, starts_at_first=True)
        runner = group.start(group.query("benchmark"))
        planning = []
        for _ in range(ROUNDS):
            for queue in group.cluster.queues():
                group.cluster.produce(queue, 1)
            planning.append(cpu_ms(lambda: next_batch(runner)))
        for _ in range(3):
            next_batch(runner)
        calls = [cpu_ms(lambda: next_batch(runner)) for _ in range(IDLE_CALLS)]
        at_rest = report(runner)
        reports = [cpu_ms(lambda: json.dumps(at_rest)) for _ in range(IDLE_CALLS)]
    idle_ms = median(calls) + median(reports)
    period_ms = idle_ms + idle_wait_ms(queue_count) + SPARK_PAUSE_MS
    return {
        "queues": queue_count,
        "planning_ms": round(median(planning), 1),
        "idle_call_ms": round(idle_ms, 2),
        "idle_share_of_a_core": round(idle_ms / period_ms, 4),
    }


def next_batch(runner: SourceRunner) -> None:
    """Ask for the next offset, as Spark does; a batch counts as read."""
    checkpoint = runner.query.checkpoint
    end = runner.latest_offset(checkpoint.last)
    if end != checkpoint.last:
        checkpoint.offsets.append(end)


def report(runner: SourceRunner) -> dict[str, object]:
    """What ``reportLatestOffset`` keeps while nothing changes; PySpark makes text of it at each trigger."""
    control = Control("driver", runner.client_id)
    reporter = ProgressReporter()
    planner = runner.planner
    return reporter.report(
        planner.backlog, 0, planner.losses, [], client_id=runner.client_id, control=control, now_ms=0
    )


def cpu_ms(call: Callable[[], object]) -> float:
    begin = process_time()
    call()
    return (process_time() - begin) * 1000


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(json.dumps(measure(int(argument))) + "\n")
