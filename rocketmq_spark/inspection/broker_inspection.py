"""Requests to one broker: bounds of topics, and the state of groups."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final

from rocketmq_spark.errors import BrokerError, RouteError
from rocketmq_spark.inspection.rows import GroupRow, GroupState, conclusive_offsets
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.broker_rpcs import group_connections_rpc, group_names_rpc
from rocketmq_spark.remoting.retry import is_access_denied, is_topic_missing_at_broker
from rocketmq_spark.wire.body.connections import GroupConnections

MAX_CONCURRENT_TOPICS: Final = 64
"""Maximum number of requests for queue bounds in flight."""


def query_bounds(broker: Broker, topics: Collection[str]) -> dict[MessageQueue, QueueBounds]:
    """Request the min and max offsets of all queues that ``broker`` has of ``topics``, at most 64 requests in flight,
    and wait. Omit topics that it does not have. Raises TransportError, other BrokerErrors, and RemoteProtocolError."""
    names = list(topics)
    found: dict[MessageQueue, QueueBounds] = {}
    for first in range(0, len(names), MAX_CONCURRENT_TOPICS):
        for future in [broker.submit_topic_stats(name) for name in names[first : first + MAX_CONCURRENT_TOPICS]]:
            try:
                found |= future.result()
            except BrokerError as error:
                if not is_topic_missing_at_broker(error):
                    raise
    return found


def query_own_bounds(broker: Broker, broker_name: str, topics: Collection[str]) -> dict[MessageQueue, QueueBounds]:
    """Do what ``query_bounds`` does. Raises RouteError[BROKER_ADDRESS_MISMATCH] if the response has queues of another
    broker than ``broker_name``."""
    bounds = query_bounds(broker, topics)
    other = next((queue.broker_name for queue in bounds if queue.broker_name != broker_name), None)
    if other is not None:
        raise RouteError("BROKER_ADDRESS_MISMATCH", address=str(broker.address), broker=broker_name, other=other)
    return bounds


def query_group_names(broker: Broker) -> list[str]:
    """Request the names of all groups of ``broker``, in its order, the system's included, and wait. Raises
    TransportError, BrokerError and RemoteProtocolError."""
    return broker.call(group_names_rpc())


def query_connections(broker: Broker, group: str) -> GroupConnections:
    """Request the group's members that are connected to ``broker``, none if it has none, and wait. Raises
    TransportError, BrokerError and RemoteProtocolError."""
    return broker.call(group_connections_rpc(group))


def query_group_state(broker: Broker, group: str, topics: Collection[str] = ()) -> GroupState:
    """Request the group's committed offsets on ``broker``, and the bounds of its queues there, and wait. The topics are
    those that the group subscribes to or has committed offsets of; if ``topics`` are given, only those that are among
    them. Raises TransportError, BrokerError and RemoteProtocolError."""
    progress = broker.query_consume_stats(group)
    names = {queue.topic for queue in progress} | query_connections(broker, group).subscriptions.keys()
    names = names & set(topics) if topics else names
    bounds = query_bounds(broker, sorted(names))
    # Statistics have the queues that consumers read; bounds may have more.
    counted = {queue.topic for queue in progress}
    queues = [queue for queue in bounds if queue in progress or queue.topic not in counted]
    committed = {queue: at for queue, at in conclusive_offsets(progress).items() if queue in bounds}
    committed |= broker.query_offsets(group, [queue for queue in queues if queue not in committed])
    return GroupState(bounds, committed)


def query_group_rows(
    broker: Broker, group: str, topics: Collection[str] = (), *, with_ages: bool = True
) -> list[GroupRow]:
    """Request the state of ``group`` on ``broker``, see ``query_group_state``, and return a row for each queue, in
    queue order. With ``with_ages``, pull the oldest unread message of each queue for its store time; else send no pull:
    times are None, but the age of a queue without lag is 0. Raises TransportError, BrokerError and
    RemoteProtocolError."""
    state = query_group_state(broker, group, topics)
    store_times_ms = _store_times(broker, state.oldest_unread()) if with_ages else {}
    return list(state.rows(group, store_times_ms, int(time.time() * 1000)))


def _store_times(broker: Broker, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int | None]:
    """Request the store times (Unix ms) of the messages at these offsets, and wait; None for an offset without a
    message. {} if this client may not read messages, a right that statistics do not need. Raises other BrokerError,
    TransportError and RemoteProtocolError."""
    try:
        return broker.probe_store_times(offsets)
    except BrokerError as error:
        if is_access_denied(error):
            return {}
        raise
