"""Columns of many records, each as one Arrow array."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.wire.arrow.arrow_types import TIMESTAMP_TYPE
from rocketmq_spark.wire.arrow.column_table import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS, Column
from rocketmq_spark.wire.arrow.property_table import PropertyTable, read_properties
from rocketmq_spark.wire.arrow.record_index import COMMIT_LOG_OFFSET_AT, HEAD, TAIL, TIMESTAMP, RecordIndex, gather
from rocketmq_spark.wire.arrow.slices import Positions, as_text, cut
from rocketmq_spark.wire.message.compression import decompress
from rocketmq_spark.wire.message.properties import KEYS, ORIGIN_MESSAGE_ID, RETRY_TOPIC, TAGS, UNIQ_KEY
from rocketmq_spark.wire.message.stored_message import format_host
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.dtype("V2"))


class DamagedBodyError(ValueError):
    """A compressed body cannot be decompressed. The scalar decoder finds which one, and why."""


class RecordColumns:
    """Columns of records without inner batches, each computed on call, with one value per record. ``ColumnDecoder``
    reads them.

    Methods have the names and values of MessageExt's attributes. Only times differ: they are in microseconds, and null
    where ``TIMESTAMP_TYPE`` cannot hold them. ``body`` raises DamagedBodyError, also if all compressed bodies together
    exceed ``limit_bytes``.
    """

    def __init__(self, records: RecordIndex, broker_name: str, limit_bytes: int) -> None:
        self._records = records
        self._limit_bytes = limit_bytes
        self._broker_name = broker_name

    def values_of(self, column: Column) -> pa.Array:
        """Return the values of a message column or property, one per record; null for a missing property or a time out
        of range. Raises DamagedBodyError for column ``body``, as ``body`` does."""
        if (name := column.property_name) is not None:
            return self.properties_table.value_of(name)
        values: pa.Array = getattr(self, column.field)()
        return values

    def topic(self) -> pa.StringArray:
        return as_text(self._cut(self._records.topic_begins, self._records.topic_ends))

    def broker_name(self) -> pa.StringArray:
        return pa.repeat(pa.scalar(self._broker_name), len(self._records))

    def queue_id(self) -> pa.Int32Array:
        return _integers(self._records.head["queue_id"])

    def queue_offset(self) -> pa.Int64Array:
        return _integers(self._records.head["queue_offset"])

    def msg_id(self) -> pa.StringArray:
        """Return the message ID that the producer assigned (UNIQ_KEY), else the offsetMsgId."""
        producers_id = self.properties_table.value_of(UNIQ_KEY)
        return pc.coalesce(producers_id, self.offset_msg_id()) if producers_id.null_count else producers_id

    def origin_topic(self) -> pa.StringArray:
        """Return the topic before the message was sent back for retry (RETRY_TOPIC), or the topic in which it is stored
        if it was not sent back."""
        return pc.coalesce(self.properties_table.value_of(RETRY_TOPIC), self.topic())

    def origin_msg_id(self) -> pa.StringArray:
        """Return the message ID before the message was sent back for retry: UNIQ_KEY, else ORIGIN_MESSAGE_ID, else the
        offsetMsgId."""
        ids = (self.properties_table.value_of(name) for name in (UNIQ_KEY, ORIGIN_MESSAGE_ID))
        return pc.coalesce(*ids, self.offset_msg_id())

    def keys(self) -> pa.StringArray:
        """Return the property KEYS; null where it is missing."""
        return self.properties_table.value_of(KEYS)

    def tags(self) -> pa.StringArray:
        """Return the property TAGS; null where it is missing."""
        return self.properties_table.value_of(TAGS)

    def body(self) -> pa.BinaryArray:
        """Return the bodies, compressed ones decompressed. Raises DamagedBodyError if one cannot be decompressed, or if
        the decompressed ones together exceed ``limit_bytes``."""
        begins, ends = self._records.tails + TAIL.itemsize, self._records.body_ends
        stored = self._cut(begins, ends)
        is_packed = self._records.has_flags(MessageSysFlag.COMPRESSED) & (begins < ends)
        if not is_packed.any():
            return stored
        plain = self._unpacked(begins[is_packed], ends[is_packed], self._records.head["sys_flag"][is_packed])
        return pc.replace_with_mask(stored, pa.array(is_packed), plain)

    def _unpacked(self, begins: Positions, ends: Positions, sys_flags: npt.NDArray[Any]) -> pa.BinaryArray:
        """Return the decompressed bodies, in order; body i, compressed, is ``data[begins[i]:ends[i]]``. Raises
        DamagedBodyError if one cannot be decompressed, or if they exceed ``limit_bytes`` together."""
        data, left_bytes = memoryview(self._records.data), self._limit_bytes
        plain: list[bytes] = []
        for begin, end, sys_flag in zip(begins.tolist(), ends.tolist(), sys_flags.tolist(), strict=True):
            try:
                plain.append(decompress(data[begin:end], sys_flag, left_bytes))
            except ValueError as problem:
                raise DamagedBodyError from problem
            left_bytes -= len(plain[-1])
        return pa.array(plain, pa.binary())

    def properties(self) -> pa.MapArray:
        return self.properties_table.as_map()

    def born_timestamp_ms(self) -> pa.TimestampArray:
        """Return the born times as TIMESTAMP_TYPE, in microseconds, not ms; null where it cannot hold them."""
        return _timestamps(self._records.head["born_timestamp_ms"])

    def store_timestamp_ms(self) -> pa.TimestampArray:
        """Return the store times as TIMESTAMP_TYPE, in microseconds, not ms; null where it cannot hold them."""
        return _timestamps(gather(self._records.data, TIMESTAMP, self._records.store_timestamps))

    def reconsume_times(self) -> pa.Int32Array:
        return _integers(self._records.tail["reconsume_times"])

    def born_host(self) -> pa.StringArray:
        """Return the producers' hosts as ``ip:port``, IPv6 in brackets."""
        return _hosts(self._cut(self._records.begins + HEAD.itemsize, self._records.store_timestamps))

    def store_host(self) -> pa.StringArray:
        """Return the brokers' hosts as ``ip:port``, IPv6 in brackets."""
        return _hosts(self._stored_store_hosts())

    def offset_msg_id(self) -> pa.StringArray:
        """Return the offsetMsgId: stored store host and commit log offset, in upper-case hex."""
        place = self._records.begins + COMMIT_LOG_OFFSET_AT
        offsets = self._cut(place, place + TIMESTAMP.itemsize)
        return _upper_hex(pc.binary_join_element_wise(self._stored_store_hosts(), offsets, b""))

    def commit_log_offset(self) -> pa.Int64Array:
        return _integers(self._records.head["commit_log_offset"])

    def sys_flag(self) -> pa.Int32Array:
        """Return sysFlags without COMPRESSED where the body is not empty, as ``body`` decompresses it."""
        stored = self._records.head["sys_flag"]
        return _integers(
            np.where(self._records.tail["body_bytes"] > 0, stored & ~MessageSysFlag.COMPRESSED.value, stored)
        )

    def flag(self) -> pa.Int32Array:
        return _integers(self._records.head["flag"])

    def body_crc(self) -> pa.Int32Array:
        return _integers(self._records.head["body_crc"])

    @cached_property
    def properties_table(self) -> PropertyTable:
        """Parse the properties of all records with the first call; later calls return the same table."""
        return read_properties(self._records)

    @cached_property
    def _buffer(self) -> pa.Buffer:
        return pa.py_buffer(self._records.data)

    def _cut(self, begins: Positions, ends: Positions) -> pa.BinaryArray:
        """Return a copy of the bytes ``[begins[i], ends[i])`` of the records' data, one value for each ``i``."""
        return cut(self._buffer, begins, ends)

    def _stored_store_hosts(self) -> pa.BinaryArray:
        """Return the brokers' hosts as stored: IP address and port, 8 or 20 bytes each."""
        return self._cut(self._records.store_timestamps + TIMESTAMP.itemsize, self._records.tails)


def _integers(stored: npt.NDArray[Any]) -> pa.Array:
    """Return big-endian numbers as an Arrow array."""
    return pa.array(stored.astype(stored.dtype.newbyteorder("=")))


def _timestamps(stored_ms: npt.NDArray[np.int64]) -> pa.TimestampArray:
    """Return times in ms as TIMESTAMP_TYPE, in microseconds; null before FIRST_TIMESTAMP_MS and after
    LAST_TIMESTAMP_MS."""
    milliseconds = stored_ms.astype(np.int64)
    is_out_of_range = (milliseconds > LAST_TIMESTAMP_MS) | (milliseconds < FIRST_TIMESTAMP_MS)
    return pa.array(milliseconds * 1000, mask=is_out_of_range if is_out_of_range.any() else None).view(TIMESTAMP_TYPE)


def _hosts(stored: pa.BinaryArray) -> pa.StringArray:
    """Return stored hosts (8 or 20 bytes each) as text, see ``format_host``."""
    distinct = stored.dictionary_encode()
    return pa.array([format_host(host) for host in distinct.dictionary.to_pylist()], pa.string()).take(distinct.indices)


def _upper_hex(values: pa.BinaryArray) -> pa.StringArray:
    """Return the bytes of each value in upper-case hexadecimal. ``values`` has no null and is no slice; neither is
    checked."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(values) + 1] * np.int32(2)
    text = _HEX[np.frombuffer(data, np.uint8)]
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(text)])
