"""Resets: where operators want queues of the group to be read from, and nobody has acted on it yet.

A broker marks a reset queue, and the first pull or question of the group takes the mark away; who was told must act on
it, or put it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rocketmq_spark.consumer.route_table import RouteTable
from rocketmq_spark.consumer.servers import Servers
from rocketmq_spark.model import MessageQueue


class Resets:
    """What one member of ``group`` was told. Not thread-safe."""

    def __init__(self, group: str, servers: Servers, routes: RouteTable) -> None:
        self._group = group
        self._servers = servers
        self._routes = routes
        self._offsets: dict[MessageQueue, int] = {}
        self.news = 0
        """How often a reset was noticed."""

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._offsets

    def note(self, queue: MessageQueue, offset: int) -> None:
        """An operator has reset the queue to ``offset``."""
        self._offsets[queue] = offset
        self.news += 1

    def keep(self, resets: Mapping[MessageQueue, int]) -> None:
        """Remember resets on which nobody could act; what has been noted since is newer."""
        self._offsets = {**resets, **self._offsets}

    def take_all(self) -> dict[MessageQueue, int]:
        """Each is told once."""
        resets, self._offsets = self._offsets, {}
        return resets

    def forget(self, queue: MessageQueue) -> None:
        """The queue is not ours any more."""
        self._offsets.pop(queue, None)

    def take_mark(self, queue: MessageQueue) -> None:
        """Learn where an operator has reset the queue to. One pull of the group is told, and the mark is gone then."""
        offset = self._servers.ask(queue.broker_name, lambda broker: broker.take_reset(self._group, queue))
        if offset is not None:
            self.note(queue, offset)

    def look_for(self, queues: Iterable[MessageQueue]) -> None:
        """Take the marks of queues before a pull of somebody else is told, and nobody again."""
        self._servers.refresh_routes()
        for queue in queues:
            self.take_mark(queue)

    def put_back(self, queues: Collection[MessageQueue]) -> None:
        """Mark those of ``queues`` as reset again on which nobody has acted. A broker may refuse that."""
        for queue in self._offsets.keys() & set(queues):
            self._put_back(queue, self._offsets.pop(queue))

    def _put_back(self, queue: MessageQueue, offset: int) -> None:
        address = self._routes.master(queue.broker_name)
        if address is not None:
            self._servers.tell(address, lambda broker: broker.reset_offset(self._group, queue, offset))
