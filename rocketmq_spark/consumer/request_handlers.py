"""Responses of a member to brokers' requests on behalf of operators' tools. Pure: from a view of the member to bytes.

Source: ``client/impl/ClientRemotingProcessor.java``. Requests that are missing in ``REQUEST_HANDLERS`` are not
supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.groups import ConsumerData
from rocketmq_spark.wire.body.running_info import (
    PROP_CLIENT_VERSION,
    PROP_CONSUME_TYPE,
    PROP_CONSUMER_START_TIMESTAMP,
    PROP_NAMESERVER_ADDR,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    encode_consumer_running_info,
    encode_consumer_status,
)
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION, RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import GetConsumerStatusRequest

NOTHING_CACHED: Final = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class MemberView:
    """State that a member reports. ``positions``: next offset to read of each owned queue."""

    consumer: ConsumerData
    name_servers: tuple[str, ...]
    started_ms: int
    process_queues: Mapping[MessageQueue, ProcessQueueInfo]
    positions: Mapping[MessageQueue, int]
    consumer_settings: Mapping[str, str]


def handle_request(request: RemotingCommand, view: MemberView) -> RemotingCommand | None:
    """Return the response to a broker's request, or None if it is not supported. Raises RemoteProtocolError for an
    invalid header."""
    handler = REQUEST_HANDLERS.get(request.code)
    return None if handler is None else handler(request, view)


def process_queue_info(process_queue: ProcessQueue, position: int, locked_ms: int | None) -> ProcessQueueInfo:
    """Return the state of a queue for operators' tools. It has the offset to commit next, or ``position`` before the
    first range; first, last and number of offsets in flight, 0 if nothing is in flight; dropped or not; and the lock.
    ``locked_ms``: time of the last granted lock request, None without a lock."""
    in_flight = process_queue.in_flight
    committable = process_queue.committable
    return ProcessQueueInfo(
        position if committable is None else committable,
        *(_cached(in_flight) if in_flight else NOTHING_CACHED),
        is_dropped=process_queue.dropped,
        is_locked=locked_ms is not None,
        last_lock_timestamp_ms=locked_ms or 0,
    )


def _cached(in_flight: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """Return the first offset, the last offset, and the number of offsets of ``in_flight``: half-open ranges,
    ascending, at least one."""
    return (
        in_flight[0][0],
        in_flight[-1][1] - 1,
        sum(end_offset - begin_offset for begin_offset, end_offset in in_flight),
    )


def _running_info(_request: RemotingCommand, view: MemberView) -> RemotingCommand:
    """Return the response with the member's settings, subscriptions and process queues."""
    info = ConsumerRunningInfo(
        properties={
            PROP_NAMESERVER_ADDR: ";".join(view.name_servers),
            PROP_CONSUME_TYPE: view.consumer.consume_type,
            **view.consumer_settings,
            PROP_CLIENT_VERSION: str(CLIENT_VERSION),
            PROP_CONSUMER_START_TIMESTAMP: str(view.started_ms),
        },
        subscriptions=view.consumer.subscriptions,
        process_queues=view.process_queues,
    )
    return RemotingCommand(ResponseCode.SUCCESS, body=encode_consumer_running_info(info))


def _consumer_status(request: RemotingCommand, view: MemberView) -> RemotingCommand:
    """Return the response with the next offset to read of each queue of the requested topic. Raises RemoteProtocolError
    for an invalid header."""
    topic = GetConsumerStatusRequest.from_fields(request.fields).topic
    positions = {queue: offset for queue, offset in view.positions.items() if queue.topic == topic}
    return RemotingCommand(ResponseCode.SUCCESS, body=encode_consumer_status(positions))


REQUEST_HANDLERS: Final[Mapping[int, Callable[[RemotingCommand, MemberView], RemotingCommand]]] = MappingProxyType(
    {
        RequestCode.GET_CONSUMER_RUNNING_INFO: _running_info,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: _consumer_status,
    }
)
