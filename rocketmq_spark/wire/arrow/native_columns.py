"""Column decoder with the native fast path (Rust, ``native/``). Importing this module fails without the extension.

The fast path decodes all of a call or nothing. It rejects damage, inner batches, messages not at their stored offsets
(unchecked in filtered bodies), compressed bodies if ``body`` is a column, text that is not UTF-8, times beyond the
range of a column, repeated property names or more than 256, IPv4 in IPv6. ``columns.ColumnDecoder`` decodes such calls,
and reports errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import pyarrow as pa

from rocketmq_spark.wire import _native
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.arrow.record_index import ResponseOffsets
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.message.compression import Buffer

Memories: TypeAlias = Sequence[_native.Memory | None]


class NativeColumnDecoder(ColumnDecoder):
    """``ColumnDecoder`` with the same results that is faster where the native decoder accepts a call."""

    implementation: ClassVar = "native"

    def __init__(
        self,
        columns: Sequence[str],
        *,
        broker_name: str,
        tags: frozenset[str] | None,
        is_unfiltered: bool | None = None,
        restores_origin: bool = False,
    ) -> None:
        super().__init__(
            columns, broker_name=broker_name, tags=tags, is_unfiltered=is_unfiltered, restores_origin=restores_origin
        )
        fields = [column.field for column in self._columns]
        self._is_supported = tags is None or not is_unfiltered
        self._native_decoder = _native.Decoder(fields, broker_name, None if tags is None else sorted(tags))

    def decode(self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int) -> pa.RecordBatch:
        """Decode as ``ColumnDecoder.decode`` does, with the same result and errors, but by the native decoder if it
        accepts the call. Releases the GIL; no other thread may write to the bodies meanwhile."""
        batch = self.decode_fast_path(bodies, begin_offset, end_offset)
        return super().decode(bodies, begin_offset, end_offset) if batch is None else batch

    def decode_with_undecodable(
        self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int, response_offsets: ResponseOffsets = ()
    ) -> tuple[pa.RecordBatch, list[UndecodableMessage]]:
        """Decode as ``ColumnDecoder.decode_with_undecodable`` does, with the same result and errors. If the native
        decoder accepts the call, no message is undecodable."""
        batch = self.decode_fast_path(bodies, begin_offset, end_offset, response_offsets)
        return (
            super().decode_with_undecodable(bodies, begin_offset, end_offset, response_offsets)
            if batch is None
            else (batch, [])
        )

    def decode_fast_path(
        self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int, response_offsets: ResponseOffsets = ()
    ) -> pa.RecordBatch | None:
        """Decode like ``decode``, but return None if the native decoder rejects the call, also for damage, or if bodies
        are unfiltered but there are tags. Raises no RemoteProtocolError. ``response_offsets`` have no effect on
        filtered bodies."""
        if not self._is_supported:
            return None
        counted = response_offsets if self._is_unfiltered else ()
        decoded = self._native_decoder.decode(bodies, begin_offset, end_offset, counted)
        return None if decoded is None else _batch(self.schema, *decoded)

    def batch_builder(self, data_bytes: int, max_rows: int) -> NativeBatchBuilder | None:
        """Return a builder for about ``data_bytes`` of bodies and at most ``max_rows`` rows. Return None if bodies are
        unfiltered but there are tags."""
        if not self._is_supported:
            return None
        builder = self._native_decoder.new_batch(data_bytes, max_rows)
        return NativeBatchBuilder(self.schema, builder, is_unfiltered=self._is_unfiltered)


class NativeBatchBuilder:
    """Builder of one batch with the native decoder, see ``BatchBuilder``. Releases the GIL; no other thread may write
    to the bodies meanwhile. Not thread-safe."""

    def __init__(self, schema: pa.Schema, batch_builder: _native.Growing, *, is_unfiltered: bool) -> None:
        self._schema = schema
        self._builder = batch_builder
        self._is_unfiltered = is_unfiltered

    def add(
        self, bodies: Sequence[Buffer], begin_offset: int, end_offset: int, response_offsets: ResponseOffsets = ()
    ) -> bool:
        """Decode ``bodies``, append their rows with offsets in ``[begin_offset, end_offset)``, and return True. Return
        False, with the batch unchanged, if the native decoder cannot decode all."""
        counted = response_offsets if self._is_unfiltered else ()
        return self._builder.add(bodies, begin_offset, end_offset, counted)

    def finish(self) -> pa.RecordBatch:
        """Return the batch of all appended rows, without a copy. The builder must not be used afterwards."""
        return _batch(self._schema, *self._builder.finish())


def _batch(schema: pa.Schema, row_count: int, memories: Sequence[Memories]) -> pa.RecordBatch:
    """Return a batch of ``row_count`` rows on ``memories``, without a copy; ``memories``: those of each column in
    order, see ``_array``."""
    arrays = [_array(field.type, row_count, parts) for field, parts in zip(schema, memories, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, length: int, memories: Memories) -> pa.Array:
    """Return an array of ``length`` values on ``memories``, without a copy. ``memories``: Arrow's buffers of the type,
    in order; None for a missing one. A map has row offsets, then offsets and data of names, then of values."""
    if pa.types.is_map(kind):
        row_begins = _array(pa.int32(), length + 1, [None, memories[0]])
        count = row_begins[-1].as_py()
        names, values = (_array(pa.string(), count, [None, *memories[at : at + 2]]) for at in (1, 3))
        return pa.MapArray.from_arrays(row_begins, names, values)
    buffers = [None if memory is None else pa.py_buffer(memory) for memory in memories]
    return pa.Array.from_buffers(kind, length, buffers)
