"""Both brokers with the same messages, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from connector_tests.benchmarks.kafka_side import kafka_side
from connector_tests.benchmarks.rocketmq_side import rocketmq_side
from connector_tests.benchmarks.run import Failure, failure_of
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.workload import Workload


@dataclass
class Stand:
    """``kafka`` is None where it could not be had; ``failures`` state why."""

    workload: Workload
    rocketmq: Side
    kafka: Side | None = None
    failures: list[Failure] = field(default_factory=list)


@contextmanager
def open_stand(workload: Workload, *, with_kafka: bool) -> Iterator[Stand]:
    """Brokers of their own, as long as the block runs."""
    with ExitStack() as resources:
        stand = Stand(workload, resources.enter_context(rocketmq_side(workload)))
        try:
            if with_kafka:
                stand.kafka = resources.enter_context(kafka_side(workload))
        except Exception as error:  # noqa: BLE001  # the rest goes on without Kafka
            stand.failures.append(failure_of("Kafka", error))
        yield stand
