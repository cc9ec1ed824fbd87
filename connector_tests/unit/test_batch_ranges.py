"""Ranges of a batch read, by bounds and options."""

from __future__ import annotations

from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.source.batch.batch_ranges import batch_ranges

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))


def test_range_spans_what_the_queue_has() -> None:
    bounds = {FIRST: QueueBounds(3, 10, 0), SECOND: QueueBounds(0, 4, 0)}
    assert batch_ranges(bounds) == [QueueRange(FIRST, 3, 10), QueueRange(SECOND, 0, 4)]


def test_empty_queue_has_no_range() -> None:
    assert batch_ranges({FIRST: QueueBounds(7, 7, 0)}) == []
