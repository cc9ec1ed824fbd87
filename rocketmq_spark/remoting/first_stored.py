"""Search for the first message of a queue stored at or after a time, verified by pulls.

The broker's search (SEARCH_OFFSET_BY_TIMESTAMP) is only a hint. Past the last message RocketMQ 4.9 returns max - 1, 5.x
max, some stores -1. Among the messages of one millisecond 4.9 returns any. So the message at the hint and adjacent ones
are probed. A right hint needs two pulls of one message; a wrong one needs doubling steps and a binary search. Source:
``store/ConsumeQueue.java#getOffsetInQueueByTime``, whose result this verifies.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from rocketmq_spark.wire.message.stored_message import decode_first
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

BEYOND_ANY: Final = 2**48
"""An offset that no queue has."""


class _ProbeResult(NamedTuple):
    """The first message at or after a probed offset: its own offset and store time (Unix ms), and the queue's bounds.

    If there is no message, ``stored_ms`` is None and ``offset`` has no meaning.
    """

    offset: int
    stored_ms: int | None
    min_offset: int
    max_offset: int

    def is_early(self, timestamp_ms: int) -> bool:
        """Return whether the message was stored before ``timestamp_ms`` (Unix); False without a message."""
        return self.stored_ms is not None and self.stored_ms < timestamp_ms


def first_stored(hint: int, timestamp_ms: int) -> Generator[int, PullResult, int]:
    """Yield offsets, receive by ``send`` the result of a pull of one message at each, and return the start offset. It
    is the offset of the first message stored at or after ``timestamp_ms`` (Unix), or one past the last message.

    ``hint``: result of the broker's search. Store times are assumed to grow with the offsets. If a broker's clock was
    put back they do not, and the result is one of the offsets at which they pass ``timestamp_ms``.
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
    """Probe upwards from the offset of an early message (stored before ``timestamp_ms``), in doubling steps. Return the
    last offset found early, and an offset from which on no message is early."""
    step = 1
    while True:
        found = yield from _probe(early + step)
        if not found.is_early(timestamp_ms) or early + step >= BEYOND_ANY:
            return early, early + step
        early = found.offset
        step *= 2


def _search_downwards(late: int, min_offset: int, timestamp_ms: int) -> Generator[int, PullResult, tuple[int, int]]:
    """Probe downwards in doubling steps from ``late``; from there on no message is early (stored before
    ``timestamp_ms``). Return the offset of an early message (one before the first message if none is), and an offset
    above it from which on no message is early."""
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
    """Yield offsets to pull, from ``offset`` on, and receive the results; follow the broker's next offset while it
    grows and no message is found. Return the message found, or a result without message: at the end, or if the next
    offset does not grow."""
    while True:
        result = yield offset
        if result.status is PullStatus.FOUND:
            message = decode_first(result.body)
            # After a message that the broker could not add to the queue, stored offsets are larger than positions; an
            # inner batch is returned for each of its offsets.
            place = max(offset, min(message.queue_offset, result.next_begin_offset - 1))
            return _ProbeResult(place, message.store_timestamp_ms, result.min_offset, result.max_offset)
        if result.status is PullStatus.NO_NEW_MSG or result.next_begin_offset <= offset:
            return _ProbeResult(offset, None, result.min_offset, result.max_offset)
        offset = result.next_begin_offset
