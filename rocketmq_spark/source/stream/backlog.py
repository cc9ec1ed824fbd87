"""Backlog: what waits in our queues, as of the last survey, for the query's progress. Asks nobody."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.waiting import WaitingTimes


class Backlog:
    """Of the queues of the last survey that are ours. Not thread-safe."""

    def __init__(self) -> None:
        self.surveys = 0
        """How many there have been: what progress shows of queues without lag changes only with them."""
        self.is_whole = False
        """Whether all queues that are ours, or may be, were surveyed then: else nobody knows the whole lag."""
        self._positions: Mapping[MessageQueue, int] = {}
        self._max_offsets: dict[MessageQueue, int] = {}
        self._waiting = WaitingTimes()

    def surveyed(
        self, positions: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds], *, is_whole: bool
    ) -> None:
        """Our queues and the next offsets to be planned; ``bounds`` of all that were surveyed."""
        self.surveys += 1
        self.is_whole = is_whole
        self._positions = positions
        self._max_offsets |= {queue: held.max_offset for queue, held in bounds.items()}
        self._waiting.surveyed(positions, bounds)

    @property
    def lag(self) -> dict[MessageQueue, int]:
        """Offsets not yet planned."""
        return {queue: max(0, self._max_offsets[queue] - at) for queue, at in self._positions.items()}

    def waiting_ms(self, now_ms: int) -> dict[MessageQueue, int]:
        """How long the first of those offsets has been waiting at least, see ``WaitingTimes``."""
        return {queue: self._waiting.waiting_ms(queue, now_ms) for queue in self._positions}

    @property
    def max_offsets(self) -> dict[MessageQueue, int]:
        """The brokers' max offsets."""
        return {queue: self._max_offsets[queue] for queue in self._positions}
