"""Partitioning: splits the ranges of a batch and packs them into tasks. Pure: a replay gets the same tasks.

Source of the options: ``org/apache/spark/sql/kafka010/KafkaOffsetRangeCalculator.scala``. Differs: ``minPartitions`` is
always reached if there are at least that many offsets, and small ranges share a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final, TypeAlias

from rocketmq_spark.grouping import grouped
from rocketmq_spark.model import QueueRange

TASK_OFFSETS: Final = 10_000
"""Maximum number of offsets of a task with several ranges: starting another task takes longer than reading them."""

MAX_TASKS: Final = 20_000
"""Maximum number of tasks of one batch, plus about one per queue. Spark's driver keeps each task, whatever length of a
range a broker or a checkpoint reports."""

Task: TypeAlias = tuple[QueueRange, ...]


def tasks_of(
    ranges: Sequence[QueueRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[Task]:
    """Return tasks that contain each offset of ``ranges`` once; [] without ranges.

    Parameters
    ----------
    ranges : non-empty ranges, at most one per queue
    min_partitions : minimum number of tasks, if there are at least that many offsets, and up to ``MAX_TASKS``
    max_records : maximum number of offsets per task, as far as ``MAX_TASKS`` allows it

    Returns
    -------
    First the tasks of one piece of a range each, with at least the offsets of a full task: ``TASK_OFFSETS``, or fewer
    if the options limit tasks. Their brokers are in round robin, because Spark starts tasks in this order. Then the
    tasks of smaller pieces, each with as many in order as have together at most the offsets of a full task.
    """
    longest = _longest(sum(map(len, ranges)), min_partitions, max_records)
    pieces = [piece for queue_range in ranges for piece in _cut(queue_range, longest)]
    capacity = TASK_OFFSETS if longest is None else min(TASK_OFFSETS, longest)
    large = [(piece,) for piece in pieces if len(piece) >= capacity]
    small = [piece for piece in pieces if len(piece) < capacity]
    return _interleave_brokers(large) + _packed(small, capacity)


def _longest(total: int, min_partitions: int | None, max_records: int | None) -> int | None:
    """Return the maximum number of offsets per task: the smaller of both limits, but not less than ``total /
    MAX_TASKS``, rounded up. None without limits: unlimited."""
    limits = [max(1, total // min_partitions)] if min_partitions is not None else []
    limits += [max_records] if max_records is not None else []
    return max(min(limits), -(-total // MAX_TASKS)) if limits else None


def _cut(queue_range: QueueRange, longest: int | None) -> Iterator[QueueRange]:
    """Yield the fewest pieces of a range, in order, with at most ``longest`` offsets each and nearly equal lengths.
    None: one piece."""
    count = 1 if longest is None else -(-len(queue_range) // longest)
    bounds = [queue_range.begin_offset + len(queue_range) * number // count for number in range(count + 1)]
    for begin_offset, end_offset in pairwise(bounds):
        yield QueueRange(queue_range.queue, begin_offset, end_offset)


def _packed(pieces: Iterable[QueueRange], capacity: int) -> list[Task]:
    """Pack consecutive pieces, in order, into tasks of at most ``capacity`` offsets. No piece may be longer."""
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
    """Return the tasks in round robin by broker. A task counts for the broker of its first range; the tasks of one
    broker keep their order."""
    by_broker = grouped(tasks, lambda task: task[0].queue.broker_name)
    rounds = zip_longest(*by_broker.values())
    return [task for one_round in rounds for task in one_round if task is not None]
