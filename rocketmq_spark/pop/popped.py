"""Popped: what brokers answer to a pop, and are told of it, by the handles of its messages.

Source: ``client/impl/MQClientAPIImpl.java#processPopResponse``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.pop.handles import ORDINARY, CheckPoint, Handle, Received, by_check_point
from rocketmq_spark.wire.body.batch_ack import BatchAck
from rocketmq_spark.wire.message.properties import POP_CK
from rocketmq_spark.wire.message.stored_message import as_stored, split_records
from rocketmq_spark.wire.remoting.headers import PopMessageResponse

_QUEUE_AND_OFFSET: Final = struct.Struct(">12xi4xq")


def received_of(topic: str, broker_name: str, header: PopMessageResponse, body: memoryview) -> list[Received]:
    """The messages of an answer. Raises RemoteProtocolError[BAD_HEADER | CORRUPT_MESSAGE]."""
    starts = _starts(header)
    records = [record for _, _, record in split_records(body)]
    if all(retry == ORDINARY for retry, _ in starts):
        return [Received(_ordinary(topic, broker_name, header, starts, record), record) for record in records]
    return [Received(_of_any(topic, broker_name, header, starts, record), record) for record in records]


def _ordinary(
    topic: str, broker_name: str, header: PopMessageResponse, starts: Mapping[tuple[str, int], int], record: memoryview
) -> Handle:
    queue_id, offset = _QUEUE_AND_OFFSET.unpack_from(record)
    if (ORDINARY, queue_id) not in starts:
        raise _bad_header(f"a message of queue {queue_id} came, and startOffsetInfo is {header.start_offsets!r}")
    start = starts[ORDINARY, queue_id]
    times = header.pop_time_ms, header.invisible_ms, header.revive_queue_id
    try:
        return Handle.of(CheckPoint(topic, start, *times, ORDINARY, broker_name, queue_id), offset)
    except ValueError as problem:
        raise _bad_header(f"startOffsetInfo is {header.start_offsets!r}: {problem}") from problem


def _of_any(
    topic: str, broker_name: str, header: PopMessageResponse, starts: Mapping[tuple[str, int], int], record: memoryview
) -> Handle:
    """Of a message from a retry topic, which has the topic that was asked for and its handle as a property, or not."""
    try:
        extra_info = as_stored(record, broker_name).properties.get(POP_CK)
        if extra_info is not None:
            return Handle.parse(topic, extra_info)
    except ValueError as problem:
        raise _bad_header(f"a message that was popped cannot be told: {problem}") from problem
    return _ordinary(topic, broker_name, header, starts, record)


def _starts(header: PopMessageResponse) -> dict[tuple[str, int], int]:
    """By retry flag and queue id."""
    try:
        entries = [entry.split(" ") for entry in (header.start_offsets or "").split(";") if entry]
        return {(retry, int(queue_id)): int(offset) for retry, queue_id, offset in entries}
    except ValueError as problem:
        raise _bad_header(f"startOffsetInfo is {header.start_offsets!r}") from problem


def _bad_header(problem: str) -> RemoteProtocolError:
    return RemoteProtocolError("BAD_HEADER", subject="PopMessageResponse", problem=problem)


def acks_of(group: str, handles: Iterable[Handle]) -> list[BatchAck]:
    """What says that these messages are done."""
    return [
        BatchAck(
            group=group,
            topic=one.topic,
            retry=one.retry,
            start_offset=one.start_offset,
            queue_id=one.queue_id,
            revive_queue_id=one.revive_queue_id,
            pop_time_ms=one.pop_time_ms,
            invisible_ms=one.invisible_ms,
            offsets=offsets,
        )
        for one, offsets in by_check_point(handles).items()
    ]
