"""The first message of a queue that was stored at a time or later, whatever the broker's own search says.

A search (SEARCH_OFFSET_BY_TIMESTAMP) is a hint only. Past the last message RocketMQ 4.9 answers max - 1, 5.x max, some
stores -1; among the messages of one millisecond 4.9 answers any. So the message that it names is looked at, and its
neighbours: two pulls of one message where the answer is right, else steps that double, and halves.
Source: ``store/ConsumeQueue.java#getOffsetInQueueByTime``, whose answer this does not believe.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from rocketmq_spark.wire.message.stored_message import decode_first
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

BEYOND_ANY: Final = 2**48
"""An offset that no queue has."""


class _ProbeResult(NamedTuple):
    """The first message at an offset or later. ``stored_ms`` is None, and ``offset`` means nothing, where none is."""

    offset: int
    stored_ms: int | None
    min_offset: int
    max_offset: int

    def is_early(self, timestamp_ms: int) -> bool:
        """Whether it was stored before that time."""
        return self.stored_ms is not None and self.stored_ms < timestamp_ms


def first_stored(hint: int, timestamp_ms: int) -> Generator[int, PullResult, int]:
    """Yields offsets, wants the result of a pull of one message at each; returns the offset that the queue is to be
    read from: of the first message stored at ``timestamp_ms`` (unix) or later, else one past the last.

    ``hint`` is that of the broker's search. Store times are taken to grow with the offsets. Where a broker's clock
    was put back they do not, and the result is one of the places where they pass ``timestamp_ms``.
    """
    at = hint if hint >= 0 else BEYOND_ANY
    found = yield from _probe(at)
    if found.stored_ms is None and at > found.max_offset:
        at = found.max_offset
        found = yield from _probe(at)
    if found.is_early(timestamp_ms):
        early, late = yield from _search_upwards(found.offset, timestamp_ms)
    else:
        early, late = yield from _search_downwards(at, found.min_offset, timestamp_ms)
    while late - early > 1:
        middle = (early + late) // 2
        found = yield from _probe(middle)
        if found.is_early(timestamp_ms):
            early = found.offset
        else:
            late = middle
    return late


def _search_upwards(early: int, timestamp_ms: int) -> Generator[int, PullResult, tuple[int, int]]:
    """From a message that is early: the last that was found to be, and an offset from which on none is."""
    step = 1
    while True:
        found = yield from _probe(early + step)
        if not found.is_early(timestamp_ms):
            return early, early + step
        early = found.offset
        step *= 2


def _search_downwards(late: int, min_offset: int, timestamp_ms: int) -> Generator[int, PullResult, tuple[int, int]]:
    """From an offset from which on nothing is early: a message that is, else one before the first, and such an offset
    above it."""
    step = 1
    while late > min_offset:
        probe_offset = max(late - step, min_offset)
        found = yield from _probe(probe_offset)
        if found.is_early(timestamp_ms):
            return found.offset, late
        late, min_offset = probe_offset, found.min_offset
        step *= 2
    return min_offset - 1, min_offset


def _probe(offset: int) -> Generator[int, PullResult, _ProbeResult]:
    """What a pull at the offset finds, or where it points to."""
    while True:
        result = yield offset
        if result.status is PullStatus.FOUND:
            message = decode_first(result.body)
            # Behind a message that the broker could not put into the queue, stored offsets are larger than places.
            place = min(message.queue_offset, result.next_begin_offset - 1)
            return _ProbeResult(place, message.store_timestamp_ms, result.min_offset, result.max_offset)
        if result.status is PullStatus.NO_NEW_MSG or result.next_begin_offset <= offset:
            return _ProbeResult(offset, None, result.min_offset, result.max_offset)
        offset = result.next_begin_offset
