"""Reading messages of a topic for a command, as no member of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from rocketmq_spark.model import TOOLS_GROUP, MessageExt, MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.wire.message.stored_message import decode_messages
from rocketmq_spark.wire.remoting.pull import PullResult

PULLED_MESSAGES: Final = 32


def read_messages(cluster: ClusterClient, ranges: Mapping[MessageQueue, QueueBounds]) -> Iterator[MessageExt]:
    """Pull and yield the messages with offsets in [min_offset, max_offset) of each range, queue by queue, each in
    offset order. Skip offsets that the broker has deleted. Leave a queue early if the broker returns no later offset to
    pull from. Raises TransportError, BrokerError, RouteError and RemoteProtocolError."""
    for queue in sorted(ranges, key=MessageQueue.sort_key):
        offset, end_offset = ranges[queue].min_offset, ranges[queue].max_offset
        while offset < end_offset:
            result = cluster.call(queue, partial(_pull, queue, offset))
            found = decode_messages(result.body, broker_name=queue.broker_name)
            yield from (message for message in found if message.queue_offset < end_offset)
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset


def _pull(queue: MessageQueue, offset: int, broker: Broker) -> PullResult:
    """Pull messages from ``offset`` on, as the group of RocketMQ's tools."""
    return broker.pull(TOOLS_GROUP, queue, offset, PULLED_MESSAGES)
