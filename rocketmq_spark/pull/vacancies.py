"""Vacancies: offsets of a batch consume queue that no message has (``PullAction.VACANT``). Pure; ``RangePuller`` and
the command line send the probes."""

from __future__ import annotations

from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus


def may_be_vacant(result: PullResult, offset: int) -> bool:
    """Return whether a filtered response to a pull at ``offset``, within the queue's bounds, has no match and no later
    next offset. Then no message has the offset, or the store failed: an unfiltered pull shows which."""
    is_unmatched = result.status is PullStatus.NO_MATCHED_MSG and result.next_begin_offset <= offset
    return is_unmatched and result.min_offset <= offset < result.max_offset


class VacancySearch:
    """Search for the end of the vacant offsets from ``offset`` on, which is vacant. While ``next_probe`` is not None,
    probe it and ``record`` the result; then ``end_offset`` is the end. It probes at doubling distances, then bisects.

    ``end_offset``: smallest offset that is known to be not vacant, at first the end of the search. Not thread-safe.
    """

    def __init__(self, offset: int, end_offset: int) -> None:
        self.end_offset = end_offset
        self._vacant = offset
        self._step = 1

    @property
    def next_probe(self) -> int | None:
        """Return the offset to probe next, or None if the end is found."""
        if self._vacant + self._step < self.end_offset:
            return self._vacant + self._step
        middle = (self._vacant + self.end_offset) // 2
        return middle if middle > self._vacant else None

    def record(self, offset: int, *, is_vacant: bool) -> None:
        """Record whether ``offset``, which was ``next_probe``, is in the same vacancy."""
        if is_vacant:
            self._vacant, self._step = offset, 2 * self._step
        else:
            self.end_offset = offset


class Vacancies:
    """The last found vacant offsets of a range, and the response that a broker returns to a pull of each of them."""

    def __init__(self) -> None:
        self._offsets = range(0)
        self._response: PullResult | None = None

    def record(self, offsets: range, response: PullResult) -> None:
        """Replace the vacant offsets, and the broker's response to a pull of each of them."""
        self._offsets, self._response = offsets, response

    def response_at(self, offset: int) -> PullResult | None:
        """Return the response to a pull at ``offset`` if it is one of the vacant offsets, else None."""
        return self._response if offset in self._offsets else None

    def end_at(self, offset: int) -> int | None:
        """Return the end of the vacant offsets if ``offset`` is one of them, else None."""
        return self._offsets.stop if offset in self._offsets else None
