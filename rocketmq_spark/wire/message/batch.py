"""Several messages in one body: the format of SEND_BATCH_MESSAGE, and of an inner batch in a queue of type BatchCQ.

Each message: ``int32 size, int32 0, int32 0, int32 flag, int32 n, body, int16 n, properties``; ``size`` includes
itself. Source: ``common/message/MessageDecoder.java#encodeMessages`` and ``#decodeMessages``; differs: a wrong size is
an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rocketmq_spark.model import Message
from rocketmq_spark.wire.bounds import INNER_MESSAGES
from rocketmq_spark.wire.message.properties import KEYS, TAGS, decode_properties, encode_properties


class ByteReader:
    """Reader of consecutive fields. It raises ValueError, which names the field, where too few bytes remain.

    Not thread-safe.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    @property
    def position(self) -> int:
        return self._position

    @property
    def remaining_bytes(self) -> int:
        return len(self._data) - self._position

    def read(self, length_bytes: int, field: str) -> bytes:
        """Return a copy of the next ``length_bytes`` bytes, and advance. Raises ValueError, which names ``field``, if
        too few remain or ``length_bytes`` is negative."""
        begin = self._advance(length_bytes, field)
        return bytes(self._data[begin : self._position])

    def unpack(self, layout: struct.Struct, field: str) -> tuple[Any, ...]:
        """Return the next values, of ``layout``, and advance. Raises ValueError, which names ``field``, if too few
        bytes remain."""
        return layout.unpack_from(self._data, self._advance(layout.size, field))

    def _advance(self, length_bytes: int, field: str) -> int:
        """Advance by ``length_bytes``; return the position before. Raises ValueError, which names ``field``, if too few
        remain or ``length_bytes`` is negative; the position then is unchanged."""
        if not 0 <= length_bytes <= self.remaining_bytes:
            raise ValueError(f"its {field} should have {length_bytes} bytes where {self.remaining_bytes} remain")
        begin = self._position
        self._position += length_bytes
        return begin


_HEAD: Final = struct.Struct(">iiiii")
_PROPERTIES_LENGTH: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """One message of a batch: the parts that differ between the batch's messages."""

    flag: int
    body: bytes
    properties: dict[str, str]


class InnerParts(NamedTuple):
    """Like ``InnerMessage``, with encoded properties: decoded ones take much more memory."""

    flag: int
    body: bytes
    properties: bytes


def message_properties(message: Message) -> dict[str, str]:
    """Return a copy of all properties that are sent with a message: TAGS and KEYS unless they are None, then its
    ``properties``, which take precedence."""
    named = {TAGS: message.tags, KEYS: message.keys}
    return {name: value for name, value in named.items() if value is not None} | dict(message.properties)


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Return the body of a SEND_BATCH_MESSAGE; its size is not limited. Raises LocalProtocolError[INVALID_MESSAGE] for
    properties that cannot be encoded."""
    return b"".join(_encode(message) for message in messages)


def decode_batch(body: bytes) -> list[InnerMessage]:
    """Decode the messages of a stored batch, in order. Raises ValueError if it is damaged or empty, or has more
    messages than ``INNER_MESSAGES`` allows."""
    return [InnerMessage(part.flag, part.body, decode_properties(part.properties)) for part in split_batch(body)]


def split_batch(body: bytes) -> list[InnerParts]:
    """Return the messages of a stored batch, in order, with properties still encoded. Raises ValueError if it is
    damaged or empty, or has more messages than ``INNER_MESSAGES`` allows."""
    reader = ByteReader(memoryview(body))
    messages: list[InnerParts] = []
    while reader.remaining_bytes:
        messages.append(_parts(reader))
        INNER_MESSAGES.check(len(messages))
    if not messages:
        raise ValueError("its inner batch is empty")
    return messages


def _encode(message: Message) -> bytes:
    """Return one message in the batch format, its tags and keys among the properties. Raises
    LocalProtocolError[INVALID_MESSAGE] for properties that cannot be encoded."""
    properties = encode_properties(message_properties(message))
    size_bytes = _HEAD.size + len(message.body) + _PROPERTIES_LENGTH.size + len(properties)
    head = _HEAD.pack(size_bytes, 0, 0, message.flag, len(message.body))
    return b"".join((head, message.body, _PROPERTIES_LENGTH.pack(len(properties)), properties))


def _parts(reader: ByteReader) -> InnerParts:
    """Read the next inner message, and advance past it. Raises ValueError if its declared size differs from the size of
    its parts, or too few bytes remain."""
    begin = reader.position
    size_bytes, _, _, flag, body_bytes = reader.unpack(_HEAD, "inner head")
    body = reader.read(body_bytes, "inner body")
    (properties_bytes,) = reader.unpack(_PROPERTIES_LENGTH, "inner properties' length")
    properties = reader.read(properties_bytes, "inner properties")
    if reader.position - begin != size_bytes:
        raise ValueError(f"an inner message of {reader.position - begin} bytes declares {size_bytes}")
    return InnerParts(flag, body, properties)
