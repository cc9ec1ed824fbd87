"""Ids of rows, the same however often a row is sent: 32 upper-case hex digits, laid out as those of a Java client.

20 digits stand for whose row it is, and 12 for its number. With these Java's clients have the time, in ms of the month,
and a counter: so ``mqadmin queryMsgByUniqueKey`` looks for such an id from the beginning of the month on.
"""

from __future__ import annotations

import hashlib
from binascii import hexlify
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from rocketmq_spark.errors import OptionError
from rocketmq_spark.wire.arrow.message_encoder import MessageIds

_PREFIX_BYTES: Final = 10
_PREFIX_DIGITS: Final = 2 * _PREFIX_BYTES
_LAYOUT: Final = np.dtype([("prefix", f"S{_PREFIX_DIGITS}"), ("high", "S4"), ("middle", "S4"), ("low", "S4")])
_DIGITS: Final = np.frombuffer(hexlify(np.arange(1 << 16, dtype=">u2").tobytes()).upper(), "S4")
"""Four hex digits for each number of 16 bits."""


def micro_batch(query_id: str | None, batch_id: str | None, *, of_columns: bool) -> str:
    """The job that a micro-batch is. Raises OptionError[NO_BATCH_ID] where Spark leaves out which one it is, unless ids
    are made ``of_columns``: all batches would have the same."""
    if (query_id is None or batch_id is None) and not of_columns:
        raise OptionError("NO_BATCH_ID", query=str(query_id), batch=str(batch_id))
    return f"query {query_id} batch {batch_id}"


def id_prefix(job: str, partition_id: int) -> bytes:
    """What the ids of one task's rows begin with. ``job`` is what a replay repeats: a query's batch, or a write."""
    return hashlib.blake2b(f"{job}\0{partition_id}".encode(), digest_size=_PREFIX_BYTES).hexdigest().upper().encode()


def row_ids(prefix: bytes, first_row: int, row_count: int) -> MessageIds:
    """The ids of rows ``[first_row, first_row + row_count)`` of a task; below 2**48."""
    rows = np.arange(first_row, first_row + row_count)
    ids = np.empty(row_count, _LAYOUT)
    ids["prefix"] = prefix
    ids["high"], ids["middle"], ids["low"] = (_DIGITS[rows >> shift & 0xFFFF] for shift in (32, 16, 0))
    return ids.view("S32")


def column_ids(columns: Sequence[pa.Array]) -> MessageIds:
    """Ids that are made of the values of these columns and nothing else; null is a value of its own."""
    texts = [_texts(column).to_pylist() for column in columns]
    return np.array([_id_of(values) for values in zip(*texts, strict=True)], "S32")


def _texts(values: pa.Array) -> pa.BinaryArray:
    """What ids are made of, whatever the session's time zone is: bytes as they are, of a timestamp its microseconds."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return values.cast(pa.binary())
    return values.cast(pa.string()).cast(pa.binary())


def _id_of(values: Sequence[bytes | None]) -> bytes:
    parts = (b"-" if value is None else b"%d:%b" % (len(value), value) for value in values)
    digest = hashlib.blake2b(b"".join(parts), digest_size=_PREFIX_BYTES + 2).hexdigest().upper()
    return f"{digest[:_PREFIX_DIGITS]}00000000{digest[_PREFIX_DIGITS:]}".encode()
