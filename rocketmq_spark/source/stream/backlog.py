"""Backlog: what waits in our queues, as of the last survey, for the query's progress, and for how long. Asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketmq_spark.model import MessageQueue, QueueBounds

LIMIT: Final = 256
"""Surveys remembered of a queue; beyond it every second one is forgotten, but neither the first nor the last."""


class WaitingTimes:
    """What surveys have seen of queues with unread messages. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[MessageQueue, list[tuple[int, int]]] = {}

    def surveyed(self, positions: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """Queues and the next offsets to be read; ``bounds`` of all of them or of some. Others are forgotten."""
        self._seen = {queue: self._of_queue(queue, at, bounds.get(queue)) for queue, at in positions.items()}

    def _of_queue(self, queue: MessageQueue, position: int, bounds: QueueBounds | None) -> list[tuple[int, int]]:
        """(max offset, store time of the last message), both ascending, none at or below ``position``."""
        seen = self._seen.get(queue, [])
        if bounds is not None:
            seen = [entry for entry in seen if entry[0] < bounds.max_offset]
            seen.append((bounds.max_offset, bounds.last_store_timestamp_ms))
        unread = [entry for entry in seen if entry[0] > position]
        return unread if len(unread) <= LIMIT else unread[::2]

    def waiting_ms(self, queue: MessageQueue, now_ms: int) -> int:
        """At least so long; 0 when nothing waits. ``now_ms``: epoch milliseconds, by a clock like the broker's."""
        seen = self._seen.get(queue)
        return max(0, now_ms - seen[0][1]) if seen else 0


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
