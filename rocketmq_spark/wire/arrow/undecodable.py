"""Undecodable messages: their body cannot be read, or their parts are not where their lengths imply.

Such a body is no valid stream, expands beyond the limit, or is no valid inner batch: one whose number of messages is
the number of queue offsets that the broker assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Final, NamedTuple

from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.arrow.record_index import RecordFrames, RecordIndex
from rocketmq_spark.wire.arrow.slices import Mask
from rocketmq_spark.wire.bounds import INNER_MESSAGES
from rocketmq_spark.wire.message.compression import DECOMPRESSED_LIMIT_BYTES, Buffer
from rocketmq_spark.wire.message.stored_message import (
    MAX_OFFSET,
    ROW_BYTES,
    as_stored,
    as_written,
    corrupt_message,
    decode_record,
    offset_count,
    split_records,
)
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

_NO_OFFSET: Final = range(0)


@dataclass(frozen=True, slots=True)
class UndecodableMessage:
    """``message``: with body and sysFlag as stored. ``problem``: why its body cannot be read. ``count``: number of
    queue offsets that the broker assigned."""

    message: MessageExt
    problem: str
    count: int = 1

    @property
    def offsets(self) -> range:
        """Return its ``count`` queue offsets, from that of ``message`` on."""
        return range(self.message.queue_offset, self.message.queue_offset + self.count)

    @property
    def is_inner_batch(self) -> bool:
        return self.message.sys_flag & MessageSysFlag.INNER_BATCH.value != 0

    def rows(self, offset_range: range) -> list[MessageExt]:
        """Return the message once for each of its offsets in ``offset_range``, ascending, with that queue offset; [] if
        none is in it. As in rows of other messages, the sysFlag lacks COMPRESSED unless the body is empty; the body
        stays as stored."""
        sys_flag = self.message.sys_flag
        if self.message.body:
            sys_flag &= ~MessageSysFlag.COMPRESSED.value
        offsets = self._offsets_in(offset_range)
        return [replace(self.message, queue_offset=offset, sys_flag=sys_flag) for offset in offsets]

    def row_count(self, offset_range: range) -> int:
        """Return the number of ``rows``."""
        return len(self._offsets_in(offset_range))

    def rows_bytes(self, offset_range: range) -> int:
        """Return the approximate memory in bytes of ``rows`` and of the columns made from them."""
        text = sum(len(name) + len(value) for name, value in self.message.properties.items())
        return self.row_count(offset_range) * (ROW_BYTES + text)

    def _offsets_in(self, offset_range: range) -> range:
        """Return its offsets that are in ``offset_range``; an empty range if there are none."""
        return range(max(self.offsets.start, offset_range.start), min(self.offsets.stop, offset_range.stop))


class CheckedRecords(NamedTuple):
    """Result of ``check_bodies``, by byte position of the record. ``undecodable``: messages whose body cannot be read.
    ``plain_bytes``: decompressed size of each other checked record; 0 for an inner batch that was unwrapped."""

    undecodable: dict[int, UndecodableMessage]
    plain_bytes: dict[int, int]


def check_bodies(records: RecordIndex, broker_name: str, *, has_body: bool) -> CheckedRecords:
    """Decode suspect records one by one, each within DECOMPRESSED_LIMIT_BYTES. Return the undecodable ones, and the
    decompressed sizes of the decodable ones, 0 for an inner batch. Suspect are inner batches and, with ``has_body``,
    compressed records. The layout of all must be correct. Raise nothing for bodies."""
    is_suspect = records.has_flags(MessageSysFlag.INNER_BATCH)
    if has_body:
        is_suspect |= records.has_flags(MessageSysFlag.COMPRESSED)
    suspects = records.select(is_suspect)
    checked = CheckedRecords({}, {})
    for begin, record, next_offset in _each(suspects):
        try:
            found = decode_record(record, broker_name, DECOMPRESSED_LIMIT_BYTES, next_offset, _NO_OFFSET)
        except ValueError as problem:
            checked.undecodable[begin] = _undecodable(as_stored(record, broker_name), problem, next_offset)
        else:
            checked.plain_bytes[begin] = sum(len(message.body) for message in found)
    return checked


def find_malformed(frames: RecordFrames, broker_name: str) -> dict[int, UndecodableMessage]:
    """Return the messages whose layout contradicts their flags of IPv6 hosts, and is correct without the flags, by byte
    position of their records. Omit correct records and those with other damage; raise nothing for them."""
    malformed: dict[int, UndecodableMessage] = {}
    for begin, record, next_offset in _each(frames):
        try:
            as_stored(record, broker_name)
        except ValueError as problem:
            with suppress(ValueError):
                malformed[begin] = _undecodable(as_written(record, broker_name), problem, next_offset)
    return malformed


def decode_each(
    body: Buffer, next_offsets: Iterable[int] = (), *, broker_name: str
) -> Iterator[MessageExt | UndecodableMessage]:
    """Yield the messages of a pull response body, in order, as ``decode_messages`` would. A record that cannot be
    decoded yields its UndecodableMessage. DECOMPRESSED_LIMIT_BYTES is the limit of each record. ``next_offsets``: those
    of ``RecordFrames``; empty if unknown.

    Raises RemoteProtocolError[CORRUPT_MESSAGE.RESPONSE] at a record whose layout is wrong beyond its flags of IPv6.
    """
    for (index, position, record), next_offset in zip(
        split_records(body), chain(next_offsets, repeat(MAX_OFFSET)), strict=False
    ):
        try:
            yield from decode_record(record, broker_name, DECOMPRESSED_LIMIT_BYTES, next_offset)
        except ValueError as problem:
            try:
                written = as_written(record, broker_name)
            except ValueError:
                raise corrupt_message(index, position, len(body), problem) from problem
            yield _undecodable(written, problem, next_offset)


def reach_to(records: RecordIndex, offset: int, broker_name: str) -> Mask:
    """Return a mask of the inner batches ``[begin, end)`` with begin < ``offset`` < end; ``offset_count`` determines
    the end. Raises ValueError for a wrong layout of a batch that may reach ``offset``: its begin is less than
    INNER_MESSAGES before ``offset``, and its upper limit after ``offset``."""
    begins = records.head["queue_offset"]
    is_before = records.has_flags(MessageSysFlag.INNER_BATCH) & (begins < offset)
    reaches = is_before & (records.next_offsets > offset) & (offset - begins < INNER_MESSAGES.maximum)
    if reaches.any():
        suspects = _each(records.select(reaches))
        counted = [offset_count(as_stored(record, broker_name), next_offset) for _, record, next_offset in suspects]
        reaches[reaches] = begins[reaches] + counted > offset
    return reaches


def _each(frames: RecordFrames) -> Iterator[tuple[int, memoryview, int]]:
    """Yield for each record its byte position, its bytes as a view, and the upper limit (exclusive) of its queue
    offsets."""
    data = memoryview(frames.data)
    bounds = (frames.begins.tolist(), frames.ends.tolist(), frames.next_offsets.tolist())
    for begin, end, next_offset in zip(*bounds, strict=True):
        yield begin, data[begin:end], next_offset


def _undecodable(message: MessageExt, problem: ValueError, next_offset: int) -> UndecodableMessage:
    """Return ``message`` as undecodable because of ``problem``, with the queue offsets that ``offset_count`` counts."""
    return UndecodableMessage(message, str(problem), offset_count(message, next_offset))
