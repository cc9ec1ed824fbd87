"""Tasks of a batch that contain its messages, as received and undecoded, in parts of limited size."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rocketmq_spark.grouping import grouped
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import ReceivedMessage, RecordFormat
from rocketmq_spark.wire.arrow.column_table import RECEIPT_HANDLE

TASK_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a task, which Spark sends as a whole; a single message may be larger."""

TASK_MESSAGES: Final = 2_000
"""Default maximum of messages in a task, which spreads a batch over the cores."""

PART_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of records that are decoded together; a single message may be larger."""


_COMMIT_LOG_OFFSET: Final = struct.Struct(">28xq")


class Part(NamedTuple):
    """Messages of one broker in one format, concatenated: what an executor decodes together."""

    broker_name: str
    record_format: RecordFormat
    body: bytes
    handles: tuple[str, ...] = ()
    """The handles of stored messages, if required, see ``receipt_handle``; records of a proxy contain their handles."""


def tasks_of(
    received: Sequence[ReceivedMessage], max_records: int | None, *, with_handles: bool = False
) -> list[tuple[Part, ...]]:
    """Split ``received``, in order, into tasks; [] without messages. A task has at most ``TASK_BYTES`` of records, or
    one larger message, and at most ``max_records`` messages (None: TASK_MESSAGES). In a task they are grouped by broker
    and format, in order. ``with_handles``: give parts in the stored format the receipt handles of their messages."""
    max_messages = max_records or TASK_MESSAGES
    return [tuple(_parts(part_messages, with_handles)) for part_messages in _cut(received, TASK_BYTES, max_messages)]


def extra_string_columns(options: ReadOptions) -> tuple[str, ...]:
    """Return the names of string columns that a schema may have beside the fixed ones: the property columns of
    ``options``, and always the receipt handle's."""
    return (*options.property_columns, RECEIPT_HANDLE)


def receipt_handle(one: ReceivedMessage) -> str:
    """Return a stored message's receipt handle in a proxy's format: the broker's handle, a blank, and the message's
    offset in the commit log, from its record."""
    (commit_log_offset,) = _COMMIT_LOG_OFFSET.unpack_from(one.record)
    return f"{one.handle.text} {commit_log_offset}"


def _parts(received: Sequence[ReceivedMessage], with_handles: bool) -> Iterator[Part]:
    """Yield the messages of one task, grouped by broker and format, as parts of at most ``PART_BYTES`` of records or
    one larger message. ``with_handles``: fill ``handles`` of parts in the stored format."""
    alike = grouped(received, lambda one: (one.handle.broker_name, one.record_format))
    for (broker_name, record_format), group in alike.items():
        for part_messages in _cut(group, PART_BYTES, len(group)):
            handles = (
                map(receipt_handle, part_messages) if with_handles and record_format is RecordFormat.STORED else ()
            )
            yield Part(broker_name, record_format, b"".join(one.record for one in part_messages), tuple(handles))


def _cut(received: Iterable[ReceivedMessage], max_bytes: int, max_messages: int) -> Iterator[list[ReceivedMessage]]:
    """Yield lists of consecutive messages, none empty, each of at most ``max_bytes`` of records and ``max_messages``
    messages. A message larger than ``max_bytes`` is alone in its list."""
    part_messages: list[ReceivedMessage] = []
    size_bytes = 0
    for one in received:
        if part_messages and (size_bytes + len(one.record) > max_bytes or len(part_messages) >= max_messages):
            yield part_messages
            part_messages, size_bytes = [], 0
        part_messages.append(one)
        size_bytes += len(one.record)
    if part_messages:
        yield part_messages
