"""Scalar decoder of stored messages, one record after another, as a pull response has them; written for clarity.

``columns.py`` decodes the same bytes to Arrow, faster; it must equal this reference. One record::

      0 int32 total size      20 int64 queue offset        48 born host: IPv4 or IPv6, int32 port
      4 int32 magic           28 int64 commit log offset   .. int64 store timestamp
      8 int32 body CRC        36 int32 sysFlag             .. store host: IPv4 or IPv6, int32 port
     12 int32 queue id        40 int64 born timestamp      .. int32 reconsume times, int64 prepared offset
     16 int32 flag                                         .. int32 n, body
                        .. int8 n (V1) or int16 n (V2), topic
                        .. int16 n, properties

Source: ``common/message/MessageDecoder.java#decode``, ``client/impl/consumer/PullAPIWrapper.java#processPullResult``.
Differs: Java silently drops the rest of a pull after a damaged record, here it is an error; a record must have its
total size; port numbers are not checked.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from unicodedata import decimal

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.bounds import INNER_MESSAGES
from rocketmq_spark.wire.message.batch import ByteReader, InnerParts, split_batch
from rocketmq_spark.wire.message.compression import DECOMPRESSED_LIMIT_BYTES, Buffer, decompress
from rocketmq_spark.wire.message.properties import INNER_BASE, INNER_NUM, UNIQ_KEY, decode_properties, decode_utf8
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

IPV4_HOST_BYTES: Final = 8
IPV6_HOST_BYTES: Final = 20
_PORT: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")


def format_host(host: bytes) -> str:
    """Return a stored host (IP and int32 port, 8 or 20 bytes) as ``"ip:port"``, with IPv6 in brackets."""
    ip, (port,) = host[:-4], _PORT.unpack(host[-4:])
    return f"{IPv4Address(ip)}:{port}" if len(ip) == 4 else f"[{IPv6Address(ip)}]:{port}"


def offset_msg_id(store_host: bytes, commit_log_offset: int) -> str:
    """Return the offsetMsgId: store host (8 or 20 bytes, as stored) and commit log offset, in upper-case hex.

    Source: ``common/message/MessageDecoder.java#createMessageId``.
    """
    return (store_host + _OFFSET.pack(commit_log_offset)).hex().upper()


class MessageMagic(IntEnum):
    """Second number of a record. Source: ``common/message/MessageVersion.java``."""

    V1 = -626843481
    V2 = -626843477
    """The topic's length is an int16; used for topics of more than 127 bytes."""
    BLANK = -875286124
    """End of a commit log file, never a message."""


MIN_RECORD_BYTES: Final = 91
"""Size of a V1 record with IPv4 hosts and an empty body and topic, without properties."""

MAX_OFFSET: Final = 2**63 - 1
ANY_OFFSET: Final = range(-(2**63), 2**63)

ROW_BYTES: Final = 1_024
"""Memory of a decoded message without its body and properties."""

PROPERTY_BYTES: Final = 200
"""Memory of a decoded property without its text: two objects, and its share of a dictionary."""

_SIZE: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">iiiiiqqiq")
_STORE_TIMESTAMP: Final = struct.Struct(">q")
_TAIL: Final = struct.Struct(">iqi")
_TOPIC_LENGTH: Final = {MessageMagic.V1: struct.Struct(">b"), MessageMagic.V2: struct.Struct(">h")}
_PROPERTIES_LENGTH: Final = struct.Struct(">h")

_COUNT: Final = re.compile(r"\+?(\d+)")
"""Numbers >= 0 that Java's ``Short.parseShort`` accepts: decimal digits of any script."""
_SUPPLEMENTARY: Final = re.compile(r"[\U00010000-\U0010ffff]")
"""Characters that Java represents as two surrogates, which are not digits."""
_COUNT_DIGITS: Final = 5

_IPV6: Final = MessageSysFlag.BORNHOST_V6 | MessageSysFlag.STOREHOST_V6
_NO_IPV6: Final = MessageSysFlag(0)
_IPV6_MORE_BYTES: Final = IPV6_HOST_BYTES - IPV4_HOST_BYTES


def decode_messages(body: Buffer, *, broker_name: str) -> list[MessageExt]:
    """Decode all messages of a pull response body, in order, with decompressed bodies; an inner batch becomes its
    messages. All messages use up DECOMPRESSED_LIMIT_BYTES (``counted_bytes``). A decompressed or unwrapped record must
    fit into the rest.

    Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] for the first record that cannot be decoded or exceeds the
    limit. Its ``index`` counts records from 0, ``position`` is the begin of the record, ``length_bytes`` the size of
    ``body``.
    """
    messages: list[MessageExt] = []
    left_bytes = DECOMPRESSED_LIMIT_BYTES
    for index, position, record in split_records(body):
        try:
            found = decode_record(record, broker_name, left_bytes)
        except ValueError as problem:
            raise corrupt_message(index, position, len(body), problem) from problem
        messages += found
        left_bytes = max(0, left_bytes - sum(map(counted_bytes, found)))
    return messages


def check_layout(body: Buffer, *, broker_name: str) -> None:
    """Check the layout of all records of a pull response body, but decompress and unwrap none. False flags of IPv6
    hosts pass. Return nothing.

    Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] for the first record with a wrong layout, as
    ``decode_messages``.
    """
    for index, position, record in split_records(body):
        try:
            as_written(record, broker_name)
        except ValueError as problem:
            raise corrupt_message(index, position, len(body), problem) from problem


def split_records(body: Buffer) -> Iterator[tuple[int, int, memoryview]]:
    """Yield index, position and bytes of each record, as views. Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] on
    reaching an impossible size, after the records before were yielded."""
    data = memoryview(body)
    index = position = 0
    while position < len(data):
        try:
            record = data[position : position + _record_bytes(data[position:])]
        except ValueError as problem:
            raise corrupt_message(index, position, len(data), problem) from problem
        yield index, position, record
        index += 1
        position += len(record)


def decode_first(body: Buffer) -> MessageExt:
    """Decode the first record of a pull response body as its broker wrote it, see ``as_written``: body still
    compressed, broker name empty. Later records are not checked.

    Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] if it cannot be decoded, or ``body`` is empty.
    """
    data = memoryview(body)
    try:
        return as_written(data[: _record_bytes(data)], broker_name="")
    except ValueError as problem:
        raise corrupt_message(0, 0, len(data), problem) from problem


def first_queue_offset(body: Buffer) -> int | None:
    """Return the queue offset of the first record, or None if ``body`` is shorter than the smallest record."""
    offsets = first_offsets(body)
    return None if offsets is None else offsets[0]


def first_offsets(body: Buffer) -> tuple[int, int] | None:
    """Return the queue offset and the commit log offset of the first record, or None if ``body`` is shorter than the
    smallest record. Check nothing else."""
    data = memoryview(body)
    if len(data) < MIN_RECORD_BYTES:
        return None
    head = _HEAD.unpack_from(data)
    return int(head[5]), int(head[6])


def decode_record(
    record: memoryview,
    broker_name: str,
    limit_bytes: int,
    next_offset: int = MAX_OFFSET,
    decoded_offsets: range = ANY_OFFSET,
) -> list[MessageExt]:
    """Decode the messages of one record, with decompressed bodies. An inner batch has one message for each of its queue
    offsets. An inner batch of one offset without the flag NEED_UNWRAP is one message.

    ``next_offset``: at most the queue offset of the next record in the queue; MAX_OFFSET if unknown.
    ``decoded_offsets``: only these messages of an inner batch are decoded and returned, possibly none.

    Raises ValueError for a wrong layout, and for a decompressed body, or messages of an inner batch together
    (``counted_bytes``), of more than ``limit_bytes``. Also for an inner batch whose number of messages is not its
    number of queue offsets, or which has several offsets without NEED_UNWRAP.
    """
    message = _decompressed(as_stored(record, broker_name), limit_bytes)
    count = offset_count(message, next_offset)
    if not _has(message.sys_flag, MessageSysFlag.INNER_BATCH):
        return [message]
    if not _has(message.sys_flag, MessageSysFlag.NEED_UNWRAP):
        if count > 1:
            raise ValueError(f"it has {count} queue offsets, and no flag that its inner batch is to be unwrapped")
        return [message]
    inner = split_batch(message.body)
    if len(inner) != count:
        raise ValueError(f"its inner batch has {len(inner)} messages where the broker gave it {count} queue offsets")
    found: list[MessageExt] = []
    left_bytes = limit_bytes
    for number, part in enumerate(inner):
        if message.queue_offset + number in decoded_offsets:
            found.append(_unwrap(message, number, part))
            left_bytes -= counted_bytes(found[-1])
            if left_bytes < 0 and len(found) > 1:
                raise ValueError(f"the messages of its inner batch take more than the {limit_bytes} bytes allowed")
    return found


def counted_bytes(message: MessageExt) -> int:
    """Return how many bytes of a limit of decompressed bytes a message uses: the size of its body. A message of an
    inner batch also uses ROW_BYTES, and for each property PROPERTY_BYTES and its text. A few compressed bytes may
    expand to 32,767 rows, or to thousands of properties."""
    if not _has(message.sys_flag, MessageSysFlag.INNER_BATCH):
        return len(message.body)
    text = sum(PROPERTY_BYTES + len(name) + len(value) for name, value in message.properties.items())
    return ROW_BYTES + len(message.body) + text


def offset_count(message: MessageExt, next_offset: int = MAX_OFFSET) -> int:
    """Return the number of queue offsets that the broker assigned to a record: 1, except for an inner batch (sysFlag
    INNER_BATCH) in a batch consume queue.

    Such a broker assigns INNER_NUM offsets to an inner batch, and adds the first one as INNER_BASE. For a broker
    without such queues, a producer may set both properties itself. So INNER_NUM counts only if INNER_BASE is the
    record's own offset, INNER_NUM is at most 32,767 (INNER_MESSAGES), and all offsets are less than ``next_offset``
    (see ``decode_record``). Source: ``store/CommitLog.java#getMessageNum``,
    ``store/queue/BatchConsumeQueue.java#assignQueueOffset``.
    """
    properties = message.properties
    is_of_broker = properties.get(INNER_BASE) == str(message.queue_offset)
    if not (is_of_broker and _has(message.sys_flag, MessageSysFlag.INNER_BATCH)):
        return 1
    count = max(1, _count_of(properties.get(INNER_NUM, "")))
    end_offset = next_offset if next_offset < MAX_OFFSET else MAX_OFFSET + 1
    return count if count <= min(INNER_MESSAGES.maximum, end_offset - message.queue_offset) else 1


def _count_of(text: str) -> int:
    """Return the number in ``text`` as Java's ``Short.parseShort`` reads it, but up to 99,999; 0 for a negative, larger
    or invalid one."""
    found = _COUNT.fullmatch(text)
    if found is None or _SUPPLEMENTARY.search(text):
        return 0
    digits = found[1] if text.isascii() else "".join(str(decimal(digit)) for digit in found[1])
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _COUNT_DIGITS else 0


def corrupt_message(index: int, position: int, length_bytes: int, problem: ValueError) -> RemoteProtocolError:
    """Build the error for record ``index`` at ``position`` of a body of ``length_bytes``; do not raise it."""
    return RemoteProtocolError(
        "CORRUPT_MESSAGE.RESPONSE", index=index, position=position, length_bytes=length_bytes, problem=str(problem)
    )


def _has(sys_flag: int, bits: MessageSysFlag) -> bool:
    """Return whether ``sys_flag`` has at least one of ``bits``."""
    return sys_flag & bits.value != 0


def _record_bytes(remaining: memoryview) -> int:
    """Return the size that the first record in ``remaining`` declares. Raises ValueError if it is less than the minimum
    or larger than ``remaining``, or if ``remaining`` is too short for a record."""
    if len(remaining) < MIN_RECORD_BYTES:
        raise ValueError(f"only {len(remaining)} bytes are left")
    (total_bytes,) = _SIZE.unpack_from(remaining)
    if not MIN_RECORD_BYTES <= total_bytes <= len(remaining):
        raise ValueError(f"it declares {total_bytes} bytes where {len(remaining)} are left")
    return int(total_bytes)


def as_written(record: memoryview, broker_name: str) -> MessageExt:
    """Decode one record, of at least MIN_RECORD_BYTES, as its broker wrote it. It differs from ``as_stored`` for a
    record with false flags of IPv6 hosts, which is decoded with IPv4 hosts.

    A producer with an IPv4 host may set these flags. The broker then allocates space for IPv6 hosts and writes IPv4
    hosts, so that surplus bytes follow the properties. It delivers such a record only if the lengths, read by the
    flags, are possible.

    Raises ValueError as ``as_stored``. Source: ``store/MessageExtEncoder.java#encode``.
    """
    if _has(_HEAD.unpack_from(record)[7], _IPV6):
        with suppress(ValueError):
            message, remaining_bytes = _decoded(record, broker_name, _NO_IPV6)
            flags = (MessageSysFlag.BORNHOST_V6, MessageSysFlag.STOREHOST_V6)
            if remaining_bytes == _IPV6_MORE_BYTES * sum(_has(message.sys_flag, flag) for flag in flags):
                return message
    return as_stored(record, broker_name)


def as_stored(record: memoryview, broker_name: str) -> MessageExt:
    """Decode one record, but leave its body and sysFlag as stored: possibly compressed, possibly an inner batch.

    Raises ValueError where lengths, magic or layout are wrong, or if bytes follow the properties.
    """
    message, remaining_bytes = _decoded(record, broker_name, _IPV6)
    if remaining_bytes:
        raise ValueError(f"{remaining_bytes} bytes follow its properties")
    return message


def _decoded(record: memoryview, broker_name: str, host_flags: MessageSysFlag) -> tuple[MessageExt, int]:
    """Decode a record, with its body as stored; return the message and the number of bytes after its properties. Of the
    sysFlags of IPv6 hosts only those in ``host_flags`` apply. Raises ValueError where lengths or magic are wrong."""
    reader = ByteReader(record)
    _, magic, body_crc, queue_id, flag, queue_offset, commit_log_offset, sys_flag, born_timestamp_ms = reader.unpack(
        _HEAD, "head"
    )
    topic_length = _topic_length(magic)
    born_host = _read_host(reader, _has(sys_flag & host_flags, MessageSysFlag.BORNHOST_V6))
    (store_timestamp_ms,) = reader.unpack(_STORE_TIMESTAMP, "store timestamp")
    store_host = _read_host(reader, _has(sys_flag & host_flags, MessageSysFlag.STOREHOST_V6))
    reconsume_times, prepared_transaction_offset, body_bytes = reader.unpack(_TAIL, "tail")
    body = reader.read(body_bytes, "body")
    topic = decode_utf8(_read_sized(reader, topic_length, "topic"))
    properties = decode_properties(_read_sized(reader, _PROPERTIES_LENGTH, "properties"))
    place_id = offset_msg_id(store_host, commit_log_offset)
    message = MessageExt(
        topic=topic,
        broker_name=broker_name,
        queue_id=queue_id,
        queue_offset=queue_offset,
        msg_id=properties.get(UNIQ_KEY, place_id),
        offset_msg_id=place_id,
        body=body,
        properties=properties,
        born_timestamp_ms=born_timestamp_ms,
        store_timestamp_ms=store_timestamp_ms,
        born_host=format_host(born_host),
        store_host=format_host(store_host),
        reconsume_times=reconsume_times,
        commit_log_offset=commit_log_offset,
        sys_flag=sys_flag,
        flag=flag,
        body_crc=body_crc,
        prepared_transaction_offset=prepared_transaction_offset,
    )
    return message, reader.remaining_bytes


def _topic_length(magic: int) -> struct.Struct:
    """Return the layout of the topic's length in a record with number ``magic``. Raises ValueError unless it is V1 or
    V2."""
    if magic == MessageMagic.BLANK:
        raise ValueError("it is the blank end of a commit log file")
    if magic not in _TOPIC_LENGTH:
        raise ValueError(f"its magic number {magic} is unknown")
    return _TOPIC_LENGTH[MessageMagic(magic)]


def _read_host(reader: ByteReader, is_ipv6: bool) -> bytes:
    """Return the next host, 20 bytes if ``is_ipv6``, else 8, and advance. Raises ValueError if too few remain."""
    return reader.read(IPV6_HOST_BYTES if is_ipv6 else IPV4_HOST_BYTES, "host")


def _read_sized(reader: ByteReader, length: struct.Struct, field: str) -> bytes:
    """Read a number of layout ``length``; return that many bytes after it, and advance. Raises ValueError, which names
    ``field``, if too few remain or the number is negative."""
    (length_bytes,) = reader.unpack(length, f"length of the {field}")
    return reader.read(length_bytes, field)


def _decompressed(message: MessageExt, limit_bytes: int) -> MessageExt:
    """Return a copy of the message with its plain body and without the sysFlag COMPRESSED; the type bits stay, as in
    Java. Return an uncompressed message, and one with an empty body, unchanged. Raises ValueError as ``decompress``
    does."""
    if not message.body or not _has(message.sys_flag, MessageSysFlag.COMPRESSED):
        return message
    body = decompress(message.body, message.sys_flag, limit_bytes)
    return replace(message, body=body, sys_flag=message.sys_flag & ~MessageSysFlag.COMPRESSED.value)


def _unwrap(batch: MessageExt, number: int, inner: InnerParts) -> MessageExt:
    """Return message ``number``, from 0, of an inner batch, with parts ``inner`` of its own. Source:
    ``common/message/MessageDecoder.java#decodeMessage``.

    It has the batch's topic, times, hosts, sysFlag, commit log offset and offsetMsgId. Java leaves the offsetMsgId
    unset. Reconsume times, body CRC and prepared transaction offset, which Java leaves unset too, are 0.
    """
    properties = decode_properties(inner.properties)
    return replace(
        batch,
        queue_offset=batch.queue_offset + number,
        msg_id=properties.get(UNIQ_KEY, batch.offset_msg_id),
        body=inner.body,
        properties=properties,
        flag=inner.flag,
        reconsume_times=0,
        body_crc=0,
        prepared_transaction_offset=0,
    )
