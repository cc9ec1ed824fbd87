"""Messages from a proxy as Arrow columns: those of stored messages, as far as the protocol has them.

A proxy returns keys, tag, ID and group apart from the properties; here they are among them, as brokers store them. It
marks each compressed body as GZIP, whatever its type: only the bytes identify it.

Source: ``proxy/grpc/v2/common/GrpcConverter.java``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.arrow.arrow_types import arrow_type
from rocketmq_spark.wire.arrow.column_table import (
    COLUMNS,
    FIRST_TIMESTAMP_MS,
    LAST_TIMESTAMP_MS,
    RECEIPT_HANDLE,
    of_property,
)
from rocketmq_spark.wire.bounds import DECOMPRESSED_BODY_BYTES
from rocketmq_spark.wire.grpc.messaging_pb2 import Encoding, Message, ReceivedMessages, Resource
from rocketmq_spark.wire.message.compression import DECOMPRESSED_LIMIT_BYTES, decompress
from rocketmq_spark.wire.message.properties import KEYS, SHARDING_KEY, TAGS, UNIQ_KEY
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

BODY: Final = "body"

_MAGIC: Final[Mapping[bytes, MessageSysFlag]] = MappingProxyType(
    {b"\x04\x22\x4d\x18": MessageSysFlag.LZ4, b"\x28\xb5\x2f\xfd": MessageSysFlag.ZSTD}
)
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_STREAM: Final = 16 + zlib.MAX_WBITS
_GZIP_MEMBER: Final = b"\x1f\x8b\x08"
_GZIP_MEMBER_BYTES: Final = 20
"""Size of the smallest member, an empty one."""
_MIN_INT: Final = -(2**31)
_MAX_INT: Final = 2**31 - 1
_READ_BYTES: Final = 16 * 1024
"""Bytes after a member that were read with it are copied."""


class MessageWithBody(NamedTuple):
    """A message and its plain body; the body is None if it cannot be read, or was not requested."""

    message: Message
    body: bytes | None


class UndecodableReceived(NamedTuple):
    """Position of a message whose body cannot be read, and the problem."""

    queue: MessageQueue
    offset: int
    problem: str


def decode_received(
    responses: bytes, columns: Sequence[str], *, broker_name: str, tags: frozenset[str] | None
) -> Iterator[tuple[pa.RecordBatch, list[UndecodableReceived]]]:
    """Decode concatenated responses of one message each, lazily and in order, to batches of ``columns``, at least one.

    ``tags``: keep messages with one of these; None: all. ``columns``: names in ``COLUMNS``, the name RECEIPT_HANDLE,
    and names of properties. A message whose body cannot be decompressed keeps its row, with a null body, and is listed
    beside the batch. A batch ends before its bodies exceed DECOMPRESSED_LIMIT_BYTES (128 MiB).

    Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY], on the first iteration.
    """
    try:
        messages = ReceivedMessages.FromString(responses).messages
    except DecodeError as problem:
        raise RemoteProtocolError(
            "MALFORMED_RESPONSE.BODY", subject="ReceiveMessageResponse", problem=str(problem)
        ) from problem
    kept = [one for one in messages if tags is None or one.system_properties.tag in tags]
    types = [arrow_type(COLUMNS[name] if name in COLUMNS else of_property(name)) for name in columns]
    schema = pa.schema(list(zip(columns, types, strict=True)))
    for some, undecodable in _split_by_size(kept, broker_name, has_body=BODY in columns):
        arrays = [pa.array(_values(field.name, some, broker_name), field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema), undecodable


def _values(name: str, with_bodies: Sequence[MessageWithBody], broker_name: str) -> Iterable[Any]:
    """Return one value of column ``name`` for each message, in order. Names that are not in ``COLUMNS`` are names of
    properties. Null for a missing property, an empty receipt handle, and a column that the protocol lacks."""
    if name == BODY:
        return [one.body for one in with_bodies]
    if name == "brokerName":
        return [broker_name] * len(with_bodies)
    messages = [one.message for one in with_bodies]
    if name == RECEIPT_HANDLE:
        return [message.system_properties.receipt_handle or None for message in messages]
    if name not in COLUMNS:
        return [dict(_properties(message)).get(name) for message in messages]
    value_of = VALUES.get(name)
    return [None] * len(messages) if value_of is None else map(value_of, messages)


def _split_by_size(
    messages: Iterable[Message], broker_name: str, *, has_body: bool
) -> Iterator[tuple[list[MessageWithBody], list[UndecodableReceived]]]:
    """Yield all messages in order with their bodies, in lists of at most DECOMPRESSED_LIMIT_BYTES of bodies, each with
    its undecodable messages; one list at least. Without ``has_body`` bodies are None, and none is undecodable."""
    some: list[MessageWithBody] = []
    undecodable: list[UndecodableReceived] = []
    size_bytes = 0
    for message in messages:
        body, problem = _body_or_problem(message) if has_body else (None, None)
        if size_bytes + len(body or b"") > DECOMPRESSED_LIMIT_BYTES:
            yield some, undecodable
            some, undecodable, size_bytes = [], [], 0
        some.append(MessageWithBody(message, body))
        size_bytes += len(body or b"")
        if problem is not None:
            system = message.system_properties
            queue = MessageQueue(_name(message.topic), broker_name, system.queue_id)
            undecodable.append(UndecodableReceived(queue, system.queue_offset, problem))
    yield some, undecodable


def _body_or_problem(message: Message) -> tuple[bytes | None, str | None]:
    """Return (body, None), or (None, problem) if a compressed body cannot be decompressed or has more than 32 MiB
    decompressed. Raise nothing for the body."""
    try:
        return _body(message, min(DECOMPRESSED_LIMIT_BYTES, DECOMPRESSED_BODY_BYTES.maximum)), None
    except ValueError as problem:
        return None, str(problem)


def _body(message: Message, limit_bytes: int) -> bytes:
    """Return the body, decompressed if the proxy marked it as compressed. Its first bytes select the type, GZIP, LZ4 or
    ZSTD, else ZLIB. Raises ValueError for a compressed body that cannot be decompressed or exceeds ``limit_bytes``
    decompressed. A plain body has no limit; the proxy's digest of the body is not checked."""
    body = message.body
    if message.system_properties.body_encoding != Encoding.GZIP or not body:
        return body
    if body.startswith(_GZIP_MAGIC):
        return _gunzip(body, limit_bytes)
    return decompress(body, _MAGIC.get(body[:4], MessageSysFlag.ZLIB), limit_bytes)


def _gunzip(body: bytes, limit_bytes: int) -> bytes:
    """Decompress all GZIP members and return their bytes together, ignoring bytes after the last one, as Java's
    GZIPInputStream does. Raises ValueError for a damaged member, or for more than ``limit_bytes`` of plain bytes."""
    parts: list[bytes] = []
    rest, left_bytes = memoryview(body), limit_bytes + 1
    while left_bytes > 0:
        try:
            read_bytes, left_bytes = _gunzip_member(rest, left_bytes, parts)
        except zlib.error as damage:
            raise ValueError(f"its GZIP body is damaged: {damage}") from damage
        rest = rest[read_bytes:]
        if len(rest) < _GZIP_MEMBER_BYTES or bytes(rest[: len(_GZIP_MEMBER)]) != _GZIP_MEMBER:
            break
    if left_bytes <= 0:
        raise ValueError(f"its body has more than the {limit_bytes} bytes allowed when decompressed")
    return b"".join(parts)


def _gunzip_member(data: memoryview, remaining_bytes: int, parts: list[bytes]) -> tuple[int, int]:
    """Append the plain bytes of the member at the start of ``data`` to ``parts``, at most ``remaining_bytes``. Return
    how many bytes of ``data`` were read, and how many ``remaining_bytes`` are left. A damaged or cut member raises
    zlib.error."""
    stream = zlib.decompressobj(_GZIP_STREAM)
    position = 0
    while remaining_bytes > 0 and not stream.eof:
        if position == len(data):
            raise zlib.error("it ends early")
        read = data[position : position + _READ_BYTES]
        if part := stream.decompress(read, remaining_bytes):
            parts.append(part)
            remaining_bytes -= len(part)
        position += len(read) - len(stream.unconsumed_tail) - len(stream.unused_data)
    return position, remaining_bytes


def _name(resource: Resource) -> str:
    """Return the name of a topic or group, as ``namespace%name`` if it has a namespace."""
    namespace = resource.resource_namespace
    return f"{namespace}%{resource.name}" if namespace else resource.name


def _keys(message: Message) -> str | None:
    """Return the keys, separated by blanks, or None without any."""
    return " ".join(message.system_properties.keys) or None


def _tags(message: Message) -> str | None:
    """Return the tag, or None if it is missing or empty."""
    return message.system_properties.tag or None


def _properties(message: Message) -> list[tuple[str, str]]:
    """Return (name, value) pairs: the user properties, then keys, tag, ID and message group, if not empty, under the
    names that brokers store."""
    system = message.system_properties
    apart = (
        (KEYS, _keys(message)),
        (TAGS, _tags(message)),
        (UNIQ_KEY, system.message_id),
        (SHARDING_KEY, system.message_group),
    )
    return [*message.user_properties.items(), *((name, value) for name, value in apart if value)]


def _microseconds(at: Timestamp) -> int | None:
    """Return a time as microseconds since 1970, or None before FIRST_TIMESTAMP_MS or after LAST_TIMESTAMP_MS."""
    microseconds = at.seconds * 1_000_000 + at.nanos // 1_000
    return microseconds if FIRST_TIMESTAMP_MS <= microseconds // 1_000 <= LAST_TIMESTAMP_MS else None


def _reconsume_times(message: Message) -> int:
    """Return the delivery attempts minus one, wrapped to signed 32 bits. A proxy adds one to a number that a producer
    may have written."""
    attempt = message.system_properties.delivery_attempt
    return attempt - 1 if attempt > _MIN_INT else _MAX_INT


VALUES: Final[Mapping[str, Callable[[Message], object]]] = MappingProxyType(
    {
        "topic": lambda message: _name(message.topic),
        "queueId": lambda message: message.system_properties.queue_id,
        "queueOffset": lambda message: message.system_properties.queue_offset,
        "msgId": lambda message: message.system_properties.message_id,
        "keys": _keys,
        "tags": _tags,
        "properties": _properties,
        "bornTimestamp": lambda message: _microseconds(message.system_properties.born_timestamp),
        "storeTimestamp": lambda message: _microseconds(message.system_properties.store_timestamp),
        "reconsumeTimes": _reconsume_times,
        "bornHost": lambda message: message.system_properties.born_host,
        "storeHost": lambda message: message.system_properties.store_host,
    }
)
"""By column, the function that returns a message's value; the protocol has none for other columns."""
