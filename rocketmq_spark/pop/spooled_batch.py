"""A batch as it is kept on a disk: its messages in their order, as they came, and what each is acknowledged by.

    "rocketmq-spark batch 1\\n" | of each message: topic, broker, handle, form, record | CRC-32 of all that

each of the five with its length in 4 bytes before it, numbers in network order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import Final

from rocketmq_spark.pop.handles import Form, Received, handle_of

TITLE: Final = b"rocketmq-spark batch 1\n"
_FIELDS: Final = 5
_NUMBER: Final = struct.Struct(">I")


def encoded_batch(messages: Iterable[Received]) -> bytes:
    """What ``decoded_batch`` reads."""
    content = b"".join([TITLE, *_fields(messages)])
    return content + _NUMBER.pack(zlib.crc32(content))


def decoded_batch(content: bytes) -> tuple[Received, ...]:
    """The messages. Raises ValueError for what is no whole batch, or one of another version."""
    if not content.startswith(TITLE):
        raise ValueError(f"it begins with {content[: len(TITLE)]!r}")
    end = len(content) - _NUMBER.size
    if end < len(TITLE) or _NUMBER.unpack_from(content, end) != (zlib.crc32(content[:end]),):
        raise ValueError("it is damaged, or was not written to its end")
    fields = list(_split(memoryview(content)[len(TITLE) : end]))
    return tuple(starmap(_message, zip(*(fields[place::_FIELDS] for place in range(_FIELDS)), strict=True)))


def _message(
    topic: memoryview, broker_name: memoryview, handle: memoryview, form: memoryview, record: memoryview
) -> Received:
    told = handle_of(*(str(text, "utf-8") for text in (topic, broker_name, handle)))
    return Received(told, record, Form(str(form, "utf-8")))


def _fields(messages: Iterable[Received]) -> Iterator[bytes | memoryview]:
    for handle, record, form in messages:
        texts = (handle.topic, handle.broker_name, handle.text, form.value)
        fields: tuple[bytes | memoryview, ...] = (*(text.encode() for text in texts), record)
        for field in fields:
            yield _NUMBER.pack(len(field))
            yield field


def _split(content: memoryview) -> Iterator[memoryview]:
    place = 0
    while place < len(content):
        begin = place + _NUMBER.size
        place = begin + _NUMBER.unpack_from(content, place)[0]
        yield content[begin:place]
