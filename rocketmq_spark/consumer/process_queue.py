"""ProcessQueue: the ranges in flight of one queue, and its committable offset, as a SlidingWindow.

Source: ``client/impl/consumer/ProcessQueue.java``, whose unit is a message. Here it is a half-open range of offsets, a
Spark split; a single message is a range of one. Differs: Java's ``removeMessage`` returns -1 on an empty tree, here
removing a range that is not in flight is a ValueError. Java's ``queueOffsetMax`` never moves back, here an empty window
restarts at the next range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final

from rocketmq_spark.model import MessageQueue

BEYOND_ALL: Final = 2**63
"""Greater than every offset."""


class SlidingWindow:
    """Ranges of offsets in flight in a queue, half-open, and the offset up to which all are completed.

    Example with offsets 0 to 9, one range each: removing 0 makes 1 committable; removing 5 next changes nothing. Not
    thread-safe.
    """

    __slots__ = ("_in_flight", "_queue_offset_max")

    def __init__(self) -> None:
        self._in_flight: list[tuple[int, int]] = []
        self._queue_offset_max: int | None = None

    @property
    def in_flight(self) -> tuple[tuple[int, int], ...]:
        """Ranges in flight, ascending."""
        return tuple(self._in_flight)

    @property
    def committable(self) -> int | None:
        """Next offset to commit: the lowest in flight, else the highest end offset, or None before the first range."""
        return self._in_flight[0][0] if self._in_flight else self._queue_offset_max

    def put(self, begin_offset: int, end_offset: int) -> None:
        """Add ``[begin_offset, end_offset)`` to the ranges in flight. Raises ValueError, without a change, if it is
        empty or overlaps a range in flight.

        The range may begin before the committable offset, which then moves back. If nothing is in flight, the end
        offsets of earlier ranges no longer count.
        """
        if begin_offset >= end_offset or self._overlaps(begin_offset, end_offset):
            raise ValueError(f"[{begin_offset}, {end_offset}) does not fit into {self!r}")
        previous_max = self._queue_offset_max if self._in_flight else None
        self._queue_offset_max = end_offset if previous_max is None else max(previous_max, end_offset)
        insort(self._in_flight, (begin_offset, end_offset))

    def remove(self, begin_offset: int, end_offset: int) -> int:
        """Remove ``[begin_offset, end_offset)``, all or part of one range in flight or of adjacent ones: its messages
        are completed. Return the next committable offset.

        The remaining parts of these ranges, on either side, stay in flight. Raises ValueError, without a change, if one
        of the offsets is not in flight.
        """
        at = bisect_left(self._in_flight, (begin_offset, end_offset))
        if self._in_flight[at : at + 1] == [(begin_offset, end_offset)]:
            del self._in_flight[at]  # the same range that was put, by far the most frequent case
        else:
            self._remove_parts(begin_offset, end_offset)
        assert self.committable is not None
        return self.committable

    def remove_completed(self, completed_to: int) -> bool:
        """Remove all ranges in flight that end at ``completed_to`` or before, and return whether there was any. A range
        that ends later stays whole."""
        completed = [(begin, end) for begin, end in self._in_flight if end <= completed_to]
        for begin_offset, end_offset in completed:
            self.remove(begin_offset, end_offset)
        return bool(completed)

    def _remove_parts(self, begin_offset: int, end_offset: int) -> None:
        """Remove offsets that are part of one range, or of several adjacent ones; keep the remaining parts. Raises
        ValueError, without a change, if one of the offsets is not in flight, or there is none."""
        first = max(0, bisect_right(self._in_flight, (begin_offset, BEYOND_ALL)) - 1)
        beyond = bisect_left(self._in_flight, (end_offset,))
        touched = self._in_flight[first:beyond]
        found = sum(min(end, end_offset) - max(begin, begin_offset) for begin, end in touched)
        if begin_offset >= end_offset or found != end_offset - begin_offset:
            raise ValueError(f"[{begin_offset}, {end_offset}) is not in flight in {self!r}")
        remaining = ((touched[0][0], begin_offset), (end_offset, touched[-1][1]))
        self._in_flight[first:beyond] = [(begin, end) for begin, end in remaining if begin < end]

    def _overlaps(self, begin_offset: int, end_offset: int) -> bool:
        """Return whether ``[begin_offset, end_offset)`` shares an offset with a range in flight."""
        at = bisect_left(self._in_flight, (begin_offset, end_offset))
        before = self._in_flight[at - 1][1] if at else begin_offset
        after = self._in_flight[at][0] if at < len(self._in_flight) else end_offset
        return before > begin_offset or after < end_offset

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._ranges()}>"

    def _ranges(self) -> str:
        """Return the ranges in flight as text: ``[0, 3) [5, 9)``, or ``nothing in flight``."""
        return " ".join(f"[{begin}, {end})" for begin, end in self._in_flight) or "nothing in flight"


class ProcessQueue(SlidingWindow):
    """The ``SlidingWindow`` of a queue during one assignment to a member, from when it is added until it is dropped.

    ``dropped`` never reverts: a queue that is assigned again gets a new ProcessQueue. ``generation`` distinguishes
    them: it is unique among one member's ProcessQueues.

    Not thread-safe.
    """

    __slots__ = ("_dropped", "generation", "queue")

    def __init__(self, queue: MessageQueue, generation: int) -> None:
        super().__init__()
        self.queue = queue
        self.generation = generation
        self._dropped = False

    @property
    def dropped(self) -> bool:
        return self._dropped

    def drop(self) -> None:
        """Mark the queue as dropped, for good. Ranges in flight stay, and may be removed."""
        self._dropped = True

    def put(self, begin_offset: int, end_offset: int) -> None:
        """Same as ``SlidingWindow.put``. Raises ValueError also after ``drop``."""
        if self._dropped:
            raise ValueError(f"{self!r} is dropped and accepts no range")
        super().put(begin_offset, end_offset)

    def __repr__(self) -> str:
        state = "DROPPED" if self._dropped else "OWNED"
        return f"<ProcessQueue {self.queue} generation {self.generation} {state}, {self._ranges()}>"
