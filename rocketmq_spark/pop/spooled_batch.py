"""The file format of a spooled batch: its messages in order, as received, with their handles.

    "rocketmq-spark batch 1\\n" | of each message: topic, broker, handle, format, record | CRC-32 of all before

Each of the five fields follows its length in 4 bytes. Numbers are in network byte order. A handle has the text of
requests; UNVERIFIED, if a producer may have written it: such a text may be that of a broker's handle.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import Final

from rocketmq_spark.pop.proxied_handles import UNVERIFIED
from rocketmq_spark.pop.receipt_handles import (
    OpaqueHandle,
    ReceiptHandle,
    ReceivedMessage,
    RecordFormat,
    handle_of,
    is_unverified,
)

MAGIC: Final = b"rocketmq-spark batch 1\n"
_FIELDS: Final = 5
_NUMBER: Final = struct.Struct(">I")


def encode_spooled_batch(messages: Iterable[ReceivedMessage]) -> bytes:
    """Return the content of the file of a batch, for ``decode_spooled_batch``, with UNVERIFIED in place of each handle
    for which ``is_unverified`` returns True."""
    content = b"".join([MAGIC, *_fields(messages)])
    return content + _NUMBER.pack(zlib.crc32(content))


def decode_spooled_batch(content: bytes) -> tuple[ReceivedMessage, ...]:
    """Return the messages of a file's content, in order; their records are views of ``content``. Raises ValueError for
    an incomplete or damaged batch, or one of another version."""
    if not content.startswith(MAGIC):
        raise ValueError(f"it begins with {content[: len(MAGIC)]!r}")
    end = len(content) - _NUMBER.size
    if end < len(MAGIC) or _NUMBER.unpack_from(content, end) != (zlib.crc32(content[:end]),):
        raise ValueError("it is damaged, or was not written to its end")
    fields = list(_split(memoryview(content)[len(MAGIC) : end]))
    return tuple(starmap(_message, zip(*(fields[position::_FIELDS] for position in range(_FIELDS)), strict=True)))


def _message(
    topic: memoryview, broker_name: memoryview, handle: memoryview, record_format: memoryview, record: memoryview
) -> ReceivedMessage:
    """Return the message of its five fields. Raises ValueError for text that is not UTF-8 and an unknown format."""
    receipt_handle = _handle(*(str(text, "utf-8") for text in (topic, broker_name, handle)))
    return ReceivedMessage(receipt_handle, record, RecordFormat(str(record_format, "utf-8")))


def _handle(topic: str, broker_name: str, text: str) -> ReceiptHandle:
    """Return the handle with exactly ``text``. A broker's format without a proxy's commit log offset gives a
    BrokerHandle, any other an OpaqueHandle."""
    handle = handle_of(topic, broker_name, text)
    return handle if handle.text == text else OpaqueHandle(topic, broker_name, text)


def _fields(messages: Iterable[ReceivedMessage]) -> Iterator[bytes | memoryview]:
    """Yield, message after message, the encoded length of each field, then the field."""
    for handle, record, record_format in messages:
        handle_text = UNVERIFIED if is_unverified(handle) else handle.text
        texts = (handle.topic, handle.broker_name, handle_text, record_format.value)
        fields: tuple[bytes | memoryview, ...] = (*(text.encode() for text in texts), record)
        for field in fields:
            yield _NUMBER.pack(len(field))
            yield field


def _split(content: memoryview) -> Iterator[memoryview]:
    """Yield the fields of ``content`` without their lengths, as views. Raises ValueError if it ends within one."""
    position = 0
    while position < len(content):
        begin = position + _NUMBER.size
        position = begin + int.from_bytes(content[position:begin], "big")
        if position > len(content):
            raise ValueError("it ends within a field")
        yield content[begin:position]
