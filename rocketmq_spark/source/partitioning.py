"""Partitioning: the ranges of a batch, cut and packed into the tasks that read them. Pure: a replay gives the same.

Source of the options: ``org/apache/spark/sql/kafka010/KafkaOffsetRangeCalculator.scala``. Differs: ``minPartitions``
is reached whenever there are so many offsets, and small ranges share a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final, TypeAlias

from rocketmq_spark.model import QueueRange

TASK_OFFSETS: Final = 10_000
"""Ranges share a task while they are together no longer than this: to start another takes longer than to read them."""

MAX_TASKS: Final = 20_000
"""Of one batch, and about as many more as it has queues: Spark's driver keeps each, whatever a broker or a checkpoint
says of the length of a range."""

Task: TypeAlias = tuple[QueueRange, ...]


def tasks_of(
    ranges: Sequence[QueueRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[Task]:
    """Every offset of ``ranges`` in exactly one task.

    Parameters
    ----------
    ranges : not empty ones, each of another queue
    min_partitions : at least so many tasks, if there are so many offsets
    max_records : at most so many offsets in one task, as far as MOST_TASKS allows it

    Returns
    -------
    Tasks whose brokers take turns, because Spark starts them in this order.
    """
    longest = _longest(sum(map(len, ranges)), min_partitions, max_records)
    pieces = [piece for queue_range in ranges for piece in _cut(queue_range, longest)]
    capacity = TASK_OFFSETS if longest is None else min(TASK_OFFSETS, longest)
    large = [(piece,) for piece in pieces if len(piece) >= capacity]
    small = [piece for piece in pieces if len(piece) < capacity]
    return _interleave_brokers(large) + _packed(small, capacity)


def _longest(total: int, min_partitions: int | None, max_records: int | None) -> int | None:
    """The most offsets of a task; None: any number."""
    limits = [max(1, total // min_partitions)] if min_partitions is not None else []
    limits += [max_records] if max_records is not None else []
    return max(min(limits), -(-total // MAX_TASKS)) if limits else None


def _cut(queue_range: QueueRange, longest: int | None) -> Iterator[QueueRange]:
    """Pieces of nearly the same length, as few as there can be."""
    count = 1 if longest is None else -(-len(queue_range) // longest)
    bounds = [queue_range.begin_offset + len(queue_range) * number // count for number in range(count + 1)]
    for begin_offset, end_offset in pairwise(bounds):
        yield QueueRange(queue_range.queue, begin_offset, end_offset)


def _packed(pieces: Iterable[QueueRange], capacity: int) -> list[Task]:
    """Neighbours share a task while there is room for them."""
    tasks: list[list[QueueRange]] = []
    used = capacity
    for piece in pieces:
        if used + len(piece) > capacity:
            tasks.append([])
            used = 0
        tasks[-1].append(piece)
        used += len(piece)
    return list(map(tuple, tasks))


def _interleave_brokers(tasks: Iterable[Task]) -> list[Task]:
    by_broker: dict[str, list[Task]] = {}
    for task in tasks:
        by_broker.setdefault(task[0].queue.broker_name, []).append(task)
    rounds = zip_longest(*by_broker.values())
    return [task for one_round in rounds for task in one_round if task is not None]
