"""Message IDs of rows, the same in each attempt: 32 upper-case hex digits, laid out as those of a Java client.

In those of ``row_ids``, 20 digits are a hash of the task and the row's contents, 12 digits the row's number in its
task. The number alone is not sufficient: if a replay lacks rows, later rows get other numbers. The ID of a stored row
would then belong to another row, which consumers drop as a duplicate. In Java's IDs the last 12 digits are a time, in
ms of the month, and a counter. So ``mqadmin queryMsgByUniqueKey`` searches for such an ID from the start of the month.
"""

from __future__ import annotations

import hashlib
from binascii import hexlify
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.errors import OptionError
from rocketmq_spark.wire.arrow.message_encoder import MessageIds

_PREFIX_BYTES: Final = 10
_PREFIX_DIGITS: Final = 2 * _PREFIX_BYTES
_LAYOUT: Final = np.dtype([("prefix", f"S{_PREFIX_DIGITS}"), ("high", "S4"), ("middle", "S4"), ("low", "S4")])
_DIGITS: Final = np.frombuffer(hexlify(np.arange(1 << 16, dtype=">u2").tobytes()).upper(), "S4")
"""Four hex digits for each number of 16 bits."""


def micro_batch(query_id: str | None, batch_id: str | None, *, of_columns: bool) -> str:
    """Return the job name of a micro-batch, see ``task_key``. ``of_columns``: option ``messageIdColumns`` is set, so
    message IDs do not depend on the job name, and both arguments may be None.

    Raises OptionError[MESSAGE_ID_UNAVAILABLE] if Spark provides no query ID or no batch ID, unless ``of_columns``: all
    batches would have the same message IDs.
    """
    if (query_id is None or batch_id is None) and not of_columns:
        raise OptionError("MESSAGE_ID_UNAVAILABLE", query=str(query_id), batch=str(batch_id))
    return f"query {query_id} batch {batch_id}"


def task_key(job: str, partition_id: int) -> bytes:
    """Return the key of a task's IDs, 20 bytes. ``job``: the unit that a replay repeats, a micro-batch or a batch
    write."""
    return hashlib.blake2b(f"{job}\0{partition_id}".encode(), digest_size=20).digest()


def row_ids(key: bytes, first_row: int, columns: Sequence[pa.BinaryArray]) -> MessageIds:
    """Return the IDs of rows ``[first_row, first_row + len(columns[0]))`` of the task with this ``key``. Each has 20
    digits of a hash of ``key`` and the row's values, then 12 digits of the row's number.

    Args:
        first_row: number of the first row in its task; all numbers are less than 2**48.
        columns: at least one, with one value per row; together all sent content of the rows.
    """
    row_count = len(columns[0])
    rows = np.arange(first_row, first_row + row_count)
    ids = np.empty(row_count, _LAYOUT)
    ids["prefix"] = _hash_prefixes(_hash_inputs(key, columns))
    ids["high"], ids["middle"], ids["low"] = (_DIGITS[rows >> shift & 0xFFFF] for shift in (32, 16, 0))
    return ids.view("S32")


def _hash_inputs(key: bytes, columns: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    """Return the hash input of each row: ``key``, the length of each value as int32 (-1 for null), and the values."""
    lengths = np.empty((len(columns[0]), len(columns)), "<i4")
    for position, column in enumerate(columns):
        lengths[:, position] = pc.fill_null(pc.binary_length(column), -1)
    width = pa.binary(lengths.strides[0])
    head = pa.Array.from_buffers(width, len(lengths), [None, pa.py_buffer(lengths)]).cast(pa.binary())
    values = [column.fill_null(b"") if column.null_count else column for column in columns]
    return pc.binary_join_element_wise(pa.scalar(key, pa.binary()), head, *values, pa.scalar(b"", pa.binary()))


def _hash_prefixes(inputs: pa.BinaryArray) -> MessageIds:
    """Return the first 20 hex digits, upper case, of the BLAKE2b hash of each input."""
    digests = b"".join([one.digest() for one in map(hashlib.blake2b, inputs.to_pylist())])
    words = np.frombuffer(digests, ">u2").reshape(len(inputs), hashlib.blake2b.MAX_DIGEST_SIZE // 2)
    prefixes: MessageIds = _DIGITS[words[:, : _PREFIX_BYTES // 2]].view(f"S{_PREFIX_DIGITS}")[:, 0]
    return prefixes


def column_ids(columns: Sequence[pa.Array]) -> MessageIds:
    """Return the ID of each row, which depends on its values in ``columns``, at least one, only; null differs from
    every other value. Equal rows have equal IDs."""
    texts = [_texts(column).to_pylist() for column in columns]
    return np.array([_id_of(values) for values in zip(*texts, strict=True)], "S32")


def _texts(values: pa.Array) -> pa.BinaryArray:
    """Return the hash input of each value: binary unchanged, a timestamp as its microseconds since 1970 in decimal
    digits, other types as text. It does not depend on the session time zone; null stays null."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return values.cast(pa.binary())
    return values.cast(pa.string()).cast(pa.binary())


def _id_of(values: Sequence[bytes | None]) -> bytes:
    """Return the ID (``column_ids``) for the values of one row, in upper-case hex: 20 digits of their hash, 8 zeros in
    place of a row number, and 4 more digits of the hash. Null differs from every other value."""
    parts = (b"-" if value is None else b"%d:%b" % (len(value), value) for value in values)
    digest = hashlib.blake2b(b"".join(parts), digest_size=_PREFIX_BYTES + 2).hexdigest().upper()
    return f"{digest[:_PREFIX_DIGITS]}00000000{digest[_PREFIX_DIGITS:]}".encode()
