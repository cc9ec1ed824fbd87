"""Decoding of POP responses, and the acknowledgements of their messages by receipt handle.

Handles come from the response header alone. Brokers also add them to redelivered messages, as the property ``POP_CK``,
but keep a value that the producer has set there; Java's client uses that value as the handle.

Source: ``broker/processor/PopMessageProcessor.java#popMsgFromQueue``,
``client/impl/MQClientAPIImpl.java#processPopResponse``, from which it differs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Final

from rocketmq_spark.condition import cut
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.pop.receipt_handles import (
    NORMAL_TOPIC,
    BrokerHandle,
    PopCheckPoint,
    ReceivedMessage,
    group_by_check_point,
)
from rocketmq_spark.wire.body.batch_ack import BatchAck
from rocketmq_spark.wire.bounds import POP_MESSAGES
from rocketmq_spark.wire.message.properties import POP_CK
from rocketmq_spark.wire.message.stored_message import as_stored, split_records
from rocketmq_spark.wire.remoting.headers import PopMessageResponse

_QUEUE_AND_OFFSET: Final = struct.Struct(">12xi4xq")


def decode_pop_response(
    topic: str, broker_name: str, header: PopMessageResponse, body: memoryview
) -> list[ReceivedMessage]:
    """Return the messages of ``body``, in its order, each with its handle from ``header``. The header may list further
    messages of retry topics. Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER] for an invalid header, and for a
    message without a handle; RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] if ``body`` cannot be split."""
    records = [record for _, _, record in split_records(body)]
    handles_in_header = _decode_handles(topic, broker_name, header)
    if len(records) > len(handles_in_header):
        raise _invalid_header(f"{len(records)} messages came, and msgOffsetInfo is {cut(repr(header.message_offsets))}")
    if len(handles_in_header) != len(records):
        handles_in_header = _match_handles(handles_in_header, records)
    for handle, record in zip(handles_in_header, records, strict=True):
        if not _is_at(handle, record):
            queue_id, offset = _QUEUE_AND_OFFSET.unpack_from(record)
            matched = f"a message of queue {queue_id} came with offset {offset}"
            raise _invalid_header(f"{matched}, and msgOffsetInfo is {cut(repr(header.message_offsets))}")
    return list(map(ReceivedMessage, handles_in_header, records))


def _decode_handles(topic: str, broker_name: str, header: PopMessageResponse) -> list[BrokerHandle]:
    """Return the handles of all messages that the header lists, in its order. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.HEADER] if it cannot be decoded, or lists more messages than POP_MESSAGES
    (1,024) allows."""
    times = tuple(map(str, (header.pop_time_ms, header.invisible_ms, header.revive_queue_id)))
    handles: list[BrokerHandle] = []
    try:
        for text in (header.start_offsets, header.message_offsets):
            POP_MESSAGES.check(1 + (text or "").count(";") + (text or "").count(","))
        starts, found = _entries(header.start_offsets), _entries(header.message_offsets)
        for (retry, queue_id, start), (*same_queue, offsets) in zip(starts, found, strict=True):
            if same_queue != [retry, queue_id]:
                raise ValueError("two orders")
            pop_check_point = PopCheckPoint.parse(topic, (start, *times, retry, broker_name, queue_id))
            handles += [BrokerHandle.of(pop_check_point, int(offset)) for offset in offsets.split(",")]
    except ValueError as problem:
        starts_text, found_text = cut(repr(header.start_offsets)), cut(repr(header.message_offsets))
        header_text = f"startOffsetInfo is {starts_text}, msgOffsetInfo is {found_text}"
        raise _invalid_header(f"{header_text}: {problem}") from problem
    return handles


def _entries(header_text: str | None) -> list[list[str]]:
    """Return the words of each entry of ``word word;word word``, without empty entries; [] for None."""
    return [entry.split(" ") for entry in (header_text or "").split(";") if entry]


def _is_at(handle: BrokerHandle, record: memoryview) -> bool:
    """Return whether a record may belong to a handle: it has the same queue ID, and the same or a larger offset. It has
    a larger one if the broker does not deliver earlier messages, because it cannot decode their IPv6 hosts."""
    queue_id, offset = _QUEUE_AND_OFFSET.unpack_from(record)
    return bool(queue_id == handle.pop_check_point.queue_id and offset >= handle.offset)


def _is_exactly_at(handle: BrokerHandle, record: memoryview) -> bool:
    """Return whether a record has the queue ID and the offset of a handle."""
    return _QUEUE_AND_OFFSET.unpack_from(record) == (handle.pop_check_point.queue_id, handle.offset)


def _match_handles(handles_in_header: Sequence[BrokerHandle], records: Sequence[memoryview]) -> list[BrokerHandle]:
    """Return a handle for each record, if the header lists more handles: in order, the earliest ones that match
    (``_may_match``). Only handles of retry topics may be left over: a broker omits a message that it could not rewrite
    for the topic. Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER] if no match is possible, or if the properties
    of a record, read at most once, cannot be decoded."""
    is_rewritten = cache(lambda index: _is_rewritten(records[index]))
    found: list[list[BrokerHandle] | None] = [
        *[None] * len(records),
        [],
    ]  # entry i: handles of the records from i on, None if they do not match
    for handle in reversed(handles_in_header):
        is_there = handle.pop_check_point.retry == NORMAL_TOPIC
        for index, record in enumerate(records):
            behind = found[index + 1]
            if behind is not None and _may_match(handle, record, partial(is_rewritten, index)):
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
            f"{len(records)} messages came, {cut(matched)}, that are not those of msgOffsetInfo {cut(header_text)}"
        )
    return found[0]


def _may_match(handle: BrokerHandle, record: memoryview, is_rewritten: Callable[[], bool]) -> bool:
    """Return whether a record may belong to a handle. With a handle of the topic, it must have the handle's queue ID
    and its offset or a larger one (``_is_at``). With one of the retry topic, it must have the same queue ID and offset,
    and ``is_rewritten()`` must return True."""
    if handle.pop_check_point.retry == NORMAL_TOPIC:
        return _is_at(handle, record)
    return _is_exactly_at(handle, record) and is_rewritten()


def _is_rewritten(record: memoryview) -> bool:
    """Return whether a record has the property ``POP_CK``. A broker adds it when it rewrites a message of a retry
    topic; a producer may set it, too. Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER] if the properties cannot be
    decoded."""
    try:
        return POP_CK in as_stored(record, "").properties
    except ValueError as problem:
        raise _invalid_header(f"the properties of a popped message cannot be decoded: {problem}") from problem


def _invalid_header(problem: str) -> RemoteProtocolError:
    return RemoteProtocolError("MALFORMED_RESPONSE.HEADER", subject="PopMessageResponse", problem=problem)


def batch_acks_of(group: str, handles: Iterable[BrokerHandle]) -> list[BatchAck]:
    """Return the acknowledgements of these messages, one for each check point (queue and response) with the offsets of
    its messages; send nothing."""
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
