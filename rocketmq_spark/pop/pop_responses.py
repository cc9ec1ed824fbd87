"""Popped: what brokers answer to a pop, and are told of it, by the handles of its messages.

A handle comes from the answer's header alone. Brokers add it to what is redelivered as a property too, ``POP_CK``, and
keep the value that a producer has written there; Java's client takes that for the handle.

Source: ``broker/processor/PopMessageProcessor.java#popMsgFromQueue``,
``client/impl/MQClientAPIImpl.java#processPopResponse``, from which it differs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.pop.receipt_handles import (
    NORMAL_TOPIC,
    BrokerHandle,
    PopCheckPoint,
    ReceivedMessage,
    group_by_check_point,
)
from rocketmq_spark.wire.body.batch_ack import BatchAck
from rocketmq_spark.wire.message.properties import POP_CK
from rocketmq_spark.wire.message.stored_message import as_stored, split_records
from rocketmq_spark.wire.remoting.headers import PopMessageResponse

_QUEUE_AND_OFFSET: Final = struct.Struct(">12xi4xq")


def decode_pop_response(
    topic: str, broker_name: str, header: PopMessageResponse, body: memoryview
) -> list[ReceivedMessage]:
    """The messages of an answer. Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER | CORRUPT_MESSAGE.RESPONSE]."""
    records = [record for _, _, record in split_records(body)]
    handles_in_header = _decode_handles(topic, broker_name, header)
    if len(handles_in_header) != len(records):
        handles_in_header = _match_handles(handles_in_header, records)
    for handle, record in zip(handles_in_header, records, strict=True):
        if not _is_at(handle, record):
            queue_id, offset = _QUEUE_AND_OFFSET.unpack_from(record)
            matched = f"a message of queue {queue_id} came with offset {offset}"
            raise _invalid_header(f"{matched}, and msgOffsetInfo is {header.message_offsets!r}")
    return list(map(ReceivedMessage, handles_in_header, records))


def _decode_handles(topic: str, broker_name: str, header: PopMessageResponse) -> list[BrokerHandle]:
    """Of all messages that the broker has found, in the order of the body."""
    times = tuple(map(str, (header.pop_time_ms, header.invisible_ms, header.revive_queue_id)))
    handles: list[BrokerHandle] = []
    try:
        starts, found = _entries(header.start_offsets), _entries(header.message_offsets)
        for (retry, queue_id, start), (*same_queue, offsets) in zip(starts, found, strict=True):
            if same_queue != [retry, queue_id]:
                raise ValueError("two orders")
            pop_check_point = PopCheckPoint.parse(topic, (start, *times, retry, broker_name, queue_id))
            handles += [BrokerHandle.of(pop_check_point, int(offset)) for offset in offsets.split(",")]
    except ValueError as problem:
        header_text = f"startOffsetInfo is {header.start_offsets!r}, msgOffsetInfo is {header.message_offsets!r}"
        raise _invalid_header(f"{header_text}: {problem}") from problem
    return handles


def _entries(header_text: str | None) -> list[list[str]]:
    return [entry.split(" ") for entry in (header_text or "").split(";") if entry]


def _is_at(handle: BrokerHandle, record: memoryview) -> bool:
    """A broker delivers nobody what it cannot read of an IPv6 host; what is behind that is stored for a later place."""
    queue_id, offset = _QUEUE_AND_OFFSET.unpack_from(record)
    return bool(queue_id == handle.pop_check_point.queue_id and offset >= handle.offset)


def _is_exactly_at(handle: BrokerHandle, record: memoryview) -> bool:
    return _QUEUE_AND_OFFSET.unpack_from(record) == (handle.pop_check_point.queue_id, handle.offset)


def _match_handles(handles_in_header: Sequence[BrokerHandle], records: Sequence[memoryview]) -> list[BrokerHandle]:
    """A broker leaves out of the body what it could not rewrite of a retry topic. All of the topic itself are there, so
    which are left out is known by what follows them. Raises what ``decode_pop_response`` does."""
    found: list[list[BrokerHandle] | None] = [
        *[None] * len(records),
        [],
    ]  # of the records from each on, so far by no handle
    for handle in reversed(handles_in_header):
        is_there = handle.pop_check_point.retry == NORMAL_TOPIC
        for index, record in enumerate(records):
            behind = found[index + 1]
            if behind is not None and _may_match(handle, record):
                found[index] = [handle, *behind]
            elif is_there:
                found[index] = None
        if is_there:
            found[-1] = None
    if found[0] is None:
        matched = ", ".join("{} {}".format(*_QUEUE_AND_OFFSET.unpack_from(record)) for record in records)
        header_text = ";".join(
            f"{one.pop_check_point.retry} {one.pop_check_point.queue_id} {one.offset}" for one in handles_in_header
        )
        raise _invalid_header(
            f"{len(records)} messages came, {matched}, that are not those of msgOffsetInfo {header_text}"
        )
    return found[0]


def _may_match(handle: BrokerHandle, record: memoryview) -> bool:
    """Whatever is rewritten has a property POP_CK; so may what is of the topic itself, which its producer wrote."""
    if handle.pop_check_point.retry == NORMAL_TOPIC:
        return _is_at(handle, record)
    if not _is_exactly_at(handle, record):
        return False
    try:
        return POP_CK in as_stored(record, handle.broker_name).properties
    except ValueError as problem:
        raise _invalid_header(f"a message that was popped cannot be told: {problem}") from problem


def _invalid_header(problem: str) -> RemoteProtocolError:
    return RemoteProtocolError("MALFORMED_RESPONSE.HEADER", subject="PopMessageResponse", problem=problem)


def batch_acks_of(group: str, handles: Iterable[BrokerHandle]) -> list[BatchAck]:
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
        for one, offsets in group_by_check_point(handles).items()
    ]
