"""Reading messages of a topic for a command, as no member of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from rocketmq_spark.cli.message_lines import StoredMessage, message_of
from rocketmq_spark.model import TOOLS_GROUP, MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.wire.arrow.undecodable import decode_each
from rocketmq_spark.wire.remoting.pull import PullResult

PULLED_MESSAGES: Final = 32


def read_messages(cluster: ClusterClient, ranges: Mapping[MessageQueue, QueueBounds]) -> Iterator[StoredMessage]:
    """Pull and yield the messages of ``ranges``, also undecodable ones, queue by queue in order; skip offsets that the
    broker has deleted. Raises TransportError, BrokerError, RouteError and RemoteProtocolError."""
    for queue in sorted(ranges, key=MessageQueue.sort_key):
        offset, end_offset = ranges[queue].min_offset, ranges[queue].max_offset
        while offset < end_offset:
            result = cluster.call(queue, partial(_pull, queue, offset))
            ends_within = result.next_begin_offset <= end_offset  # else some were stored later
            for one in decode_each(result.body, broker_name=queue.broker_name):
                # behind a made-up IPv6 flag stored offsets are larger than those of the queue
                if ends_within or message_of(one).queue_offset < end_offset:
                    yield one
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset


def _pull(queue: MessageQueue, offset: int, broker: Broker) -> PullResult:
    """Pull messages from ``offset`` on, as the group of RocketMQ's tools."""
    return broker.pull(TOOLS_GROUP, queue, offset, PULLED_MESSAGES)
