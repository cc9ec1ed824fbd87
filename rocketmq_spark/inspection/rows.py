"""Rows of the views: what servers return about topics, queues, groups and members, joined. Pure.

Times are epoch milliseconds, by the broker that stored the message; a row has the values of one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rocketmq_spark.model import PERM_READ, PERM_WRITE, MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.wire.body.connections import GroupConnections, MemberConnection
from rocketmq_spark.wire.body.topics import ConsumeProgress
from rocketmq_spark.wire.remoting.mq_version import version_name


class TopicRow(NamedTuple):
    """A topic on one broker. ``permission``: ``RW``, ``R``, ``W``, or ``-`` for none."""

    topic: str
    cluster_name: str
    broker_name: str
    read_queues: int
    write_queues: int
    permission: str


class QueueRow(NamedTuple):
    """A queue: ``messages`` are its offsets ``[min_offset, max_offset)``. ``last_store_ms``: None if it is unknown."""

    topic: str
    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    last_store_ms: int | None


class GroupRow(NamedTuple):
    """A group in one queue. ``committed_offset``: None if the group has none; its lag is then the entire queue.
    ``lag``: messages from the committed offset on, without deleted ones. ``oldest_store_ms``: store time of the first
    of them; ``lag_ms``: its age. Both are None if this message could not be read; ``lag_ms`` is 0 without lag.
    """

    consumer_group: str
    topic: str
    broker_name: str
    queue_id: int
    committed_offset: int | None
    min_offset: int
    max_offset: int
    lag: int
    oldest_store_ms: int | None
    lag_ms: int | None

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


class MemberRow(NamedTuple):
    """A member of a group. ``broker_names``: of the brokers to which it is connected, separated by commas.
    ``subscriptions``: expression by topic, of the entire group."""

    consumer_group: str
    client_id: str
    client_address: str
    language: str
    version: str
    broker_names: str
    consume_type: str
    message_model: str
    subscriptions: Mapping[str, str]


class GroupState(NamedTuple):
    """State of a group at one broker: the bounds of its topics' queues there, and its committed offsets.

    ``bounds``: of all queues of the topics. ``committed``: of the queues that get a row, None without an offset.
    """

    bounds: Mapping[MessageQueue, QueueBounds]
    committed: Mapping[MessageQueue, int | None]

    def oldest_unread(self) -> dict[MessageQueue, int]:
        """Return, for each queue with lag, the offset of the first message that the group has not consumed. It is the
        committed offset, or the queue's min offset if that is larger or none is committed."""
        starts = {queue: self._start(queue) for queue in self.committed}
        return {queue: start for queue, start in starts.items() if start < self.bounds[queue].max_offset}

    def rows(self, group: str, store_times_ms: Mapping[MessageQueue, int | None], now_ms: int) -> Iterator[GroupRow]:
        """Yield a row for each queue in ``committed``, in queue order. ``store_times_ms``: store times of the
        ``oldest_unread`` messages. Without one, store time and age are None. The age of a queue without lag is always
        0."""
        for queue in sorted(self.committed, key=MessageQueue.sort_key):
            held, oldest_ms = self.bounds[queue], store_times_ms.get(queue)
            lag = max(0, held.max_offset - self._start(queue))
            age_ms = None if oldest_ms is None else max(0, now_ms - oldest_ms)
            yield GroupRow(
                group,
                *queue,
                self.committed[queue],
                held.min_offset,
                held.max_offset,
                lag,
                oldest_ms,
                age_ms if lag else 0,
            )

    def _start(self, queue: MessageQueue) -> int:
        """Return the committed offset, or the queue's min offset if that is larger or none is committed. It may be
        above the max offset."""
        return max(self.committed[queue] or 0, self.bounds[queue].min_offset)


def conclusive_offsets(progress: Mapping[MessageQueue, ConsumeProgress]) -> dict[MessageQueue, int | None]:
    """Return the committed offset, never None, of each queue where it is above 0, and omit all other queues. A broker
    returns 0 also for a queue without a committed offset."""
    return {queue: one.consumer_offset for queue, one in progress.items() if one.consumer_offset > 0}


def topic_rows(routes: Iterable[TopicRoute]) -> Iterator[TopicRow]:
    """Yield a row for each broker with queues of each route, by route as given, then by broker name. ``cluster_name``
    is empty if the route does not list the broker's cluster."""
    for route in routes:
        clusters = {broker.broker_name: broker.cluster for broker in route.brokers}
        for data in sorted(route.queues, key=lambda data: data.broker_name):
            yield TopicRow(
                route.topic,
                clusters.get(data.broker_name, ""),
                data.broker_name,
                data.read_queue_count,
                data.write_queue_count,
                permission_text(data.permission),
            )


def permission_text(permission: int) -> str:
    """Return a permission as ``RW``, ``R``, ``W``, or ``-`` for neither; ignore its other bits."""
    letters = ("R" if permission & PERM_READ else "") + ("W" if permission & PERM_WRITE else "")
    return letters or "-"


def queue_rows(bounds: Mapping[MessageQueue, QueueBounds]) -> Iterator[QueueRow]:
    """Yield a row for each queue, ordered by topic, broker name and queue ID."""
    for queue in sorted(bounds, key=MessageQueue.sort_key):
        held = bounds[queue]
        messages = held.max_offset - held.min_offset
        yield QueueRow(*queue, held.min_offset, held.max_offset, messages, held.last_store_timestamp_ms or None)


def member_rows(group: str, connections: Mapping[str, GroupConnections]) -> Iterator[MemberRow]:
    """Yield a row for each client ID, ascending. ``connections``: by broker name. A row lists all brokers to which the
    member is connected; its other values are from the first of them, by name."""
    by_client: dict[str, list[tuple[str, MemberConnection]]] = {}
    for broker_name in sorted(connections):
        for member in connections[broker_name].members:
            by_client.setdefault(member.client_id, []).append((broker_name, member))
    for client_id in sorted(by_client):
        (first, member), names = by_client[client_id][0], dict.fromkeys(name for name, _ in by_client[client_id])
        of_group = connections[first]
        yield MemberRow(
            group,
            client_id,
            member.address,
            member.language,
            version_name(member.version),
            ",".join(names),
            of_group.consume_type,
            of_group.message_model,
            {topic: subscription.sub_string for topic, subscription in of_group.subscriptions.items()},
        )
