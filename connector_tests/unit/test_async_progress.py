"""Queries with Spark's asynchronous progress tracking: not each batch is in the checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from connector_tests.support.delivery_checker import MessageDeliveryChecker
from connector_tests.support.omitted_rules import TrustsTheCheckpoint
from connector_tests.support.simulated_cluster import SimulatedCluster
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import (
    LATEST_OFFSET,
    LOG_COMMITS,
    LOG_OFFSETS,
    READ,
    SPARK_POINTS,
    WRITE,
    Parts,
    SourceRunner,
)
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.stream.batch_planner import BatchPlanner

QUEUES: Final = [MessageQueue("t", "a", number) for number in range(2)]
LIMIT: Final = 4
LOGGED_EVERY: Final = 3
SENT: Final = 15
"""To each queue, before the query is killed and again after it."""
LAST_POINT: Final = 36
"""Where the query has read what was sent first, and is idle."""


class AsyncRunner(SourceRunner):
    """A start of a query that logs one of LOGGED_EVERY batches, while the batch runs. Batches continue from the offset
    that Spark has in memory. A restart replays the last logged batch, unless its commit is logged, and continues from
    its end. Source: ``execution/streaming/AsyncProgressTrackingMicroBatchExecution.scala``."""

    def _micro_batches(self) -> None:
        checkpoint, start = self.query.checkpoint, self.query.checkpoint.last
        if checkpoint.uncommitted is not None:
            self._run_batch(checkpoint.uncommitted)
        batch_count = 0
        while True:
            self._at(LATEST_OFFSET)
            end = self.latest_offset(start)
            if end != start:
                is_logged = batch_count % LOGGED_EVERY == 0
                self._run_unlogged(end, is_logged=is_logged)
                batch_count, start = batch_count + 1, end

    def _run_unlogged(self, end: str, *, is_logged: bool) -> None:
        self._at(READ)
        if is_logged:
            self._at(LOG_OFFSETS)
            self._log(end)
        self._at(WRITE)
        self.query.checker.written(self.query, -1, self.partitions(end))
        if is_logged:
            self._at(LOG_COMMITS)
            self.query.checkpoint.commits.add(len(self.query.checkpoint.offsets) - 1)


class RepeatsChecker(MessageDeliveryChecker):
    """Also counts how often each message is in the sink, by queue and offset."""

    def __init__(self, cluster: SimulatedCluster, *, starts_at_first: bool) -> None:
        super().__init__(cluster, starts_at_first=starts_at_first)
        self.times_written: Counter[tuple[MessageQueue, int]] = Counter()

    def written(self, query: object, batch_id: int, ranges: Sequence[QueueRange]) -> None:
        super().written(query, batch_id, ranges)
        self.times_written.update(
            (one.queue, offset) for one in ranges for offset in range(one.begin_offset, one.end_offset)
        )


def produce(group: SimulatedGroup) -> None:
    for queue in QUEUES:
        group.cluster.produce(queue, SENT)


def read_with_a_kill(killed_at: int, planner: type[BatchPlanner] = BatchPlanner) -> Counter[tuple[MessageQueue, int]]:
    """Kill a query at a point, send more, and start it again. Return how often each message is in the sink."""
    options, parts = {"maxOffsetsPerTrigger": str(LIMIT)}, Parts(runner=AsyncRunner, planner=planner)
    with SimulatedGroup({"t": {"a": 2}}, parts=parts, options=options, checker=RepeatsChecker) as group:
        produce(group)
        runner = group.start(group.query("A"))
        for _ in range(killed_at):
            runner.resume(stops=SPARK_POINTS)
        runner.kill()
        group.cluster.lose_connections(runner)
        produce(group)
        group.run_until_idle()
        assert isinstance(group.checker, RepeatsChecker)
        return group.checker.times_written


def repeated(times_written: Counter[tuple[MessageQueue, int]]) -> int:
    return sum(times_written.values()) - len(times_written)


@pytest.mark.parametrize("killed_at", range(1, LAST_POINT))
def test_killed_query_loses_nothing_and_repeats_one_batch(killed_at: int) -> None:
    """It resumes from the larger of checkpoint and group offset: of the batches that the checkpoint lacks, it repeats
    the one whose completion it did not know."""
    times_written = read_with_a_kill(killed_at)
    assert len(times_written) == 2 * SENT * len(QUEUES)
    assert repeated(times_written) <= LIMIT


def test_query_that_resumed_from_the_checkpoint_would_repeat_more() -> None:
    """The model notices that."""
    most = max(repeated(read_with_a_kill(killed_at, TrustsTheCheckpoint)) for killed_at in range(1, LAST_POINT))
    assert LIMIT < most <= LOGGED_EVERY * LIMIT
