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

ORDINARY: Final = "0"
"""The retry flag of the topic itself; its retry topics have others."""

LONGEST_INVISIBLE_MS: Final = 43_200_000
"""The largest ``invisibleDurationMs``."""

CLOCKS_APART_MS: Final = 600_000
"""By how much a broker's clock may be behind ours."""

NEVER_MS: Final = 365 * 24 * 3_600_000
"""By how much no broker's clock is ahead of ours."""

_RETRY_TOPIC_JOINTS: Final = {"1": "_", "2": "+"}
_WORDS: Final = 8
_FEWEST_WORDS: Final = 5
"""A proxy fails by itself where a property ``POP_CK`` has less.

Source: ``remoting/protocol/header/ExtraInfoUtil.java#getRetry``.
"""

_RUN: Final = re.compile("(-?[0-9]+)(?:-(-?[0-9]+))?")


class CheckPoint(NamedTuple):
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
        if retry != ORDINARY and retry not in _RETRY_TOPIC_JOINTS:
            raise ValueError(f"retry flag {retry!r}")
        numbers = int(start), int(pop_time), int(invisible), int(revive)
        return cls(topic, *numbers, retry, broker_name, int(queue_id))


class Handle(NamedTuple):
    """The message at ``offset``."""

    check_point: CheckPoint
    offset: int

    @property
    def topic(self) -> str:
        """The one that was asked for."""
        return self.check_point.topic

    @property
    def broker_name(self) -> str:
        return self.check_point.broker_name

    @property
    def text(self) -> str:
        """As it is told to servers."""
        return " ".join(map(str, (*self.check_point[1:], self.offset)))

    def real_topic(self, group: str) -> str:
        """The topic that the queue is of. Source: ``common/KeyBuilder.java#buildPopRetryTopicV2``."""
        topic, retry = self.check_point.topic, self.check_point.retry
        return topic if retry == ORDINARY else f"{retry_topic(group)}{_RETRY_TOPIC_JOINTS[retry]}{topic}"

    def is_long_over(self, epoch_ms: int) -> bool:
        """Whether its broker delivers the message again by itself, unless it was acknowledged; also of one that no
        broker has given out. Once true it stays true."""
        given_out_ms, invisible_ms = self.check_point.pop_time_ms, self.check_point.invisible_ms
        end_ms = given_out_ms + min(invisible_ms, LONGEST_INVISIBLE_MS)
        is_a_brokers = 0 <= self.offset - self.check_point.start_offset <= POP_OFFSETS.most
        return not is_a_brokers or end_ms + CLOCKS_APART_MS < epoch_ms or given_out_ms > epoch_ms + NEVER_MS

    def changed(self, pop_time_ms: int, invisible_ms: int, revive_queue_id: int) -> Handle:
        """The handle by which the broker knows the message since then.

        Source: ``client/impl/MQClientAPIImpl.java#changeInvisibleTimeAsync``.
        """
        check_point = self.check_point._replace(
            start_offset=self.offset,
            pop_time_ms=pop_time_ms,
            invisible_ms=invisible_ms,
            revive_queue_id=revive_queue_id,
        )
        return Handle(check_point, self.offset)

    @classmethod
    def parse(cls, topic: str, text: str) -> Handle:
        """From ``text``. Raises ValueError."""
        *words, offset = text.split(" ")
        return cls.of(CheckPoint.parse(topic, words), int(offset))

    @classmethod
    def of(cls, check_point: CheckPoint, offset: int) -> Handle:
        """Raises ValueError for an offset that no response has together with the check point's."""
        POP_OFFSETS.check(offset - check_point.start_offset)
        return cls(check_point, offset)


class OpaqueHandle(NamedTuple):
    """That of a server which spells them in its own way."""

    topic: str
    broker_name: str
    text: str


AnyHandle: TypeAlias = Handle | OpaqueHandle


def handle_of(topic: str, broker_name: str, text: str) -> AnyHandle:
    """From what a server knows a message by that ``broker_name`` has given out."""
    words = text.split(" ")
    own = " ".join(words[:_WORDS])
    try:
        handle = Handle.parse(topic, own)
    except ValueError:
        return OpaqueHandle(topic, broker_name, text)
    is_understood = handle.text == own and handle.broker_name == broker_name and len(words) <= _WORDS + 1
    return handle if is_understood else OpaqueHandle(topic, broker_name, text)


def is_made_up(handle: AnyHandle) -> bool:
    """Whether a proxy spells it, and its broker may not: no request is made by it, and the message is redelivered."""
    if isinstance(handle, Handle):
        return False
    *words, commit_log_offset = handle.text.split(" ")
    return len(words) >= _FEWEST_WORDS and commit_log_offset.removeprefix("-").isdecimal()


class Form(Enum):
    """How a message is written that was given out to us: as brokers store it, or as a proxy answers with it."""

    STORED = "stored"
    ANSWERED = "answered"


class Received(NamedTuple):
    """A message that was given out to us."""

    handle: AnyHandle
    record: memoryview
    form: Form = Form.STORED


# --------------------------------------------------------------------------------------------------------- many of them


def handles_to_json(handles: Iterable[AnyHandle]) -> dict[str, str | list[str]]:
    """``{"<topic> <check point>": "0-31,35"}``, numbers beyond the first, and ``{"<topic> <broker>": [...]}`` of opaque
    ones; equal handles give equal text."""
    spelled: dict[str, str | list[str]] = {}
    opaque: dict[str, list[str]] = {}
    known: list[Handle] = []
    for handle in handles:
        if isinstance(handle, Handle):
            known.append(handle)
        else:
            opaque.setdefault(f"{handle.topic} {handle.broker_name}", []).append(handle.text)
    for check_point, offsets in sorted(by_check_point(known).items()):
        spelled[str(check_point)] = _spelled(offsets, check_point.start_offset)
    return spelled | {key: sorted(texts) for key, texts in sorted(opaque.items())}


def handles_from_json(value: Mapping[str, str | list[str]]) -> list[AnyHandle]:
    """Read back what ``handles_to_json`` gave. Raises ValueError, TypeError, AttributeError."""
    handles: list[AnyHandle] = []
    for key, spelled in value.items():
        topic, *words = key.split(" ")
        if isinstance(spelled, list):
            handles += [OpaqueHandle(topic, " ".join(words), text) for text in spelled]
        else:
            handles += _read(CheckPoint.parse(topic, words), spelled)
        CHECKPOINT_MESSAGES.check(len(handles))
    return handles


def by_check_point(handles: Iterable[Handle]) -> dict[CheckPoint, list[int]]:
    """The offsets of each."""
    found: dict[CheckPoint, list[int]] = {}
    for check_point, offset in handles:
        found.setdefault(check_point, []).append(offset)
    return found


def _read(check_point: CheckPoint, spelled: str) -> list[Handle]:
    handles: list[Handle] = []
    for part in spelled.split(","):
        run = _RUN.fullmatch(part)
        if run is None:
            raise ValueError(f"{part!r} is no run of offsets")
        begin, end = int(run[1]), int(run[2] or run[1])
        CHECKPOINT_MESSAGES.check(len(handles) + max(0, end + 1 - begin))
        handles += [Handle(check_point, check_point.start_offset + place) for place in range(begin, end + 1)]
    return handles


def _spelled(offsets: Iterable[int], start: int) -> str:
    runs: list[list[int]] = []
    for place in sorted(offset - start for offset in offsets):
        if runs and runs[-1][1] + 1 == place:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
