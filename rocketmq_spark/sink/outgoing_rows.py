"""Rows of an Arrow record batch as what they are to be sent as: a column for each part of a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.sink.columns import BODY, KEYS, PROPERTIES, TAGS, TOPIC
from rocketmq_spark.wire.arrow.message_encoder import lengths_of
from rocketmq_spark.wire.arrow.slices import Numbers

KEY_SEPARATOR: Final = " "


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Rows from ``first_row`` of their task on. A null is what a row does not have; ``texts`` are its properties by
    name that have a column of their own."""

    first_row: int
    bodies: pa.BinaryArray
    topics: pa.StringArray
    texts: Mapping[str, pa.BinaryArray]
    properties: pa.MapArray | None

    def __len__(self) -> int:
        return len(self.bodies)


def outgoing_rows(
    batch: pa.RecordBatch, positions: Mapping[str, int], topic: str | None, first_row: int
) -> OutgoingRows:
    """``batch``, whose columns stand at ``positions``; ``topic`` is that of all rows, if it is given."""
    named = {name: batch.column(position) for name, position in positions.items()}
    texts = {"TAGS": _as_binary(named.get(TAGS)), "KEYS": _keys(named.get(KEYS))}
    return OutgoingRows(
        first_row,
        _as_binary(named[BODY]),
        named[TOPIC].cast(pa.string()) if topic is None else pa.repeat(pa.scalar(topic), len(batch)),
        {name: values for name, values in texts.items() if values is not None},
        named.get(PROPERTIES),
    )


def cut_by_bytes(batch: pa.RecordBatch, body_position: int, limit_bytes: int) -> Iterator[pa.RecordBatch]:
    """``batch`` in slices with bodies of ``limit_bytes`` together, or with one row that has more."""
    for begin, end in cuts(lengths_of(_as_binary(batch.column(body_position))), limit_bytes):
        yield batch.slice(begin, end - begin)


def cuts(sizes: Numbers, limit: int) -> Iterator[tuple[int, int]]:
    """Ranges ``[begin, end)`` of neighbours that have at most ``limit`` together, or of a single one that has more."""
    ends = np.cumsum(sizes, dtype=np.int64)
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + limit, "right")))
        yield begin, end
        begin = end


def _as_binary(values: pa.Array | None) -> pa.BinaryArray | None:
    return None if values is None else values.cast(pa.binary())


def _keys(values: pa.Array | None) -> pa.BinaryArray | None:
    """Several keys as one text; nulls among them are left out."""
    if values is None or not pa.types.is_nested(values.type):
        return _as_binary(values)
    if values.flatten().null_count:
        lists = ([key for key in keys if key is not None] if keys else None for keys in values.to_pylist())
        values = pa.array(lists, pa.list_(pa.string()))
    joined = pc.binary_join(values, KEY_SEPARATOR)
    return _as_binary(pc.if_else(pc.equal(pc.list_value_length(values), 0), None, joined))
