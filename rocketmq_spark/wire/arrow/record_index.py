"""Positions of the parts of many stored records: the layout of ``stored_message.py``, read and checked with numpy."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from rocketmq_spark.wire.arrow.slices import Mask, Numbers, Positions
from rocketmq_spark.wire.message.compression import Buffer
from rocketmq_spark.wire.message.stored_message import (
    IPV4_HOST_BYTES,
    IPV6_HOST_BYTES,
    MAX_OFFSET,
    MIN_RECORD_BYTES,
    MessageMagic,
)
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

HEAD: Final = np.dtype(
    [
        ("total_bytes", ">i4"),
        ("magic", ">i4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("commit_log_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp_ms", ">i8"),
    ]
)
"""Begin of every record; the born host follows."""

TAIL: Final = np.dtype([("reconsume_times", ">i4"), ("prepared_transaction_offset", ">i8"), ("body_bytes", ">i4")])
"""Fields after the store host; the body follows."""

TIMESTAMP: Final = np.dtype(">i8")
LENGTH: Final = np.dtype(">i2")
QUEUE_OFFSET_AT: Final = 20
COMMIT_LOG_OFFSET_AT: Final = 28

_DATA_LIMIT_BYTES: Final = 2**31
_SIZE: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")


class DamagedRecordError(ValueError):
    """A record has a wrong layout. The scalar decoder finds which one, and why."""


ResponseOffsets: TypeAlias = Sequence[tuple[int, int]]
"""For each body the queue offsets ``[begin, next)`` of its response: the offset of the pull, and the broker's next
offset. Empty if unknown."""


@dataclass(frozen=True, slots=True)
class RecordFrames:
    """Begins and ends of ``n`` records in ``data``, the joined pull response bodies; arrays have one entry per record.

    ``next_offsets``: upper limits (exclusive) of each record's queue offsets; MAX_OFFSET without inner batch or
    response offsets. ``max_displacement``: maximum of a record's stored offset minus its actual one.
    """

    data: bytes
    max_displacement: int
    begins: Positions
    ends: Positions
    head: npt.NDArray[np.void]
    next_offsets: Positions

    def __len__(self) -> int:
        return len(self.begins)

    def select(self, mask: Mask) -> Self:
        """Return the records for which ``mask`` is true; the same object if all are."""
        if mask.all():
            return self
        arrays = (getattr(self, field.name) for field in fields(self)[2:])
        return type(self)(self.data, self.max_displacement, *(array[mask] for array in arrays))


@dataclass(frozen=True, slots=True)
class RecordIndex(RecordFrames):
    """Positions of the parts of the records, absolute in ``data``.

    Between them are: born host ``[begins + HEAD, store_timestamps)``, store host ``[store_timestamps + 8, tails)``,
    body ``[tails + TAIL, body_ends)``, topic ``[topic_begins, topic_ends)``, properties ``[topic_ends + 2, ends)``.
    """

    store_timestamps: Positions
    tails: Positions
    tail: npt.NDArray[np.void]
    body_ends: Positions
    topic_begins: Positions
    topic_ends: Positions

    def has_flags(self, flags: MessageSysFlag) -> Mask:
        """Return for each record whether its sysFlag has all of ``flags``."""
        found: Mask = self.head["sys_flag"] & flags.value == flags.value
        return found


def frame_records(
    bodies: Sequence[Buffer], response_offsets: ResponseOffsets = (), *, is_unfiltered: bool = False
) -> RecordFrames:
    """Join pull response bodies, and find their records. Raises DamagedRecordError for a wrong size or magic number.
    Bodies of 2 GiB together fail an assertion.

    ``response_offsets``: empty, or one pair for each body. ``is_unfiltered``: each response has all messages of its
    offsets. With both, queue offsets are counted (``_places``). Where a stored offset differs, the joined data has the
    counted one.
    """
    data = b"".join(bodies)
    assert len(data) < _DATA_LIMIT_BYTES, "Arrow's 32-bit offsets would overflow"
    bodies_bytes = [len(body) for body in bodies]
    begins = _follow_sizes(data, bodies_bytes)
    ends = np.append(begins[1:], len(data))
    head = gather(data, HEAD, begins)
    _require((head["magic"] == MessageMagic.V1) | (head["magic"] == MessageMagic.V2))
    next_offsets, max_displacement = np.broadcast_to(np.int64(MAX_OFFSET), len(begins)), 0
    if response_offsets:
        counts = np.diff(np.searchsorted(begins, np.cumsum([0, *bodies_bytes])))
        if is_unfiltered and (places := _places(head["queue_offset"], counts, response_offsets)) is not None:
            max_displacement = int((head["queue_offset"] - places).max())
            data = _at_places(data, begins, places)
            head = gather(data, HEAD, begins)
        if (head["sys_flag"] & MessageSysFlag.INNER_BATCH.value).any():
            next_offsets = _next_offsets(head["queue_offset"], counts, response_offsets)
    return RecordFrames(data, max_displacement, begins, ends, head, next_offsets)


def _places(
    stored: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], response_offsets: ResponseOffsets
) -> npt.NDArray[np.int64] | None:
    """Return the queue offset of each record, or None if all equal the stored ones. The offset is the response's first
    offset plus the record's position if the response can be counted, else the stored offset. ``stored``: stored offset
    of each record. ``counts``: number of records of each response.

    A broker writes an offset into a message before it adds the message to the consume queue. If that fails, it delivers
    each later message one offset before the stored one, until it restarts. A response can be counted if it has one
    record for each of its offsets, and no stored offset is smaller than the counted one.
    """
    firsts, afters = np.array(response_offsets, np.int64).T
    begins = np.cumsum(counts) - counts
    if np.array_equal(stored, np.arange(len(stored)) + np.repeat(firsts - begins, counts)):
        return None
    places = stored.astype(np.int64)
    for begin, count, first, after in zip(begins, counts, firsts, afters, strict=True):
        if count == after - first:
            counted = np.arange(first, after)
            if (places[begin : begin + count] >= counted).all():
                places[begin : begin + count] = counted
    return None if np.array_equal(places, stored) else places


def _at_places(data: bytes, begins: Positions, places: npt.NDArray[np.int64]) -> bytes:
    """Return a copy of ``data`` in which the record at ``begins[i]`` has ``places[i]`` as its queue offset. ``data`` is
    unchanged; both arrays have the same length."""
    changed = bytearray(data)
    for begin, place in zip(begins.tolist(), places.tolist(), strict=True):
        _OFFSET.pack_into(changed, begin + QUEUE_OFFSET_AT, place)
    return bytes(changed)


def _next_offsets(
    offsets: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], response_offsets: ResponseOffsets
) -> Positions:
    """Return for each record the next larger queue offset among all records, but at most the end of its own response.
    ``offsets``: queue offset of each record; ``counts``: number of records of each response."""
    ascending = np.append(np.unique(offsets), MAX_OFFSET)
    following: Positions = ascending[np.searchsorted(ascending, offsets, side="right").clip(max=len(ascending) - 1)]
    response_ends = np.repeat(np.array([after for _, after in response_offsets], np.int64), counts)
    return np.minimum(following, response_ends)


def index_records(frames: RecordFrames) -> RecordIndex:
    """Find the positions of the parts of all records; copy no part. Raises DamagedRecordError if a length in a record
    is wrong, or its parts do not end with the record."""
    data, begins, ends, head, next_offsets = frames.data, frames.begins, frames.ends, frames.head, frames.next_offsets
    is_v1 = head["magic"] == MessageMagic.V1
    store_timestamps = begins + HEAD.itemsize + _host_bytes(head, MessageSysFlag.BORNHOST_V6)
    tails = store_timestamps + TIMESTAMP.itemsize + _host_bytes(head, MessageSysFlag.STOREHOST_V6)
    _require(tails + TAIL.itemsize <= ends)
    tail = gather(data, TAIL, tails)
    body_ends = tails + TAIL.itemsize + tail["body_bytes"]
    topic_begins = body_ends + np.where(is_v1, 1, 2)
    _require((tail["body_bytes"] >= 0) & (topic_begins + LENGTH.itemsize <= ends))
    lengths = gather(data, LENGTH, body_ends).astype(np.int64)
    topic_lengths = np.where(is_v1, lengths >> 8, lengths)
    topic_ends = topic_begins + topic_lengths
    _require((topic_lengths >= 0) & (topic_ends + LENGTH.itemsize <= ends))
    properties_bytes = gather(data, LENGTH, topic_ends)
    _require(topic_ends + LENGTH.itemsize + properties_bytes == ends)
    framed = (data, frames.max_displacement, begins, ends, head, next_offsets)
    return RecordIndex(*framed, store_timestamps, tails, tail, body_ends, topic_begins, topic_ends)


def locate(data: bytes, bodies_bytes: Sequence[int], position: int) -> tuple[int, int, int]:
    """Return (index of a record in its body, its position there, length of that body). ``position``: byte position at
    which the record begins in ``data``, the joined bodies of ``bodies_bytes`` each. A position beyond all bodies raises
    AssertionError."""
    body_begin = 0
    for body_bytes in bodies_bytes:
        if position < body_begin + body_bytes:
            before = data[body_begin:position]
            return len(_follow_sizes(before, [len(before)])), len(before), body_bytes
        body_begin += body_bytes
    raise AssertionError(f"no body has position {position}")


def gather(data: Any, kind: np.dtype[Any], positions: Positions | Numbers) -> npt.NDArray[Any]:
    """Return a copy of the values of type ``kind`` at byte ``positions`` of ``data``, which may be unaligned. A
    position where no whole value fits raises IndexError."""
    everywhere = np.ndarray((max(0, len(data) - kind.itemsize + 1),), np.dtype((np.void, kind.itemsize)), data, 0, (1,))
    found: npt.NDArray[Any] = everywhere[positions].view(kind)
    return found


def _follow_sizes(data: bytes, bodies_bytes: Sequence[int]) -> Positions:
    """Return the begin of each record in ``data``, which joins bodies of ``bodies_bytes`` each. Raises
    DamagedRecordError for a record smaller than the minimum, and for a body that does not end with a record."""
    begins: list[int] = []
    append, unpack = begins.append, _SIZE.unpack_from
    position = body_end = 0
    for body_bytes in bodies_bytes:
        body_end += body_bytes
        last_begin = body_end - MIN_RECORD_BYTES
        while position <= last_begin:
            append(position)
            (total_bytes,) = unpack(data, position)
            if total_bytes < MIN_RECORD_BYTES:
                raise DamagedRecordError
            position += total_bytes
        if position != body_end:
            raise DamagedRecordError
    return np.array(begins, np.int64)


def _host_bytes(head: npt.NDArray[np.void], ipv6_flag: MessageSysFlag) -> Positions:
    """Return the size of a host in each record: 20 where the sysFlag has ``ipv6_flag``, else 8."""
    return np.where(head["sys_flag"] & ipv6_flag.value, IPV6_HOST_BYTES, IPV4_HOST_BYTES)


def _require(holds: Mask) -> None:
    """Raise DamagedRecordError unless ``holds`` is true for all records."""
    if not holds.all():
        raise DamagedRecordError
