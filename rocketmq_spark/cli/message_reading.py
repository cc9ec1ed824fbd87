"""Reading messages of a topic for a command, as no member of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from rocketmq_spark.cli.message_lines import StoredMessage, message_of
from rocketmq_spark.model import TOOLS_GROUP, MessageQueue, QueueBounds
from rocketmq_spark.pull.pull_request import PullAction, pull_action
from rocketmq_spark.pull.vacancies import VacancySearch
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.wire.arrow.record_index import DamagedRecordError, frame_records
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage, decode_each
from rocketmq_spark.wire.message.compression import Buffer
from rocketmq_spark.wire.remoting.pull import PullResult

PULLED_MESSAGES: Final = 32


def read_messages(cluster: ClusterClient, ranges: Mapping[MessageQueue, QueueBounds]) -> Iterator[StoredMessage]:
    """Pull and yield the messages of ``ranges``, also undecodable ones, queue by queue in order, with their offsets in
    the queue. Skip deleted messages and offsets that no message ever had; end a queue early if a response does not
    advance. Raises TransportError, BrokerError, RouteError and RemoteProtocolError."""
    for queue in sorted(ranges, key=MessageQueue.sort_key):
        offset, end_offset = ranges[queue].min_offset, ranges[queue].max_offset
        while offset < end_offset:
            result = cluster.call(queue, partial(_pull, queue, offset, min(PULLED_MESSAGES, end_offset - offset)))
            if pull_action(result, offset) is PullAction.VACANT:
                offset = _vacancy_end(cluster, queue, QueueBounds(offset, end_offset), result.next_begin_offset)
                continue
            ends_within = result.next_begin_offset <= end_offset  # else the last one is a batch that reaches further
            for one in decode_each(*_with_queue_offsets(result, offset), broker_name=queue.broker_name):
                # where offsets cannot be counted, stored ones may be larger
                is_before_end = ends_within or message_of(one).queue_offset < end_offset
                # a batch consume queue returns the message before offsets without one too
                if is_before_end and end_offset_of(one) > offset:
                    yield one
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset


def _with_queue_offsets(result: PullResult, offset: int) -> tuple[Buffer, list[int]]:
    """Return the body of a pull at ``offset``, and the upper limits of its records' offsets: see ``frame_records``. In
    the body, offsets in the queue replace stored ones that are larger, as behind made-up IPv6 flags. A body with a
    wrong size or magic number is returned unchanged, without limits."""
    try:
        frames = frame_records([result.body], [(offset, result.next_begin_offset)], is_unfiltered=True)
    except DamagedRecordError:
        return result.body, []
    return frames.data, frames.next_offsets.tolist()


def end_offset_of(stored: StoredMessage) -> int:
    """Return the offset after the message's last one."""
    return stored.offsets.stop if isinstance(stored, UndecodableMessage) else stored.queue_offset + 1


def _vacancy_end(cluster: ClusterClient, queue: MessageQueue, rest: QueueBounds, vacant_from: int) -> int:
    """Return the end, at most that of ``rest``, of the vacancy that begins at ``vacant_from``. A vacancy is consecutive
    offsets without a message; this one has the first offset of ``rest``. Send the pulls of ``VacancySearch``. Raises
    what ``read_messages`` does."""
    search = VacancySearch(rest.min_offset, rest.max_offset)
    while (offset := search.next_probe) is not None:
        result = cluster.call(queue, partial(_pull, queue, offset, PULLED_MESSAGES))
        is_vacant = pull_action(result, offset) is PullAction.VACANT and result.next_begin_offset == vacant_from
        search.record(offset, is_vacant=is_vacant)
    return search.end_offset


def _pull(queue: MessageQueue, offset: int, max_messages: int, broker: Broker) -> PullResult:
    """Pull up to ``max_messages`` messages from ``offset`` on, as the group of RocketMQ's tools, and wait."""
    return broker.pull(TOOLS_GROUP, queue, offset, max_messages)
