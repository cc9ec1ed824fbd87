"""Handles: what a broker knows a message by that it has given out.

A handle is ``check point offset, time, invisibility, revive queue, retry flag, broker, queue, offset``. Whoever has it
can use it, from any process and over any connection, until the message is acknowledged, changed or given out again.
Messages of one queue that came with one answer differ in the last number only, and are written together.

Source: ``remoting/protocol/header/ExtraInfoUtil.java``, ``client/impl/MQClientAPIImpl.java#processPopResponse``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import retry_topic
from rocketmq_spark.wire.body.batch_ack import BatchAck
from rocketmq_spark.wire.message.stored_message import as_stored, split_records
from rocketmq_spark.wire.remoting.headers import ChangeInvisibleTimeResponse, PopMessageResponse

ORDINARY: Final = "0"
"""The retry flag of the topic itself; its retry topics have others."""

_RETRY_TOPIC_JOINTS: Final = {"1": "_", "2": "+"}
_POP_CK: Final = "POP_CK"
_QUEUE_AND_OFFSET: Final = struct.Struct(">12xi4xq")


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
    def extra_info(self) -> str:
        """As it is told to brokers."""
        return " ".join(map(str, (*self.check_point[1:], self.offset)))

    def real_topic(self, group: str) -> str:
        """The topic that the queue is of. Source: ``common/KeyBuilder.java#buildPopRetryTopicV2``."""
        topic, retry = self.check_point.topic, self.check_point.retry
        return topic if retry == ORDINARY else f"{retry_topic(group)}{_RETRY_TOPIC_JOINTS[retry]}{topic}"

    def changed(self, answer: ChangeInvisibleTimeResponse) -> Handle:
        """The handle by which the broker knows the message since then.

        Source: ``client/impl/MQClientAPIImpl.java#changeInvisibleTimeAsync``.
        """
        check_point = self.check_point._replace(
            start_offset=self.offset,
            pop_time_ms=answer.pop_time_ms,
            invisible_ms=answer.invisible_ms,
            revive_queue_id=answer.revive_queue_id,
        )
        return Handle(check_point, self.offset)

    @classmethod
    def parse(cls, topic: str, extra_info: str) -> Handle:
        """From ``extra_info``. Raises ValueError."""
        *words, offset = extra_info.split(" ")
        return cls(CheckPoint.parse(topic, words), int(offset))


class Received(NamedTuple):
    """A message that was given out to us: ``record`` is as it is stored, and ``decode_messages`` reads it."""

    handle: Handle
    record: memoryview


# ------------------------------------------------------------------------------------------------------ from an answer


def received_of(topic: str, broker_name: str, header: PopMessageResponse, body: memoryview) -> list[Received]:
    """The messages of an answer. Raises RemoteProtocolError[BAD_HEADER | CORRUPT_MESSAGE]."""
    starts = _starts(header)
    records = [record for _, _, record in split_records(body)]
    if all(retry == ORDINARY for retry, _ in starts):
        return [Received(_ordinary(topic, broker_name, header, starts, record), record) for record in records]
    return [Received(_of_any(topic, broker_name, header, starts, record), record) for record in records]


def _ordinary(
    topic: str, broker_name: str, header: PopMessageResponse, starts: Mapping[tuple[str, int], int], record: memoryview
) -> Handle:
    queue_id, offset = _QUEUE_AND_OFFSET.unpack_from(record)
    if (ORDINARY, queue_id) not in starts:
        raise _bad_header(f"a message of queue {queue_id} came, and startOffsetInfo is {header.start_offsets!r}")
    start = starts[ORDINARY, queue_id]
    times = header.pop_time_ms, header.invisible_ms, header.revive_queue_id
    return Handle(CheckPoint(topic, start, *times, ORDINARY, broker_name, queue_id), offset)


def _of_any(
    topic: str, broker_name: str, header: PopMessageResponse, starts: Mapping[tuple[str, int], int], record: memoryview
) -> Handle:
    """Of a message from a retry topic, which has the topic that was asked for and its handle as a property, or not."""
    try:
        extra_info = as_stored(record, broker_name).properties.get(_POP_CK)
        if extra_info is not None:
            return Handle.parse(topic, extra_info)
    except ValueError as problem:
        raise _bad_header(f"a message that was popped cannot be told: {problem}") from problem
    return _ordinary(topic, broker_name, header, starts, record)


def _starts(header: PopMessageResponse) -> dict[tuple[str, int], int]:
    """By retry flag and queue id."""
    try:
        entries = [entry.split(" ") for entry in (header.start_offsets or "").split(";") if entry]
        return {(retry, int(queue_id)): int(offset) for retry, queue_id, offset in entries}
    except ValueError as problem:
        raise _bad_header(f"startOffsetInfo is {header.start_offsets!r}") from problem


def _bad_header(problem: str) -> RemoteProtocolError:
    return RemoteProtocolError("BAD_HEADER", subject="PopMessageResponse", problem=problem)


# --------------------------------------------------------------------------------------------------------- many of them


def acks_of(group: str, handles: Iterable[Handle]) -> list[BatchAck]:
    """What says that these messages are done."""
    return [
        BatchAck(
            group=group,
            topic=one.topic,
            retry=one.retry,
            start_offset=one.start_offset,
            queue_id=one.queue_id,
            revive_queue_id=one.revive_queue_id,
            pop_time_ms=one.pop_time_ms,
            invisible_ms=one.invisible_ms,
            offsets=offsets,
        )
        for one, offsets in _by_check_point(handles).items()
    ]


def handles_to_json(handles: Iterable[Handle]) -> dict[str, str]:
    """``{"<topic> <check point>": "0-31,35"}``, numbers beyond the first; equal handles give equal text."""
    return {str(one): _spelled(offsets, one.start_offset) for one, offsets in sorted(_by_check_point(handles).items())}


def handles_from_json(value: Mapping[str, str]) -> list[Handle]:
    """Read back what ``handles_to_json`` gave. Raises ValueError, TypeError, AttributeError."""
    handles: list[Handle] = []
    for key, spelled in value.items():
        topic, *words = key.split(" ")
        check_point = CheckPoint.parse(topic, words)
        for part in spelled.split(","):
            first, _, last = part.partition("-")
            begin, end = check_point.start_offset + int(first), check_point.start_offset + int(last or first)
            handles += [Handle(check_point, offset) for offset in range(begin, end + 1)]
    return handles


def _by_check_point(handles: Iterable[Handle]) -> dict[CheckPoint, list[int]]:
    found: dict[CheckPoint, list[int]] = {}
    for check_point, offset in handles:
        found.setdefault(check_point, []).append(offset)
    return found


def _spelled(offsets: Iterable[int], start: int) -> str:
    runs: list[list[int]] = []
    for place in sorted(offset - start for offset in offsets):
        if runs and runs[-1][1] + 1 == place:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
