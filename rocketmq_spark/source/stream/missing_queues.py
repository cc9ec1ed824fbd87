"""Missing queues: behavior of a query while queues that it has read are unavailable. Pure; callers pass the time.

A queue is unavailable if no responding server has it. The topic is deleted, or the name servers' route lacks the
queue's broker, its read permission, or the queue's ID. A broker that is in the route and does not respond is
unresponsive, not unavailable; ``clusterTimeoutMs`` applies to it. The offset keeps the positions of both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rocketmq_spark.condition import listed
from rocketmq_spark.errors import RouteError
from rocketmq_spark.grouping import grouped
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.offsets import SourceOffset

MAX_LISTED_QUEUES: Final = 10
"""Maximum number of queues whose positions are listed together."""


class MissingQueues:
    """Unavailable queues, since when, and whether the query waits for them (awaited) or continues without them
    (dropped, with ``missingQueues`` ``drop``).

    Not thread-safe.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._is_dropping = options.missing_queues == "drop"
        self._is_failing = options.missing_queues == "fail"
        self._limit_ms = options.missing_queues_limit_ms
        self._since_ms: dict[MessageQueue, int] = {}
        self._updated_ms = 0
        self.outages: tuple[Outage, ...] = ()
        """Current outages, one per topic and broker."""

    @property
    def awaited(self) -> frozenset[MessageQueue]:
        """Return unavailable queues that the query waits for, as without them its input is incomplete; none with
        ``missingQueues`` ``drop``."""
        return frozenset() if self._is_dropping else frozenset(self._since_ms)

    @property
    def dropped(self) -> frozenset[MessageQueue]:
        """Return unavailable queues without which the query continues, until they are available again: all with
        ``missingQueues`` ``drop``, else none."""
        return frozenset(self._since_ms) if self._is_dropping else frozenset()

    @property
    def has_unavailable(self) -> bool:
        """Return whether any queue is unavailable, awaited or dropped, so that its lag is unknown."""
        return bool(self._since_ms)

    def is_due(self, now_ms: int) -> bool:
        """Return whether to refresh the metadata of unavailable queues; ``update`` then decides. Due
        ``REQUEST_PAUSES.longest_ms`` after the last update, because a broker does not report that a queue has returned.
        Also due once an ``awaited`` queue has been unavailable for ``missing_queues_limit_ms``. Never due without
        unavailable queues."""
        has_paused = bool(self._since_ms) and now_ms - self._updated_ms >= REQUEST_PAUSES.longest_ms
        return has_paused or bool(self._overdue(now_ms))

    def update(self, unavailable: Mapping[MessageQueue, str], start: SourceOffset, now_ms: int) -> None:
        """Replace the recorded queues by ``unavailable``, all queues that are unavailable now, with their brokers' last
        addresses; known ones keep their start time. Update ``outages``. ``start``: positions of these queues.

        Raises RouteError[QUEUES_UNAVAILABLE.TIMEOUT] with ``missingQueues`` ``wait`` for queues unavailable for
        ``missingQueuesTimeoutMs``. Raises RouteError[QUEUES_UNAVAILABLE.FAIL] at once with ``fail``. ``drop`` raises
        neither.
        """
        parts = {
            queue: f"{queue} at offset {start.queues[queue].end_offset}, last broker address {address}"
            for queue, address in unavailable.items()
        }
        self._updated_ms = now_ms
        if unavailable.keys() != self._since_ms.keys():
            self._since_ms = {queue: self._since_ms.get(queue, now_ms) for queue in unavailable}
            in_order = sorted(unavailable, key=MessageQueue.sort_key)
            by_broker = grouped(in_order, lambda queue: (queue.topic, queue.broker_name))
            self.outages = tuple(self._outage(of_broker, unavailable, start) for of_broker in by_broker.values())
        if overdue := self._overdue(now_ms):
            named = "; ".join(parts[queue] for queue in sorted(overdue, key=MessageQueue.sort_key))
            raise self._unavailable_error(len(overdue), named, max(overdue.values()))

    def _unavailable_error(self, count: int, queues: str, waited_ms: int) -> RouteError:
        """Return the error for ``count`` queues that have reached the limit: QUEUES_UNAVAILABLE.FAIL with
        ``missingQueues`` ``fail``, else QUEUES_UNAVAILABLE.TIMEOUT."""
        if self._is_failing:
            return RouteError("QUEUES_UNAVAILABLE.FAIL", count=count, queues=queues)
        limit_ms = self._limit_ms
        return RouteError(
            "QUEUES_UNAVAILABLE.TIMEOUT", count=count, queues=queues, waited_ms=waited_ms, limit_ms=limit_ms
        )

    def _outage(
        self, queues: Collection[MessageQueue], unavailable: Mapping[MessageQueue, str], start: SourceOffset
    ) -> Outage:
        """Return the outage of ``queues``, all of one topic and broker, with their positions; without an end if the
        query continues without them."""
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
        """Return the awaited queues that have reached the limit, with the time in ms for which they have been
        unavailable; {} with ``missingQueues`` ``drop``."""
        waited_ms = {queue: now_ms - self._since_ms[queue] for queue in self.awaited}
        return {queue: ms for queue, ms in waited_ms.items() if ms >= self._limit_ms}


def _positions(queues: Collection[MessageQueue], start: SourceOffset) -> str:
    """Return ``queue=0 offset=41, queue=1 offset=40`` of the first ``MAX_LISTED_QUEUES`` queues, then the number of the
    remaining ones, if any."""
    in_order = sorted(queues, key=MessageQueue.sort_key)
    parts = [f"queue={queue.queue_id} offset={start.queues[queue].end_offset}" for queue in in_order]
    return listed(parts, MAX_LISTED_QUEUES)
