"""``WriteQueues``: selects the queue of a message or batch that may go to any queue of its topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue, TopicRoute
from rocketmq_spark.remoting.route_table import RouteTable

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

ROUTE_LIFETIME_MS: Final = 30_000
"""Age at which routes are refreshed. Source: ``client/ClientConfig.java``, ``pollNameServerInterval``."""


class WriteQueues:
    """Selects queues for a producer or write task: for each topic round robin, from its own ``initial_queue_index()``
    on. Threads: any.

    Source: ``client/impl/producer/TopicPublishInfo.java#selectOneMessageQueue``. Differs: avoids each broker that has
    failed, not the last one only. Routes are refreshed in ``select_queue``, not periodically.
    """

    def __init__(self, routes: RouteTable, clock: Clock, initial_queue_index: Callable[[], int]) -> None:
        """Request nothing."""
        self._routes = routes
        self._clock = clock
        self._refreshed_ms = clock()
        self._round_robin: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(initial_queue_index()))

    def select_queue(self, topic: str, may_try: Callable[[str], bool]) -> MessageQueue:
        """Return the next of the topic's writable queues, round robin. Skip brokers whose names ``may_try`` rejects,
        unless it rejects all. First, if ROUTE_LIFETIME_MS (30 s) have passed, refresh the routes of all topics so far,
        and wait. A topic whose refresh fails keeps its cached route. Raises the errors of ``writable_queues``."""
        now_ms = self._clock()
        if now_ms - self._refreshed_ms >= ROUTE_LIFETIME_MS:
            self._refreshed_ms = now_ms
            self._routes.refresh(list(self._round_robin))
        queues = self.writable_queues(topic)
        usable = [queue for queue in queues if may_try(queue.broker_name)] or queues
        return usable[next(self._round_robin[topic]) % len(usable)]

    def writable_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the topic's writable queues, at least one. Request the route, and wait, if it is not cached or was
        invalidated. Without a writable queue, invalidate the route and raise ``no_writable_queue``. Raises the errors
        of ``RouteTable.route`` and ``TopicRoute.publish_queues``."""
        route = self._routes.route(topic)
        queues = route.write_queues()
        if not queues:
            self._routes.invalidate(topic)
            raise no_writable_queue(route)
        return queues


def no_writable_queue(route: TopicRoute) -> RouteError:
    """Return the error of a route without a writable queue: RouteError[MASTER_UNAVAILABLE] if the route lacks the
    master of a broker of ``publish_queues``, else RouteError[TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE]. Raises the errors of
    ``TopicRoute.publish_queues``."""
    for queue in route.publish_queues():
        if route.master_address(queue.broker_name) is None:
            return RouteError("MASTER_UNAVAILABLE", broker=queue.broker_name, topic=route.topic)
    return RouteError("TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE", topic=route.topic)
