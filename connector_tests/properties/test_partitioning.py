"""Partitioning: every offset is read by one task, tasks are neither too few nor too large, and brokers take turns."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from connector_tests.support.queues import QUEUES
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.partitioning import TASK_OFFSETS, Task, tasks_of

LENGTHS = st.integers(1, 100) | st.integers(1, 100_000)
RANGES = st.dictionaries(QUEUES, st.tuples(st.integers(0, 2**62), LENGTHS), max_size=12).map(
    lambda drawn: [QueueRange(queue, begin, begin + length) for queue, (begin, length) in drawn.items()]
)
MIN_PARTITIONS = st.none() | st.integers(1, 200)
MAX_RECORDS = st.none() | st.integers(1_000, 200_000)


def size(task: Task) -> int:
    return sum(map(len, task))


@given(RANGES, MIN_PARTITIONS, MAX_RECORDS)
def test_every_offset_is_in_exactly_one_task(
    ranges: list[QueueRange], min_partitions: int | None, max_records: int | None
) -> None:
    tasks = tasks_of(ranges, min_partitions=min_partitions, max_records=max_records)
    pieces = sorted((piece for task in tasks for piece in task), key=lambda piece: piece.begin_offset)
    for one in ranges:
        own = [piece for piece in pieces if piece.queue == one.queue]
        assert (own[0].begin_offset, own[-1].end_offset) == (one.begin_offset, one.end_offset)
        assert all(before.end_offset == after.begin_offset for before, after in pairwise(own))
    assert all(map(len, pieces))


@given(RANGES, st.integers(1, 200), MAX_RECORDS)
def test_there_are_as_many_tasks_as_configured_if_there_are_so_many_offsets(
    ranges: list[QueueRange], min_partitions: int, max_records: int | None
) -> None:
    tasks = tasks_of(ranges, min_partitions=min_partitions, max_records=max_records)
    assert len(tasks) >= min(min_partitions, sum(map(len, ranges)))


@given(RANGES, MIN_PARTITIONS, st.integers(1_000, 200_000))
def test_no_task_is_larger_than_allowed(ranges: list[QueueRange], min_partitions: int | None, max_records: int) -> None:
    assert all(
        size(task) <= max_records for task in tasks_of(ranges, min_partitions=min_partitions, max_records=max_records)
    )


@given(RANGES)
def test_only_ranges_that_are_short_together_share_a_task(ranges: list[QueueRange]) -> None:
    tasks = tasks_of(ranges)
    assert all(size(task) <= TASK_OFFSETS for task in tasks if len(task) > 1)
    shared = [task for task in tasks if size(task) < TASK_OFFSETS]
    assert all(size(before) + len(after[0]) > TASK_OFFSETS for before, after in pairwise(shared))


def test_ranges_that_fill_a_task_exactly_share_it() -> None:
    half, fits, more = (
        QueueRange(MessageQueue("t", "a", number), 0, length)
        for number, length in enumerate((TASK_OFFSETS // 2, TASK_OFFSETS // 2, 1))
    )
    assert tasks_of([half, fits, more]) == [(half, fits), (more,)]


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_the_brokers_of_large_tasks_alternate(brokers: list[str]) -> None:
    queues = [MessageQueue("t", broker, number) for number, broker in enumerate(brokers)]
    tasks = tasks_of([QueueRange(queue, 0, TASK_OFFSETS) for queue in queues])
    order = [task[0].queue.broker_name for task in tasks]
    rounds = [order[:place].count(broker) for place, broker in enumerate(order)]
    assert rounds == sorted(rounds)
    assert len(order) == len(brokers)
