"""QueuePositions: start or end positions by topic and queue, from an option's JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.model import MessageQueue

EARLIEST: Final = -2
LATEST: Final = -1
"""Positions instead of a queue's offset, as in Spark's Kafka connector."""


@dataclass(frozen=True, slots=True)
class QueuePositions:
    """Positions of queues: offsets, EARLIEST, LATEST, or times (epoch ms). ``everywhere``: of all queues, or None.
    ``topics``: of all queues of a topic. ``queues``: of single queues."""

    everywhere: int | None = None
    topics: tuple[tuple[str, int], ...] = ()
    queues: tuple[tuple[MessageQueue, int], ...] = ()

    def of(self, queue: MessageQueue) -> int | None:
        """Return the position of ``queue``; None if it is not listed."""
        return dict(self.queues).get(queue, dict(self.topics).get(queue.topic, self.everywhere))

    def unlisted(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return those of ``queues`` that have no position."""
        return [queue for queue in queues if self.of(queue) is None]

    def unknown(self, queues: Iterable[MessageQueue]) -> list[str]:
        """Return listed topics and queues that are not among ``queues``, as text."""
        known = set(queues)
        topics = {queue.topic for queue in known}
        return [topic for topic, _ in self.topics if topic not in topics] + [
            str(queue) for queue, _ in self.queues if queue not in known
        ]
