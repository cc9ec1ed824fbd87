"""One queue of a broker, as a plain object, and what it stores of a producer that is believed nothing.

It follows ``SendMessageProcessor``, ``MessageExtEncoder``, ``CommitLog#checkMessageAndReturnSize``, by which a broker
builds its consume queues, ``ConsumeQueue``, ``BatchConsumeQueue`` and ``DefaultMessageStore#getMessage`` of 4.9.7 and
5.5.0. Every producer has an IPv4 host here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from connector_tests.support.message_bytes import BORN_HOST_V6, STORE_HOST_V6, Record
from rocketmq_spark.wire.message.properties import decode_properties
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

NEED_UNWRAP: Final = 0x40
INNER: Final = 0x80
TRANSACTION: Final = 0xC
COMMIT: Final = 0x8
IPV6_MORE_BYTES: Final = 12
SHORT_MAX: Final = 2**15 - 1
SCANNED: Final = 50
"""Messages that a filtering broker checks for one answer, at most; 800 in truth."""
FAR: Final = 50
"""Offsets over which a broker searches for one filtered answer, at most; a thousand in truth."""

_JAVA_NUMBER: Final = re.compile(r"[+-]?\d+")
_FIXED: Final = struct.Struct(">iiiiiqqiq")


class QueueKind(Enum):
    """What a queue is kept in, and by which version."""

    OLD = "4.9.7"
    ORDINARY = "5.5.0"
    BATCH = "5.5.0, batch consume queue"


@dataclass(frozen=True)
class Sent:
    """One message as a producer sends it."""

    body: bytes
    sys_flag: int = 0
    properties: Mapping[str, str] | bytes = field(default_factory=dict)
    """Bytes: as a message of a producer's batch has them, which brokers store unread."""
    born_timestamp_ms: int = 0

    @property
    def tag(self) -> str | None:
        return self.decoded.get("TAGS")

    @property
    def decoded(self) -> Mapping[str, str]:
        """The properties as brokers read them."""
        return decode_properties(self.properties) if isinstance(self.properties, bytes) else self.properties

    @property
    def is_half(self) -> bool:
        """Whether brokers store it elsewhere, as the first half of a transaction; a batch has none."""
        return not isinstance(self.properties, bytes) and self.properties.get("TRAN_MSG", "").lower() == "true"


@dataclass(frozen=True)
class Entry:
    """A message in the consume queue: it has the offsets ``[place, place + width)``."""

    place: int
    width: int
    commit_log_offset: int
    record: bytes
    sent: Sent

    @property
    def end(self) -> int:
        return self.place + self.width

    @property
    def stored_offset(self) -> int:
        """The queue offset in the record; behind messages that no consumer gets it is larger than the place."""
        return int(_FIXED.unpack_from(self.record)[5])


class HostileQueue:
    """Queue 0 of ``topic``."""

    def __init__(self, kind: QueueKind, topic: str) -> None:
        self.kind = kind
        self.topic = topic
        self._next_offset = 0
        self._commit_log_bytes = 0
        self.entries: list[Entry] = []
        self.pulls = 0
        """How many were answered."""
        self.was_restarted = False

    @property
    def min_offset(self) -> int:
        return self.entries[0].place if self.entries else 0

    @property
    def max_offset(self) -> int:
        return self.entries[-1].end if self.entries else 0

    @property
    def _bounds(self) -> tuple[int, int]:
        return self.min_offset, self.max_offset

    def restart(self) -> None:
        """Restart the broker: it takes the next offset from the consume queue."""
        self._next_offset = self.max_offset
        self.was_restarted = True

    def send(self, sent: Sent) -> bool:
        """Store it; False: the broker refuses it."""
        if self._is_refused(sent):
            return False
        if sent.is_half:
            return True
        is_prepared = sent.sys_flag & TRANSACTION not in (0, COMMIT)
        offset, width = (0, 0) if is_prepared else (self._next_offset, self._count(sent))
        if self.kind is QueueKind.BATCH and sent.sys_flag & INNER:
            sent = replace(sent, properties={**sent.decoded, "INNER_BASE": str(offset)})
        stored = encoded(sent, self.topic, offset, self._commit_log_bytes)
        commit_log_offset, self._commit_log_bytes = self._commit_log_bytes, self._commit_log_bytes + len(stored)
        self._next_offset += width
        if not is_prepared and self._is_dispatched(stored):
            self._append(offset, width, commit_log_offset, stored, sent)
        return True

    def _is_refused(self, sent: Sent) -> bool:
        """Brokers check no property of a batch's messages."""
        text = None if isinstance(sent.properties, bytes) else sent.properties.get("INNER_NUM")
        if self.kind is QueueKind.OLD:
            return False
        if not sent.sys_flag & INNER:
            return text is not None
        return self.kind is not QueueKind.BATCH or (text is not None and _java_short(text) is None)

    def _count(self, sent: Sent) -> int:
        if self.kind is not QueueKind.BATCH or not sent.sys_flag & INNER:
            return 1
        return max(1, _java_short(sent.decoded.get("INNER_NUM", "1")) or 1)

    def _is_dispatched(self, record: bytes) -> bool:
        """Whether the broker finds in the record what it takes for one of this topic."""
        found = _as_the_broker_reads(record)
        if found is None:
            return False
        topic, properties = found
        count = _java_short(properties.get("INNER_NUM", "")) if "INNER_BASE" in properties else None
        is_lost_batch = self.kind is QueueKind.BATCH and count is not None and count < 0
        return topic == self.topic and not is_lost_batch

    def _append(self, offset: int, width: int, commit_log_offset: int, record: bytes, sent: Sent) -> None:
        """An ordinary consume queue has no places that are empty, but in front of its first message, which gets that of
        its offset (``ConsumeQueue#fillPreBlank``)."""
        place = offset if self.kind is QueueKind.BATCH or not self.entries else self.max_offset
        self.entries.append(Entry(place, width, commit_log_offset, record, sent))

    def pull(self, offset: int, max_messages: int, tags: frozenset[str] | None = None) -> PullResult:
        """An answer as brokers give it: from the entry on that has the offset, or else, of a batch consume queue, from
        the one before."""
        self.pulls += 1
        if offset >= self.max_offset:
            return PullResult(PullStatus.NO_NEW_MSG, "OFFSET_OVERFLOW_ONE", offset, *self._bounds, memoryview(b""))
        if offset < self.min_offset:
            least = self.min_offset
            return PullResult(PullStatus.OFFSET_ILLEGAL, "OFFSET_TOO_SMALL", least, *self._bounds, memoryview(b""))
        begin = sum(entry.end <= offset for entry in self.entries)
        if self.kind is QueueKind.BATCH and self.entries[begin].place > offset:
            begin = max(0, begin - 1)
        found: list[bytes] = []
        next_offset, count = offset, 0
        for entry in self.entries[begin : begin + SCANNED]:
            is_far = tags is not None and entry.place > offset + max(FAR, max_messages)
            if is_far or (found and count + entry.width > max_messages):
                break
            next_offset = entry.end
            if tags is None or entry.sent.tag in tags:
                found.append(entry.record)
                count += entry.width
        status, reason = (PullStatus.FOUND, "FOUND") if found else (PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE")
        return PullResult(status, reason, next_offset, *self._bounds, memoryview(b"".join(found)))


def encoded(sent: Sent, topic: str, offset: int, commit_log_offset: int) -> bytes:
    """As brokers encode it. Where the flags state IPv6 they count its bytes, write IPv4, and leave behind the record
    what their buffer had there."""
    record = bytearray(
        Record(
            topic=topic,
            body=sent.body,
            properties=sent.properties,
            queue_offset=offset,
            commit_log_offset=commit_log_offset,
            born_timestamp_ms=sent.born_timestamp_ms,
            store_timestamp_ms=1_700_000_000_000,
        ).encode()
    )
    more = IPV6_MORE_BYTES * sum(sent.sys_flag & flag != 0 for flag in (BORN_HOST_V6, STORE_HOST_V6))
    struct.pack_into(">i", record, 0, len(record) + more)
    struct.pack_into(">i", record, 36, sent.sys_flag)
    return bytes(record) + bytes(more)


def _as_the_broker_reads(record: bytes) -> tuple[str, dict[str, str]] | None:
    """Topic and properties; None where it finds that lengths are wrong. A length below 0 is none to it."""
    try:
        *_, sys_flag, _ = _FIXED.unpack_from(record)
        position = _FIXED.size + (20 if sys_flag & BORN_HOST_V6 else 8) + 8
        position += (20 if sys_flag & STORE_HOST_V6 else 8) + 12
        (body_bytes,) = struct.unpack_from(">i", record, position)
        position += 4 + max(0, body_bytes)
        (topic_bytes,) = struct.unpack_from(">b", record, position)
        if topic_bytes < 0:
            return None
        topic = record[position + 1 : position + 1 + topic_bytes]
        position += 1 + topic_bytes
        (properties_bytes,) = struct.unpack_from(">h", record, position)
    except struct.error:
        return None
    end = position + 2 + max(0, properties_bytes)
    properties = record[position + 2 : end]
    return (topic.decode(errors="replace"), decode_properties(properties)) if end == len(record) else None


def _java_short(text: str) -> int | None:
    """``Short.parseShort``; None where it raises."""
    if not _JAVA_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -SHORT_MAX - 1 <= number <= SHORT_MAX else None
