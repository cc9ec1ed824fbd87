"""Decoder of pull response bodies to Arrow record batches.

``stored_message.py`` is the reference: rows equal ``decode_messages``. Records other than inner batches are decoded all
at once (``record_index``, ``record_columns``, ``property_table``), their compressed bodies one by one. The scalar
decoder decodes inner batches, whose rows are inserted in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.arrow.arrow_types import arrow_type
from rocketmq_spark.wire.arrow.column_table import COLUMNS, Column, of_property
from rocketmq_spark.wire.arrow.record_columns import DamagedBodyError, RecordColumns
from rocketmq_spark.wire.arrow.record_index import (
    DamagedRecordError,
    RecordFrames,
    RecordIndex,
    ResponseOffsets,
    frame_records,
    index_records,
    locate,
)
from rocketmq_spark.wire.arrow.slices import Positions
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage, check_bodies, find_malformed, reach_to
from rocketmq_spark.wire.message.compression import DECOMPRESSED_LIMIT_BYTES, Buffer
from rocketmq_spark.wire.message.stored_message import (
    check_layout,
    corrupt_message,
    counted_bytes,
    decode_messages,
    decode_record,
)
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

_RESTORED: Final[Mapping[str, Column]] = MappingProxyType(
    {
        **COLUMNS,
        "topic": replace(COLUMNS["topic"], field="origin_topic"),
        "msgId": replace(COLUMNS["msgId"], field="origin_msg_id"),
    }
)

BODY: Final = "body"

REPEATED_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Maximum memory of the rows of undecodable messages in one call. A message of 30 KB may have 32,767 rows, each with
all its properties."""


class BatchTooLargeError(ValueError):
    """One call cannot hold all messages (``DECOMPRESSED_LIMIT_BYTES``, ``REPEATED_LIMIT_BYTES``), though each can be
    decoded. Retry with fewer messages or rows.

    ``split_at``: ascending queue offsets at which to split the call, so that the bodies of each part are within the
    limit; () if they are unknown.
    """

    def __init__(self, problem: str = "", split_at: Sequence[int] = ()) -> None:
        super().__init__(problem)
        self.split_at = split_at


class _DecodedRows(NamedTuple):
    """Rows in order, and in ``places`` for each row the byte position of its record in the joined bodies."""

    batch: pa.RecordBatch
    places: Positions


class _DecodingFailure(NamedTuple):
    """Text of the error of ``_decode_all``: the error object would keep the decoded data alive."""

    problem: str


class BatchBuilder(Protocol):
    """Builder of one batch from several calls, each decoded while its bodies are in the processor's cache."""

    def add(
        self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int, response_offsets: ResponseOffsets = ()
    ) -> bool:
        """Decode ``bodies``, append their rows with offsets in ``[begin_offset, end_offset)``, and return True. Return
        False, with the batch unchanged, if the fast path cannot decode all: the caller then uses ``ColumnDecoder``."""

    def finish(self) -> pa.RecordBatch:
        """Return the batch. The builder must not be used afterwards."""


class ColumnDecoder:
    """Decoder of pull response bodies of one queue to record batches of ``schema``, in Python and numpy. Tasks call
    ``decode`` or ``decode_with_undecodable`` for the bodies of one or several pulls.

    ``columns``: names of ``COLUMNS`` or of properties, in the order of the result; only these are decoded. ``tags``:
    keep messages with one of these, because brokers compare hashes; None: all. ``is_unfiltered``: bodies have all
    messages, so that positions can be counted; None: True without ``tags``. ``restores_origin``: the queue is one of a
    retry topic. Its rows show topic and ID of the message before it was sent back, as in Java's clients
    (``DefaultMQPushConsumerImpl#resetRetryAndNamespace``).

    Not thread-safe.
    """

    implementation: ClassVar = "python"

    def __init__(
        self,
        columns: Sequence[str],
        *,
        broker_name: str,
        tags: frozenset[str] | None,
        is_unfiltered: bool | None = None,
        restores_origin: bool = False,
    ) -> None:
        table = _RESTORED if restores_origin else COLUMNS
        self._columns = tuple(table[name] if name in table else of_property(name) for name in columns)
        named = zip(columns, self._columns, strict=True)
        self.schema = pa.schema([pa.field(name, arrow_type(column)) for name, column in named])
        self._broker_name = broker_name
        self._tags = tags
        self._is_unfiltered = tags is None if is_unfiltered is None else is_unfiltered
        self.max_displacement = 0
        """Maximum difference between a message's stored offset and its actual one so far: the number of other messages
        of the queue that the broker stored and does not deliver."""

    def decode(self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int) -> pa.RecordBatch:
        """Decode the messages with queue offsets in ``[begin_offset, end_offset)`` and one of the tags, in order. The
        batch owns its memory, and may be empty. Fastest with 1 to 4 MiB of bodies in a call; 2 GiB fail an assertion.

        Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] for the first damaged record, as ``decode_messages`` does
        for its body, also outside of the offsets. A damaged compressed body or inner batch, and more than
        DECOMPRESSED_LIMIT_BYTES of decompressed bodies, count only where they are decoded.
        """
        offset_range = range(begin_offset, end_offset)
        try:
            records = _select_offsets(index_records(self._frames(bodies, ())), offset_range, self._broker_name)
        except DamagedRecordError as damage:
            for body in bodies:
                decode_messages(body, broker_name=self._broker_name)
            raise AssertionError("the scalar decoder finds no damage") from damage
        return self._decode_all(records, offset_range, [len(body) for body in bodies]).batch

    def decode_with_undecodable(
        self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int, response_offsets: ResponseOffsets = ()
    ) -> tuple[pa.RecordBatch, list[UndecodableMessage]]:
        """Decode like ``decode``, and return (batch, undecodable messages), both in order. Undecodable messages have
        rows in the batch too, with a null body. An undecodable inner batch has a row for each message, with the batch's
        properties, since their tags are unknown. ``response_offsets``: the offsets ``(begin, end)`` of each body, or
        none. They limit the messages of an inner batch. If bodies have all messages, they determine each offset;
        ``max_displacement`` then grows.

        Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] for a wrong layout, after which no record can be found. A
        layout that only a producer's false flags of IPv6 hosts cause makes the message undecodable instead. Raises
        BatchTooLargeError, for a retry with smaller calls, if the decompressed bodies exceed DECOMPRESSED_LIMIT_BYTES
        together, or rows of undecodable messages REPEATED_LIMIT_BYTES.
        """
        offset_range = range(begin_offset, end_offset)
        bodies_bytes = [len(body) for body in bodies]
        try:
            records, malformed = self._readable(bodies, response_offsets)
        except DamagedRecordError as damage:
            for body in bodies:
                check_layout(body, broker_name=self._broker_name)
            raise AssertionError("the scalar decoder finds no damage") from damage
        records = _select_offsets(records, offset_range, self._broker_name)
        decoded = self._try_decode_all(records, offset_range, bodies_bytes)
        if isinstance(decoded, _DecodingFailure):
            undecodable, sizes = check_bodies(records, self._broker_name, has_body=BODY in self.schema.names)
            if not undecodable:
                raise BatchTooLargeError(decoded.problem, _split_offsets(records, sizes, offset_range))
            is_undecodable = np.isin(records.begins, list(undecodable))
            decoded = self._try_decode_all(records.select(~is_undecodable), offset_range, bodies_bytes)
            if isinstance(decoded, _DecodingFailure):
                raise BatchTooLargeError(decoded.problem, _split_offsets(records, sizes, offset_range))
            malformed |= undecodable
        return self._with_undecodable(decoded, malformed, offset_range) if malformed else (decoded.batch, [])

    def _try_decode_all(
        self, records: RecordIndex, offset_range: range, bodies_bytes: Sequence[int]
    ) -> _DecodedRows | _DecodingFailure:
        """Call ``_decode_all``; return its result, or the text of its RemoteProtocolError, which is not raised."""
        try:
            return self._decode_all(records, offset_range, bodies_bytes)
        except RemoteProtocolError as error:
            return _DecodingFailure(str(error))

    def _with_undecodable(
        self, decoded: _DecodedRows, found: Mapping[int, UndecodableMessage], offset_range: range
    ) -> tuple[pa.RecordBatch, list[UndecodableMessage]]:
        """Merge the rows of undecodable messages into the decoded rows; return the batch and these messages, both in
        order. Omit messages outside ``offset_range`` or with other tags. ``found``: by byte position. Raises
        BatchTooLargeError if the rows exceed REPEATED_LIMIT_BYTES and the range has more than one offset."""
        undecodable = {place: found[place] for place in sorted(found) if self._has_rows(found[place], offset_range)}
        rows_bytes = sum(message.rows_bytes(offset_range) for message in undecodable.values())
        if rows_bytes > REPEATED_LIMIT_BYTES and offset_range.stop - offset_range.start > 1:
            raise BatchTooLargeError(f"the rows of undecodable messages take {rows_bytes} bytes together")
        rows = [(place, row) for place, message in undecodable.items() for row in message.rows(offset_range)]
        arrays = self._arrays_without_body([row for _, row in rows])
        merged = self._in_order(*decoded, arrays, np.array([place for place, _ in rows], np.int64))
        return merged.batch, list(undecodable.values())

    def _frames(self, bodies: Sequence[Buffer], response_offsets: ResponseOffsets) -> RecordFrames:
        """Join the bodies and find their records, see ``frame_records``; raise ``max_displacement`` to theirs. Raises
        DamagedRecordError."""
        frames = frame_records(bodies, response_offsets, is_unfiltered=self._is_unfiltered)
        self.max_displacement = max(self.max_displacement, frames.max_displacement)
        return frames

    def _readable(
        self, bodies: Sequence[Buffer], response_offsets: ResponseOffsets
    ) -> tuple[RecordIndex, dict[int, UndecodableMessage]]:
        """Return the records whose layout is correct, and by byte position the undecodable messages whose layout
        contradicts their flags of IPv6 hosts. Raises DamagedRecordError for other damage."""
        frames = self._frames(bodies, response_offsets)
        try:
            return index_records(frames), {}
        except DamagedRecordError:
            malformed = find_malformed(frames, self._broker_name)
            return index_records(frames.select(~np.isin(frames.begins, list(malformed)))), malformed

    def batch_builder(self, data_bytes: int, max_rows: int) -> BatchBuilder | None:
        """Return None: only a native decoder has a builder."""
        return None

    def _decode_all(self, records: RecordIndex, offset_range: range, bodies_bytes: Sequence[int]) -> _DecodedRows:
        """Decode ``records``, whose layout is correct, to rows in order. Omit messages without one of the tags, and
        messages of inner batches outside ``offset_range``. ``bodies_bytes``: sizes of response bodies, for errors.

        Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] for a record that cannot be decoded, and if the
        decompressed bodies together exceed DECOMPRESSED_LIMIT_BYTES.
        """
        is_inner_batch = records.has_flags(MessageSysFlag.INNER_BATCH)
        decoded = None
        with suppress(DamagedBodyError):
            decoded = self._decode_vectorized(records.select(~is_inner_batch))
        if decoded is None:
            is_suspect = is_inner_batch | records.has_flags(MessageSysFlag.COMPRESSED)
            for _ in self._decode_each(records.select(is_suspect), offset_range, bodies_bytes):
                pass
            raise AssertionError("the scalar decoder finds no damage")
        if not is_inner_batch.any():
            return decoded
        messages, their_places = self._decode_inner_batches(records.select(is_inner_batch), offset_range, bodies_bytes)
        return self._in_order(*decoded, self._arrays_of(messages), their_places)

    def _in_order(
        self, batch: pa.RecordBatch, places: Positions, inner_arrays: Sequence[pa.Array], their_places: Positions
    ) -> _DecodedRows:
        """Merge two sets of rows by the byte positions of their records, with equal positions in their order; return
        the merged rows. ``places`` belong to ``batch``, ``their_places`` to the rows of ``inner_arrays``, one array for
        each column."""
        all_places = np.concatenate((places, their_places))
        order = np.argsort(all_places, kind="stable")
        both = zip(batch.columns, inner_arrays, strict=True)
        merged = self._batch([pa.concat_arrays(parts).take(pa.array(order)) for parts in both])
        return _DecodedRows(merged, all_places[order])

    def _decode_vectorized(self, records: RecordIndex) -> _DecodedRows:
        """Decode ``records``, of which none is an inner batch, and drop messages without one of the tags. Raises
        DamagedBodyError if a body cannot be decompressed, or the decompressed ones together exceed
        DECOMPRESSED_LIMIT_BYTES."""
        if not len(records):
            return _DecodedRows(self._batch(self._arrays_of([])), records.begins)
        columns = RecordColumns(records, self._broker_name, DECOMPRESSED_LIMIT_BYTES)
        batch = self._batch([columns.values_of(column) for column in self._columns])
        if self._tags is None:
            return _DecodedRows(batch, records.begins)
        has_tag = pc.is_in(columns.tags(), value_set=pa.array(sorted(self._tags), pa.string()))
        return _DecodedRows(batch.filter(has_tag), records.begins[has_tag.to_numpy(zero_copy_only=False)])

    def _decode_inner_batches(
        self, records: RecordIndex, offset_range: range, bodies_bytes: Sequence[int]
    ) -> tuple[list[MessageExt], Positions]:
        """Decode ``records``, all inner batches. Return the messages in ``offset_range`` with one of the tags, in
        order, and the byte position of each one's record. Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE]."""
        messages: list[MessageExt] = []
        places: list[int] = []
        for begin, found in self._decode_each(records, offset_range, bodies_bytes):
            kept = [message for message in found if self._keeps(message, offset_range)]
            messages += kept
            places += [begin] * len(kept)
        return messages, np.array(places, np.int64)

    def _decode_each(
        self, records: RecordIndex, offset_range: range, bodies_bytes: Sequence[int]
    ) -> Iterator[tuple[int, list[MessageExt]]]:
        """Yield for each record, in order, its byte position in ``records.data`` and its messages, with any tags; of an
        inner batch only those in ``offset_range``. Lazy and scalar. Raises
        RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE], also if all together exceed DECOMPRESSED_LIMIT_BYTES."""
        data, left_bytes = memoryview(records.data), DECOMPRESSED_LIMIT_BYTES
        bounds = zip(records.begins.tolist(), records.ends.tolist(), records.next_offsets.tolist(), strict=True)
        for begin, end, next_offset in bounds:
            try:
                found = decode_record(data[begin:end], self._broker_name, left_bytes, next_offset, offset_range)
            except ValueError as problem:
                raise corrupt_message(*locate(records.data, bodies_bytes, begin), problem) from problem
            left_bytes = max(0, left_bytes - sum(map(counted_bytes, found)))
            yield begin, found

    def _keeps(self, message: MessageExt, offset_range: range) -> bool:
        """Return whether ``message`` is in ``offset_range`` and has one of the tags, if the decoder has any."""
        return message.queue_offset in offset_range and (self._tags is None or message.tags in self._tags)

    def _has_rows(self, undecodable: UndecodableMessage, offset_range: range) -> bool:
        """Return whether an undecodable message has offsets in ``offset_range``, and one of the tags, if the decoder
        has tags. The tags of an inner batch are unknown, and not compared."""
        is_kept = self._tags is None or undecodable.is_inner_batch or undecodable.message.tags in self._tags
        return is_kept and undecodable.row_count(offset_range) > 0

    def _arrays_of(self, messages: Sequence[MessageExt]) -> list[pa.Array]:
        """Return one array for each column, with one value for each of ``messages``, in order."""
        return [
            pa.array([column.value_in(message) for message in messages], field.type)
            for column, field in zip(self._columns, self.schema, strict=True)
        ]

    def _arrays_without_body(self, messages: Sequence[MessageExt]) -> list[pa.Array]:
        """Return one array for each column, with one value for each of ``messages``, in order; for column ``body``, if
        there is one, only nulls."""
        return [
            pa.nulls(len(messages), field.type) if field.name == BODY else array
            for field, array in zip(self.schema, self._arrays_of(messages), strict=True)
        ]

    def _batch(self, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return a batch of ``arrays``, one for each column of ``schema`` in order, without a copy."""
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _select_offsets(records: RecordIndex, offset_range: range, broker_name: str) -> RecordIndex:
    """Return the records that have messages in ``offset_range``: those that begin in it, and inner batches that begin
    before and reach into it. The layout of all ``records`` must be correct."""
    offsets = records.head["queue_offset"]
    is_inside = (offsets >= offset_range.start) | reach_to(records, offset_range.start, broker_name)
    return records.select((offsets < offset_range.stop) & is_inside)


def _split_offsets(records: RecordIndex, plain_bytes: Mapping[int, int], offset_range: range) -> list[int]:
    """Return, ascending, the offsets at which to split ``offset_range``, so that each part has at most
    DECOMPRESSED_LIMIT_BYTES when decompressed; [] if no split is necessary. A single larger record is not split.
    ``plain_bytes``: decompressed size by byte position of the record; a missing one counts 0."""
    split_at: list[int] = []
    left_bytes = DECOMPRESSED_LIMIT_BYTES
    for offset, begin in sorted(zip(records.head["queue_offset"].tolist(), records.begins.tolist(), strict=True)):
        size_bytes = plain_bytes.get(begin, 0)
        if size_bytes > left_bytes and offset > (split_at or [offset_range.start])[-1]:
            split_at.append(offset)
            left_bytes = DECOMPRESSED_LIMIT_BYTES
        left_bytes -= size_bytes
    return split_at
