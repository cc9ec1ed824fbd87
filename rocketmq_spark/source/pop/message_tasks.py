"""Tasks of a batch whose messages travel with them: as they came, undecoded, in parts of a bounded size."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import Form, Received
from rocketmq_spark.wire.arrow.column_table import RECEIPT_HANDLE

TASK_BYTES: Final = 8 * 1024 * 1024
"""At most in one task, which Spark sends in one piece; one message may have more."""

TASK_MESSAGES: Final = 2_000
"""At most, unless the options say otherwise: a batch is spread over the cores."""

PART_BYTES: Final = 4 * 1024 * 1024
"""Decoded at once."""


_COMMIT_LOG_OFFSET: Final = struct.Struct(">28xq")


class Part(NamedTuple):
    """Messages of one broker in one form, one after another."""

    broker_name: str
    form: Form
    body: bytes
    handles: tuple[str, ...] = ()
    """Of stored messages, if they are wanted, see ``receipt_handle``; a proxy's answers have them."""


def tasks_of(
    received: Sequence[Received], max_records: int | None, *, with_handles: bool = False
) -> list[tuple[Part, ...]]:
    """All messages, in their order."""
    most = max_records or TASK_MESSAGES
    return [tuple(_parts(some, with_handles)) for some in _cut(received, TASK_BYTES, most)]


def texts_beside_columns(options: ReadOptions) -> tuple[str, ...]:
    """Names of columns of text that a schema may have: those of properties, and the handle's."""
    return (*options.property_columns, RECEIPT_HANDLE)


def receipt_handle(one: Received) -> str:
    """As a proxy spells it: its last word is the place in the broker's commit log."""
    (commit_log_offset,) = _COMMIT_LOG_OFFSET.unpack_from(one.record)
    return f"{one.handle.text} {commit_log_offset}"


def _parts(received: Sequence[Received], with_handles: bool) -> Iterator[Part]:
    alike: dict[tuple[str, Form], list[Received]] = {}
    for one in received:
        alike.setdefault((one.handle.broker_name, one.form), []).append(one)
    for (broker_name, form), ours in alike.items():
        for some in _cut(ours, PART_BYTES, len(ours)):
            handles = map(receipt_handle, some) if with_handles and form is Form.STORED else ()
            yield Part(broker_name, form, b"".join(one.record for one in some), tuple(handles))


def _cut(received: Iterable[Received], most_bytes: int, most: int) -> Iterator[list[Received]]:
    some: list[Received] = []
    size_bytes = 0
    for one in received:
        if some and (size_bytes + len(one.record) > most_bytes or len(some) >= most):
            yield some
            some, size_bytes = [], 0
        some.append(one)
        size_bytes += len(one.record)
    if some:
        yield some
