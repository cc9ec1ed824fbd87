"""Ranges of a batch read: both ends of each queue, from the options and the queues' bounds. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange


def batch_ranges(bounds: Mapping[MessageQueue, QueueBounds]) -> list[QueueRange]:
    """Return the non-empty ranges to read, in the order of ``bounds``."""
    ranges = [QueueRange(queue, held.min_offset, held.max_offset) for queue, held in bounds.items()]
    return [one for one in ranges if len(one)]
