"""WaitingTimes: for how long the first unread message of a queue has been waiting, without asking anybody for it.

A survey tells where a queue ends and when its last message was stored. So the message at ``position`` was stored no
later than the last message of the first survey that went beyond it: it has been waiting at least since then. Nor was it
there at the survey before; what the answer lacks is at most the time between the two. Only of what was there before the
query started no more is known than when the last of it was stored.
"""

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
