"""A batch as it is kept on a disk: its messages in their order, as they are stored, and what each is acknowledged by.

    "rocketmq-spark batch 1\\n" | of each message: topic, handle, record | CRC-32 of all that

each of the three with its length in 4 bytes before it, numbers in network order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from rocketmq_spark.pop.handles import Handle, Received

TITLE: Final = b"rocketmq-spark batch 1\n"
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
    return tuple(
        Received(Handle.parse(str(topic, "utf-8"), str(handle, "utf-8")), record)
        for topic, handle, record in zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    )


def _fields(messages: Iterable[Received]) -> Iterator[bytes | memoryview]:
    for handle, record in messages:
        for field in (handle.check_point.topic.encode(), handle.extra_info.encode(), record):
            yield _NUMBER.pack(len(field))
            yield field


def _split(content: memoryview) -> Iterator[memoryview]:
    place = 0
    while place < len(content):
        begin = place + _NUMBER.size
        place = begin + _NUMBER.unpack_from(content, place)[0]
        yield content[begin:place]
