"""Missing queues: what becomes of a query while queues that it has read are away. Pure; times come from the caller.

Away is what no server that answers can give: the name servers' route is without the queue's broker, or without its read
permission, or has fewer queues, or the topic is gone. A broker that the route names and that does not answer is silent,
not away; ``clusterTimeoutMs`` is for that. Positions of both stay in the offset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.offsets import SourceOffset

MAX_LISTED_QUEUES: Final = 10
"""Queues whose positions are said together."""


class MissingQueues:
    """Since when which queues are away, and whether ``missingQueues`` lets the query go on without them.

    Not thread-safe.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._is_dropping = options.missing_queues == "drop"
        self._is_failing = options.missing_queues == "fail"
        self._limit_ms = options.missing_queues_limit_ms
        self._since_ms: dict[MessageQueue, int] = {}
        self._updated_ms = 0
        self.outages: tuple[Outage, ...] = ()
        """What is waited for, one for each topic and broker."""

    @property
    def awaited(self) -> frozenset[MessageQueue]:
        """Queues without which the query has not all that it is to read."""
        return frozenset() if self._is_dropping else frozenset(self._since_ms)

    @property
    def dropped(self) -> frozenset[MessageQueue]:
        """Queues without which the query goes on, until they are back."""
        return frozenset(self._since_ms) if self._is_dropping else frozenset()

    @property
    def has_unavailable(self) -> bool:
        """Whether there are queues in which nobody knows what waits."""
        return bool(self._since_ms)

    def is_due(self, now_ms: int) -> bool:
        """Whether to look again for what is away, then ``update`` decides: after a pause, because a broker that did not
        have a queue says nothing when it has, and at the limit of one, as far as is known."""
        has_paused = bool(self._since_ms) and now_ms - self._updated_ms >= REQUEST_PAUSES.longest_ms
        return has_paused or bool(self._overdue(now_ms))

    def update(self, unavailable: Mapping[MessageQueue, str], start: SourceOffset, now_ms: int) -> None:
        """``unavailable`` are all the queues that are away now, with their brokers' last addresses; their positions are
        in ``start``. Raises RouteError[QUEUES_UNAVAILABLE.TIMEOUT | QUEUES_UNAVAILABLE.FAIL] for those that have been
        away for the whole limit."""
        parts = {
            queue: f"{queue} at offset {start.queues[queue].end_offset}, last broker address {address}"
            for queue, address in unavailable.items()
        }
        self._updated_ms = now_ms
        if unavailable.keys() != self._since_ms.keys():
            self._since_ms = {queue: self._since_ms.get(queue, now_ms) for queue in unavailable}
            self.outages = tuple(
                self._outage(of_broker, unavailable, start) for of_broker in _by_topic_and_broker(unavailable)
            )
        if overdue := self._overdue(now_ms):
            named = "; ".join(parts[queue] for queue in sorted(overdue, key=MessageQueue.sort_key))
            raise self._unavailable(len(overdue), named, max(overdue.values()))

    def _unavailable(self, count: int, queues: str, waited_ms: int) -> RouteError:
        if self._is_failing:
            return RouteError("QUEUES_UNAVAILABLE.FAIL", count=count, queues=queues)
        limit_ms = self._limit_ms
        return RouteError(
            "QUEUES_UNAVAILABLE.TIMEOUT", count=count, queues=queues, waited_ms=waited_ms, limit_ms=limit_ms
        )

    def _outage(
        self, queues: Collection[MessageQueue], unavailable: Mapping[MessageQueue, str], start: SourceOffset
    ) -> Outage:
        first = min(queues, key=MessageQueue.sort_key)
        since_ms = min(self._since_ms[queue] for queue in queues)
        suffix = "the query reads the other queues (missingQueues=drop); " if self._is_dropping else ""
        return Outage(
            f"{len(queues)} {'queue' if len(queues) == 1 else 'queues'} of topic {first.topic} at "
            f"{first.broker_name} ({unavailable[first]})",
            since_ms,
            None if self._is_dropping else since_ms + self._limit_ms,
            f"not in the route or not readable; {suffix}offsets are kept: {_positions(queues, start)}",
            key="QUEUES_UNAVAILABLE",
        )

    def _overdue(self, now_ms: int) -> dict[MessageQueue, int]:
        """How long each queue has been away that must not be away any longer."""
        waited_ms = {queue: now_ms - self._since_ms[queue] for queue in self.awaited}
        return {queue: ms for queue, ms in waited_ms.items() if ms >= self._limit_ms}


def _by_topic_and_broker(queues: Collection[MessageQueue]) -> list[list[MessageQueue]]:
    grouped: dict[tuple[str, str], list[MessageQueue]] = {}
    for queue in sorted(queues, key=MessageQueue.sort_key):
        grouped.setdefault((queue.topic, queue.broker_name), []).append(queue)
    return list(grouped.values())


def _positions(queues: Collection[MessageQueue], start: SourceOffset) -> str:
    """``queue=0 offset=41, queue=1 offset=40`` of the first few."""
    first = sorted(queues, key=MessageQueue.sort_key)[:MAX_LISTED_QUEUES]
    named = ", ".join(f"queue={queue.queue_id} offset={start.queues[queue].end_offset}" for queue in first)
    return f"{named} and {len(queues) - MAX_LISTED_QUEUES} more" if len(queues) > MAX_LISTED_QUEUES else named
