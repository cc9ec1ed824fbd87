"""QueuePositions: start or end positions by topic and queue, from an option's JSON. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rocketmq_spark.model import MessageQueue

EARLIEST: Final = -2
LATEST: Final = -1
"""Positions instead of a queue's offset, as in Spark's Kafka connector."""

GROUP: Final = -3
GROUP_OR_EARLIEST: Final = -4
GROUP_OR_LATEST: Final = -5
"""Positions at the group's committed offset. Options have only words for them."""

GROUP_WORDS: Final[Mapping[str, int]] = MappingProxyType(
    {"group": GROUP, "group:earliest": GROUP_OR_EARLIEST, "group:latest": GROUP_OR_LATEST}
)
FALLBACKS: Final[Mapping[int, int | None]] = MappingProxyType(
    {GROUP: None, GROUP_OR_EARLIEST: EARLIEST, GROUP_OR_LATEST: LATEST}
)
"""The position of a queue without a committed offset of the group; None: it has none."""


@dataclass(frozen=True, slots=True)
class QueuePositions:
    """Start or end positions of queues: offsets, EARLIEST, LATEST, those of GROUP_WORDS, or times (epoch ms).
    ``everywhere``: position of all queues, or None. ``topics``: of all queues of a topic. ``queues``: of single
    queues."""

    everywhere: int | None = None
    topics: tuple[tuple[str, int], ...] = ()
    queues: tuple[tuple[MessageQueue, int], ...] = ()

    def by_queue(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the position of each of ``queues``: its own, else its topic's, else ``everywhere``. Queues without a
        position are missing."""
        of_queues, of_topics = dict(self.queues), dict(self.topics)
        found = ((queue, of_queues.get(queue, of_topics.get(queue.topic, self.everywhere))) for queue in queues)
        return {queue: position for queue, position in found if position is not None}

    def values(self) -> list[int]:
        """Return all positions: ``everywhere`` if it is set, then of topics and of single queues."""
        everywhere = [] if self.everywhere is None else [self.everywhere]
        return [*everywhere, *dict(self.topics).values(), *dict(self.queues).values()]

    @property
    def uses_group(self) -> bool:
        """Return whether a position is the group's committed offset."""
        return any(position in FALLBACKS for position in self.values())

    def unlisted(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Return, in order, those of ``queues`` that ``by_queue`` lacks: they have no position."""
        listed = self.by_queue(queues)
        return [queue for queue in queues if queue not in listed]

    def unknown(self, queues: Iterable[MessageQueue]) -> list[str]:
        """Return, as text, listed topics that have no queue in ``queues``, then listed single queues that are not in
        ``queues``."""
        known = set(queues)
        topics = {queue.topic for queue in known}
        return [topic for topic, _ in self.topics if topic not in topics] + [
            str(queue) for queue, _ in self.queues if queue not in known
        ]
