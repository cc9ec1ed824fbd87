"""Receipt handles: identifiers of delivered messages, by which servers accept acknowledgements and changes.

A broker's handle is ``check point offset, time, invisibility, revive queue, retry flag, broker, queue, offset``. A
proxy adds the commit log offset, which no server needs. Any process can use it, over any connection, until the message
is acknowledged, changed or redelivered. Handles of one queue and one response differ only in the last number, and are
encoded together. Handles of another format are kept unchanged.

Source: ``remoting/protocol/header/ExtraInfoUtil.java``, ``common/consumer/ReceiptHandle.java``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Self, TypeAlias

from rocketmq_spark.model import retry_topic
from rocketmq_spark.wire.bounds import CHECKPOINT_MESSAGES, POP_OFFSETS

NORMAL_TOPIC: Final = "0"
"""The retry flag of the topic itself; its retry topics have other flags."""

ORDER_REVIVE_QUEUE: Final = 999
"""The revive queue in handles of FIFO messages: an acknowledgement by such a handle sets the group's offset.

Source: ``common/KeyBuilder.java#POP_ORDER_REVIVE_QUEUE``.
"""

MAX_INVISIBLE_MS: Final = 43_200_000
"""The largest ``invisibleDurationMs``."""

MAX_CLOCK_LAG_MS: Final = 600_000
"""Assumed maximum by which a broker's clock is behind this host's."""

MAX_CLOCK_LEAD_MS: Final = 365 * 24 * 3_600_000
"""Assumed maximum by which a broker's clock is ahead of this host's."""

_RETRY_TOPIC_SEPARATORS: Final = {"1": "_", "2": "+"}
_WORD_COUNT: Final = 8
_MIN_WORD_COUNT: Final = 5
"""A proxy fails by itself on a property ``POP_CK`` with fewer words.

Source: ``remoting/protocol/header/ExtraInfoUtil.java#getRetry``.
"""

_RUN: Final = re.compile("(-?[0-9]+)(?:-(-?[0-9]+))?")


class PopCheckPoint(NamedTuple):
    """The common part of the handles of one queue and one response. ``topic``: the topic that was polled."""

    topic: str
    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """Return all fields, the topic first, joined by blanks."""
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, topic: str, words: Iterable[str]) -> Self:
        """Return the check point of ``topic`` and ``words``, its seven other fields as texts, in their order. The
        broker's name may be several words, because it may contain blanks. Raises ValueError for fewer words, an unknown
        retry flag, or text in place of a number."""
        start, pop_time, invisible, revive, retry, first_of_name, *rest_of_name, queue_id = words
        if retry != NORMAL_TOPIC and retry not in _RETRY_TOPIC_SEPARATORS:
            raise ValueError(f"retry flag {retry!r}")
        numbers = int(start), int(pop_time), int(invisible), int(revive)
        return cls(topic, *numbers, retry, " ".join((first_of_name, *rest_of_name)), int(queue_id))


class BrokerHandle(NamedTuple):
    """A broker's handle of the message at ``offset`` of the check point's queue."""

    pop_check_point: PopCheckPoint
    offset: int

    @property
    def topic(self) -> str:
        """Return the topic that was polled."""
        return self.pop_check_point.topic

    @property
    def broker_name(self) -> str:
        return self.pop_check_point.broker_name

    @property
    def text(self) -> str:
        """Return the handle as requests have it: the check point without its topic, then the offset, by blanks."""
        return " ".join(map(str, (*self.pop_check_point[1:], self.offset)))

    def real_topic(self, group: str) -> str:
        """Return the topic that has the message, by the check point's retry flag: the polled ``topic``, or its retry
        topic of version 1 or 2 for ``group``. Source: ``common/KeyBuilder.java``."""
        topic, retry = self.pop_check_point.topic, self.pop_check_point.retry
        return topic if retry == NORMAL_TOPIC else f"{retry_topic(group)}{_RETRY_TOPIC_SEPARATORS[retry]}{topic}"

    @property
    def expires_ms(self) -> int:
        """Return when the message's invisible duration ends, in ms since 1970 by its broker's clock; durations above 12
        h count as 12 h."""
        return self.pop_check_point.pop_time_ms + min(self.pop_check_point.invisible_ms, MAX_INVISIBLE_MS)

    def is_long_expired(self, epoch_ms: int) -> bool:
        """Return whether the message expired more than 10 min before ``epoch_ms`` (now, in ms since 1970), so that its
        broker redelivers it unless it was acknowledged. Also True for a handle that no broker has made, with an
        impossible offset, or a pop time over a year ahead."""
        is_broker_handle = 0 <= self.offset - self.pop_check_point.start_offset <= POP_OFFSETS.maximum
        is_old = self.expires_ms + MAX_CLOCK_LAG_MS < epoch_ms
        return not is_broker_handle or is_old or self.pop_check_point.pop_time_ms > epoch_ms + MAX_CLOCK_LEAD_MS

    def after_change(self, pop_time_ms: int, invisible_ms: int, revive_queue_id: int) -> BrokerHandle:
        """Return the handle after a change of the invisible duration. It has the three values of the broker's response,
        and this message's offset as start offset. Send nothing. Source:
        ``client/impl/MQClientAPIImpl.java#changeInvisibleTimeAsync``."""
        pop_check_point = self.pop_check_point._replace(
            start_offset=self.offset,
            pop_time_ms=pop_time_ms,
            invisible_ms=invisible_ms,
            revive_queue_id=revive_queue_id,
        )
        return BrokerHandle(pop_check_point, self.offset)

    @classmethod
    def parse(cls, topic: str, text: str) -> BrokerHandle:
        """Parse the ``text`` of a broker's handle, without a proxy's commit log offset. Raises ValueError for another
        one."""
        *words, offset = text.split(" ")
        return cls.of(PopCheckPoint.parse(topic, words), int(offset))

    @classmethod
    def of(cls, pop_check_point: PopCheckPoint, offset: int) -> BrokerHandle:
        """Return a handle. Raises ValueError for an offset less than the check point's start offset, or more than
        POP_OFFSETS after it."""
        POP_OFFSETS.check(offset - pop_check_point.start_offset)
        return cls(pop_check_point, offset)


class OpaqueHandle(NamedTuple):
    """A handle of a server that uses another format."""

    topic: str
    broker_name: str
    text: str


ReceiptHandle: TypeAlias = BrokerHandle | OpaqueHandle


def handle_of(topic: str, broker_name: str, text: str) -> ReceiptHandle:
    """Parse the text of a message's handle. Return a BrokerHandle if it names ``broker_name`` and has a broker's
    format, with or without a proxy's commit log offset, or an OpaqueHandle with the text. Never raise."""
    words, word_count = text.split(" "), _WORD_COUNT + broker_name.count(" ")
    broker_part = " ".join(words[:word_count])
    try:
        handle = BrokerHandle.parse(topic, broker_part)
    except ValueError:
        return OpaqueHandle(topic, broker_name, text)
    is_broker_format = handle.text == broker_part and handle.broker_name == broker_name and len(words) <= word_count + 1
    return handle if is_broker_format else OpaqueHandle(topic, broker_name, text)


def is_unverified(handle: ReceiptHandle) -> bool:
    """Return whether an opaque handle has the format of brokers' handles from a proxy: at least 5 words, then an
    integer. Its response did not verify it: a producer may have set it as property ``POP_CK``. So no request may use
    it, and the message is redelivered. False for each BrokerHandle."""
    if isinstance(handle, BrokerHandle):
        return False
    *words, commit_log_offset = handle.text.split(" ")
    return len(words) >= _MIN_WORD_COUNT and commit_log_offset.removeprefix("-").isdecimal()


class RecordFormat(Enum):
    """The format of a received message: as brokers store it, or as a proxy returns it."""

    STORED = "stored"
    PROXIED = "answered"


class ReceivedMessage(NamedTuple):
    """A message that was delivered to this query: its handle, and its undecoded record."""

    handle: ReceiptHandle
    record: memoryview
    record_format: RecordFormat = RecordFormat.STORED


# --------------------------------------------------------------------------------------------------------- JSON


def handles_to_json(handles: Iterable[ReceiptHandle]) -> dict[str, str | list[str]]:
    """Encode handles, sorted. Those of brokers become ``{"<topic> <check point>": "0-31,35"}``, relative to the check
    point's start offset and with both ends included. Opaque ones become ``{"<topic> <broker>": [text, ...]}``."""
    encoded: dict[str, str | list[str]] = {}
    opaque: dict[str, list[str]] = {}
    broker_handles: list[BrokerHandle] = []
    for handle in handles:
        if isinstance(handle, BrokerHandle):
            broker_handles.append(handle)
        else:
            opaque.setdefault(f"{handle.topic} {handle.broker_name}", []).append(handle.text)
    for pop_check_point, offsets in sorted(group_by_check_point(broker_handles).items()):
        encoded[str(pop_check_point)] = _encode_runs(offsets, pop_check_point.start_offset)
    return encoded | {key: sorted(texts) for key, texts in sorted(opaque.items())}


def handles_from_json(value: Mapping[str, str | list[str]]) -> list[ReceiptHandle]:
    """Decode what ``handles_to_json`` returned. The handles are in the order of its entries, so sorted. Raises
    ValueError for an invalid entry, or for more handles than CHECKPOINT_MESSAGES (200,000) allows; TypeError or
    AttributeError for a value of another type."""
    handles: list[ReceiptHandle] = []
    for key, encoded in value.items():
        topic, *words = key.split(" ")
        if isinstance(encoded, list):
            if not all(isinstance(text, str) for text in encoded):
                raise TypeError("a receipt handle that is no text")
            handles += [OpaqueHandle(topic, " ".join(words), text) for text in encoded]
        else:
            handles += _decode_runs(PopCheckPoint.parse(topic, words), encoded)
        CHECKPOINT_MESSAGES.check(len(handles))
    return handles


def group_by_check_point(handles: Iterable[BrokerHandle]) -> dict[PopCheckPoint, list[int]]:
    """Return the offsets of the handles' messages in their queues (not relative) by check point, both in the given
    order."""
    found: dict[PopCheckPoint, list[int]] = {}
    for pop_check_point, offset in handles:
        found.setdefault(pop_check_point, []).append(offset)
    return found


def _decode_runs(pop_check_point: PopCheckPoint, encoded: str) -> list[BrokerHandle]:
    """Decode offsets relative to the check point's start offset, such as ``0-3,7`` with both ends included, into
    handles; a run such as ``3-0`` has none. Raises ValueError for another text, or for more handles than
    CHECKPOINT_MESSAGES (200,000) allows."""
    handles: list[BrokerHandle] = []
    for part in encoded.split(","):
        run = _RUN.fullmatch(part)
        if run is None:
            raise ValueError(f"{part!r} is no run of offsets")
        begin, end = int(run[1]), int(run[2] or run[1])
        CHECKPOINT_MESSAGES.check(len(handles) + max(0, end + 1 - begin))
        handles += [
            BrokerHandle(pop_check_point, pop_check_point.start_offset + relative_offset)
            for relative_offset in range(begin, end + 1)
        ]
    return handles


def _encode_runs(offsets: Iterable[int], start: int) -> str:
    """Encode offsets relative to ``start``, ascending, as runs such as ``0-3,7`` with both ends included."""
    runs: list[list[int]] = []
    for relative_offset in sorted(offset - start for offset in offsets):
        if runs and runs[-1][1] + 1 == relative_offset:
            runs[-1][1] = relative_offset
        else:
            runs.append([relative_offset, relative_offset])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
