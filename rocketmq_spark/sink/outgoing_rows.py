"""Rows of an Arrow record batch in the form of messages: one Arrow column for each part of a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.model import RETRY_TOPIC_PREFIX
from rocketmq_spark.sink.columns import (
    BODY,
    BROKER_NAME,
    DELAY_LEVEL,
    DELAY_SECONDS,
    DELIVER_TIMESTAMP,
    KEYS,
    PROPERTIES,
    QUEUE_ID,
    SHARDING_KEY,
    TAGS,
    TOPIC,
)
from rocketmq_spark.wire.arrow.message_encoder import FALSE, ZERO, lengths_of
from rocketmq_spark.wire.arrow.slices import Mask, Numbers, Positions
from rocketmq_spark.wire.message.properties import SHARDING_KEY as SHARDING_KEY_PROPERTY

_KEY_SEPARATOR: Final = pa.scalar(b" ", pa.binary())

DELAYS: Final[Mapping[str, str]] = MappingProxyType(
    {DELAY_LEVEL: "DELAY", DELAY_SECONDS: "TIMER_DELAY_SEC", DELIVER_TIMESTAMP: "TIMER_DELIVER_MS"}
)
"""Columns with the delivery time of a message, and the properties that carry it."""

COLUMN_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TAGS": TAGS,
        "KEYS": KEYS,
        SHARDING_KEY_PROPERTY: SHARDING_KEY,
        **{name: column for column, name in DELAYS.items()},
    }
)
"""Columns by the property that carries their value."""


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Rows of a task. ``numbers``: their positions in the task. A null means that the row lacks the part.

    ``texts``: properties with columns of their own, by property name. ``broker_names`` and ``queue_ids`` are both
    present or both None.
    """

    numbers: Positions
    bodies: pa.BinaryArray
    topics: pa.StringArray
    texts: Mapping[str, pa.BinaryArray]
    properties: pa.MapArray | None
    broker_names: pa.StringArray | None = None
    queue_ids: pa.Int64Array | None = None
    have_invalid_keys: Mask | None = None
    """Rows with a list of keys of which one is empty or has a space, so that the joined text would differ; None: no
    row."""
    have_null_ids: Mask | None = None
    """Rows with a null in a column that determines message IDs; None: there are no such columns."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.bodies)

    @property
    def destinations(self) -> tuple[pa.BinaryArray, ...]:
        """Return the columns that determine destinations, as binary: topics and, if present, broker names and queue
        IDs."""
        columns = (self.topics, self.broker_names, self.queue_ids)
        return tuple(column.cast(pa.string()).cast(pa.binary()) for column in columns if column is not None)

    @property
    def are_single(self) -> Mask:
        """Return a mask of the rows that must be sent as single messages. Brokers ignore a delay or a delivery time in
        a batch, and reject batches for a retry topic.

        Source: ``broker/processor/SendMessageProcessor.java#sendBatchMessage``, ``common/message/MessageBatch.java``.
        """
        retries = pc.fill_null(pc.starts_with(self.topics, RETRY_TOPIC_PREFIX), FALSE)
        single: Mask = retries.to_numpy(zero_copy_only=False)
        for name in DELAYS.values():
            if name in self.texts:
                single = single | self.texts[name].is_valid().to_numpy(zero_copy_only=False)
        return single

    def take(self, positions: Positions) -> OutgoingRows:
        """Return new OutgoingRows of the rows at ``positions``, in this order; each keeps its number."""
        some = pa.array(positions)
        return OutgoingRows(
            self.numbers[positions],
            self.bodies.take(some),
            self.topics.take(some),
            {name: values.take(some) for name, values in self.texts.items()},
            None if self.properties is None else self.properties.take(some),
            None if self.broker_names is None else self.broker_names.take(some),
            None if self.queue_ids is None else self.queue_ids.take(some),
            None if self.have_invalid_keys is None else self.have_invalid_keys[positions],
            None if self.have_null_ids is None else self.have_null_ids[positions],
        )


def outgoing_rows(
    batch: pa.RecordBatch,
    positions: Mapping[str, int],
    topic: str | None,
    first_row: int,
    id_positions: Sequence[int] = (),
) -> OutgoingRows:
    """Convert the rows of ``batch`` to columns of message parts, without checks.

    ``positions``: positions of the columns of ``batch``, by name in ``SINK_COLUMNS``; ``body`` is required. ``topic``:
    topic of all rows, which overrides the column; None: the column is required. ``first_row``: number of the first row
    in its task. ``id_positions``: positions of the columns that determine message IDs.
    """
    named = {name: batch.column(position) for name, position in positions.items()}
    texts = {
        "TAGS": _as_binary(named.get(TAGS)),
        "KEYS": _keys(named.get(KEYS)),
        SHARDING_KEY_PROPERTY: _as_binary(named.get(SHARDING_KEY)),
        DELAYS[DELAY_LEVEL]: _as_digits(named.get(DELAY_LEVEL)),
        DELAYS[DELAY_SECONDS]: _as_digits(named.get(DELAY_SECONDS)),
        DELAYS[DELIVER_TIMESTAMP]: _as_digits(_milliseconds(named.get(DELIVER_TIMESTAMP))),
    }
    return OutgoingRows(
        np.arange(first_row, first_row + len(batch)),
        _as_binary(named[BODY]),
        named[TOPIC].cast(pa.string()) if topic is None else pa.repeat(pa.scalar(topic), len(batch)),
        {name: values for name, values in texts.items() if values is not None},
        _unless_void(named.get(PROPERTIES)),
        _cast(named.get(BROKER_NAME), pa.string()),
        _cast(named.get(QUEUE_ID), pa.int64()),
        _have_invalid_keys(named.get(KEYS)),
        _have_nulls([batch.column(position) for position in id_positions]),
    )


def split_by_bytes(batch: pa.RecordBatch, body_position: int, limit_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield consecutive slices of ``batch``, without a copy, each as large as possible with at most ``limit_bytes`` of
    bodies; nothing for an empty batch. A single larger row is a slice of its own."""
    for begin, end in split_ranges(lengths_of(_as_binary(batch.column(body_position))), limit_bytes):
        yield batch.slice(begin, end - begin)


def split_ranges(sizes: Numbers, limit: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges ``[begin, end)`` of positions in ``sizes``, each as long as possible with at most
    ``limit`` in total. A single larger element is a range of its own."""
    ends = np.cumsum(sizes, dtype=np.int64)
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + limit, "right")))
        yield begin, end
        begin = end


def _as_binary(values: pa.Array | None) -> pa.BinaryArray | None:
    """Return ``values`` cast to binary, text as UTF-8, or None for None."""
    return _cast(values, pa.binary())


def _cast(values: pa.Array | None, type_: pa.DataType) -> pa.Array | None:
    """Return ``values`` cast to ``type_``, or None for None."""
    return None if values is None else values.cast(type_)


def _unless_void(values: pa.Array | None) -> pa.Array | None:
    """Return ``values`` unchanged, or None for None and for a column of type null."""
    return None if values is None or pa.types.is_null(values.type) else values


def _as_digits(values: pa.Array | None) -> pa.BinaryArray | None:
    """Return integers as decimal text, null for null, or None without a column."""
    return None if values is None else values.cast(pa.string()).cast(pa.binary())


def _milliseconds(values: pa.Array | None) -> pa.Int64Array | None:
    """Return timestamps as ms since 1970, fractions dropped. None without a column; a column of type null stays
    null."""
    if values is None or pa.types.is_null(values.type):
        return _cast(values, pa.int64())
    return values.cast(pa.timestamp("ms", values.type.tz), safe=False).cast(pa.int64())


def _have_nulls(columns: Sequence[pa.Array]) -> Mask | None:
    """Return a mask of the rows in which one or more of ``columns`` are null, or None without columns."""
    if not columns:
        return None
    nulls: Mask = np.any([column.is_null().to_numpy(zero_copy_only=False) for column in columns], axis=0)
    return nulls


def _have_invalid_keys(values: pa.Array | None) -> Mask | None:
    """Return a mask of the rows whose list of keys has an empty key or one with a space. Return None if there is no
    such row, no column, or a column of texts instead of lists."""
    if values is None or not pa.types.is_nested(values.type):
        return None
    lists = values.cast(pa.list_(pa.binary())).drop_null()  # a null list may cover values
    keys = lists.flatten()
    are_invalid = pc.or_(pc.equal(pc.binary_length(keys), ZERO), pc.match_substring(keys, " "))
    if not pc.any(are_invalid).as_py():
        return None
    found = np.zeros(len(values), np.bool_)
    present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    found[present[pc.list_parent_indices(lists).filter(are_invalid).to_numpy()]] = True
    return found


def _keys(values: pa.Array | None) -> pa.BinaryArray | None:
    """Return the keys of each row as one text, or None without a column. A list's keys are joined by a space, without
    nulls; a null list and one without keys become null. A column of texts is returned unchanged, as binary."""
    if values is None or not pa.types.is_nested(values.type):
        return _as_binary(values)
    values = values.cast(pa.list_(pa.binary()))
    if values.flatten().null_count:
        lists = ([key for key in keys if key is not None] if keys else None for keys in values.to_pylist())
        values = pa.array(lists, values.type)
    joined = pc.binary_join(values, _KEY_SEPARATOR)
    return pc.if_else(pc.equal(pc.list_value_length(values), ZERO), None, joined)


class DistinctRows(NamedTuple):
    """A code for each row, equal for equal rows; and by code the position of its first row."""

    codes: Positions
    firsts: Positions


def distinct_rows(columns: Iterable[pa.Array], row_count: int) -> DistinctRows:
    """Return a code for each of ``row_count`` rows with these ``columns``, and for each code the position of its first
    row. Rows get the same code if they are equal in all columns, null being equal to null. Codes count from 0 without
    gaps, in no particular order. Without columns all rows are equal."""
    codes = np.zeros(row_count, np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) > 1:
            combined = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(combined, return_inverse=True)[1]
    firsts = np.unique(codes, return_index=True)[1] if codes.any() else np.zeros(min(1, row_count), np.int64)
    return DistinctRows(codes, firsts)
