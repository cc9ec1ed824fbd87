"""Handles: what servers know a message by that they have given out.

A broker's handle is ``check point offset, time, invisibility, revive queue, retry flag, broker, queue, offset``; a
proxy adds the commit log offset, which nobody asks for. Whoever has it can use it, from any process and over any
connection, until the message is acknowledged, changed or given out again. Messages of one queue that came with one
answer differ in the last number only, and are written together. What is spelled in another way is kept as it is.

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
"""The retry flag of the topic itself; its retry topics have others."""

MAX_INVISIBLE_MS: Final = 43_200_000
"""The largest ``invisibleDurationMs``."""

MAX_CLOCK_LAG_MS: Final = 600_000
"""By how much a broker's clock may be behind ours."""

MAX_CLOCK_LEAD_MS: Final = 365 * 24 * 3_600_000
"""By how much no broker's clock is ahead of ours."""

_RETRY_TOPIC_SEPARATORS: Final = {"1": "_", "2": "+"}
_WORD_COUNT: Final = 8
_MIN_WORD_COUNT: Final = 5
"""A proxy fails by itself where a property ``POP_CK`` has less.

Source: ``remoting/protocol/header/ExtraInfoUtil.java#getRetry``.
"""

_RUN: Final = re.compile("(-?[0-9]+)(?:-(-?[0-9]+))?")


class PopCheckPoint(NamedTuple):
    """What messages of one queue that came with one answer have in common. ``topic``: the one that was asked for."""

    topic: str
    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, topic: str, words: Iterable[str]) -> Self:
        """From what follows the topic. Raises ValueError, TypeError."""
        start, pop_time, invisible, revive, retry, broker_name, queue_id = words
        if retry != NORMAL_TOPIC and retry not in _RETRY_TOPIC_SEPARATORS:
            raise ValueError(f"retry flag {retry!r}")
        numbers = int(start), int(pop_time), int(invisible), int(revive)
        return cls(topic, *numbers, retry, broker_name, int(queue_id))


class BrokerHandle(NamedTuple):
    """The message at ``offset``."""

    pop_check_point: PopCheckPoint
    offset: int

    @property
    def topic(self) -> str:
        """The one that was asked for."""
        return self.pop_check_point.topic

    @property
    def broker_name(self) -> str:
        return self.pop_check_point.broker_name

    @property
    def text(self) -> str:
        """As it is told to servers."""
        return " ".join(map(str, (*self.pop_check_point[1:], self.offset)))

    def real_topic(self, group: str) -> str:
        """The topic that the queue is of. Source: ``common/KeyBuilder.java#buildPopRetryTopicV2``."""
        topic, retry = self.pop_check_point.topic, self.pop_check_point.retry
        return topic if retry == NORMAL_TOPIC else f"{retry_topic(group)}{_RETRY_TOPIC_SEPARATORS[retry]}{topic}"

    def is_long_expired(self, epoch_ms: int) -> bool:
        """Whether its broker delivers the message again by itself, unless it was acknowledged; also of one that no
        broker has given out. Once true it stays true."""
        delivered_ms, invisible_ms = self.pop_check_point.pop_time_ms, self.pop_check_point.invisible_ms
        end_ms = delivered_ms + min(invisible_ms, MAX_INVISIBLE_MS)
        is_broker_handle = 0 <= self.offset - self.pop_check_point.start_offset <= POP_OFFSETS.maximum
        return (
            not is_broker_handle or end_ms + MAX_CLOCK_LAG_MS < epoch_ms or delivered_ms > epoch_ms + MAX_CLOCK_LEAD_MS
        )

    def after_change(self, pop_time_ms: int, invisible_ms: int, revive_queue_id: int) -> BrokerHandle:
        """The handle by which the broker knows the message since then.

        Source: ``client/impl/MQClientAPIImpl.java#changeInvisibleTimeAsync``.
        """
        pop_check_point = self.pop_check_point._replace(
            start_offset=self.offset,
            pop_time_ms=pop_time_ms,
            invisible_ms=invisible_ms,
            revive_queue_id=revive_queue_id,
        )
        return BrokerHandle(pop_check_point, self.offset)

    @classmethod
    def parse(cls, topic: str, text: str) -> BrokerHandle:
        """From ``text``. Raises ValueError."""
        *words, offset = text.split(" ")
        return cls.of(PopCheckPoint.parse(topic, words), int(offset))

    @classmethod
    def of(cls, pop_check_point: PopCheckPoint, offset: int) -> BrokerHandle:
        """Raises ValueError for an offset that no response has together with the check point's."""
        POP_OFFSETS.check(offset - pop_check_point.start_offset)
        return cls(pop_check_point, offset)


class OpaqueHandle(NamedTuple):
    """That of a server which spells them in its own way."""

    topic: str
    broker_name: str
    text: str


ReceiptHandle: TypeAlias = BrokerHandle | OpaqueHandle


def handle_of(topic: str, broker_name: str, text: str) -> ReceiptHandle:
    """From what a server knows a message by that ``broker_name`` has given out."""
    words = text.split(" ")
    broker_part = " ".join(words[:_WORD_COUNT])
    try:
        handle = BrokerHandle.parse(topic, broker_part)
    except ValueError:
        return OpaqueHandle(topic, broker_name, text)
    is_broker_format = (
        handle.text == broker_part and handle.broker_name == broker_name and len(words) <= _WORD_COUNT + 1
    )
    return handle if is_broker_format else OpaqueHandle(topic, broker_name, text)


def is_unverified(handle: ReceiptHandle) -> bool:
    """Whether a proxy spells it, and its broker may not: no request is made by it, and the message is redelivered."""
    if isinstance(handle, BrokerHandle):
        return False
    *words, commit_log_offset = handle.text.split(" ")
    return len(words) >= _MIN_WORD_COUNT and commit_log_offset.removeprefix("-").isdecimal()


class RecordFormat(Enum):
    """How a message is written that was given out to us: as brokers store it, or as a proxy answers with it."""

    STORED = "stored"
    PROXIED = "answered"


class ReceivedMessage(NamedTuple):
    """A message that was given out to us."""

    handle: ReceiptHandle
    record: memoryview
    record_format: RecordFormat = RecordFormat.STORED


# --------------------------------------------------------------------------------------------------------- many of them


def handles_to_json(handles: Iterable[ReceiptHandle]) -> dict[str, str | list[str]]:
    """``{"<topic> <check point>": "0-31,35"}``, numbers beyond the first, and ``{"<topic> <broker>": [...]}`` of opaque
    ones; equal handles give equal text."""
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
    """Read back what ``handles_to_json`` gave. Raises ValueError, TypeError, AttributeError."""
    handles: list[ReceiptHandle] = []
    for key, encoded in value.items():
        topic, *words = key.split(" ")
        if isinstance(encoded, list):
            handles += [OpaqueHandle(topic, " ".join(words), text) for text in encoded]
        else:
            handles += _decode_runs(PopCheckPoint.parse(topic, words), encoded)
        CHECKPOINT_MESSAGES.check(len(handles))
    return handles


def group_by_check_point(handles: Iterable[BrokerHandle]) -> dict[PopCheckPoint, list[int]]:
    """The offsets of each."""
    found: dict[PopCheckPoint, list[int]] = {}
    for pop_check_point, offset in handles:
        found.setdefault(pop_check_point, []).append(offset)
    return found


def _decode_runs(pop_check_point: PopCheckPoint, encoded: str) -> list[BrokerHandle]:
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
    runs: list[list[int]] = []
    for relative_offset in sorted(offset - start for offset in offsets):
        if runs and runs[-1][1] + 1 == relative_offset:
            runs[-1][1] = relative_offset
        else:
            runs.append([relative_offset, relative_offset])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
