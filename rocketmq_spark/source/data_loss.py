"""Lost offsets: their causes, and what becomes of them: one error that ends the query, or one warning. Pure."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rocketmq_spark.errors import DataLossError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange

log = logging.getLogger(__name__)

RETENTION: Final = "the broker deleted them (retention)"
RECREATED: Final = "the topic was deleted and created again, or its queue was emptied"
REPLACED: Final = "the broker lost the end of the queue and has stored other messages there"
TRUNCATED: Final = "the broker lost the end of the queue"

MOST_NAMED: Final = 20
"""Ranges that one error or line names; the others it counts."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets ``[begin_offset, end_offset)`` that were promised and that the broker does not hold any more."""

    queue: MessageQueue
    begin_offset: int
    end_offset: int
    cause: str

    def __len__(self) -> int:
        return self.end_offset - self.begin_offset

    @property
    def was_read(self) -> bool:
        """Whether it was read before it was gone: what else the queue held then, nobody can tell."""
        return self.cause != RETENTION

    def __contains__(self, other: LostRange) -> bool:
        is_within = self.begin_offset <= other.begin_offset and other.end_offset <= self.end_offset
        return self.queue == other.queue and is_within

    def __str__(self) -> str:
        return f"[{self.begin_offset}, {self.end_offset}) of {self.queue}"


@dataclass
class LossCount:
    """What has been lost so far, as far as that can be counted: what was read is not. Not thread-safe."""

    offsets: int = 0
    ranges: int = 0

    told: set[QueueRange] = field(default_factory=set)
    """By tasks."""

    def add(self, lost: Collection[LostRange]) -> None:
        unread = [one for one in lost if not one.was_read]
        self.offsets += sum(map(len, unread))
        self.ranges += len(unread)

    def add_told(self, told: Iterable[QueueRange]) -> None:
        """What tasks have told, each range once: a task that is tried again finds it again."""
        new = set(told) - self.told
        self.told |= new
        self.offsets += sum(map(len, new))
        self.ranges += len(new)


def deleted(ranges: Iterable[QueueRange], bounds: Mapping[MessageQueue, QueueBounds]) -> tuple[LostRange, ...]:
    """What retention has taken of ``ranges`` by now; of queues without ``bounds`` that is not known."""
    return tuple(
        LostRange(one.queue, one.begin_offset, min(one.end_offset, bounds[one.queue].min_offset), RETENTION)
        for one in ranges
        if one.queue in bounds and one.begin_offset < bounds[one.queue].min_offset
    )


def report_losses(lost: Collection[LostRange], *, is_failure: bool) -> None:
    """Raise DataLossError[OFFSETS_GONE] for all of them if they are a failure (``failOnDataLoss``); else log them in a
    line, those that were read in another, without the advice."""
    if lost and is_failure:
        raise DataLossError("OFFSETS_GONE", count=_offsets(lost), ranges=_told(lost))
    unread = [one for one in lost if not one.was_read]
    read = [one for one in lost if one.was_read]
    if unread:
        log.warning("%d offsets are lost, what they held is in no output: %s", _offsets(unread), _told(unread))
    if read:
        log.warning(
            "%d offsets that had been read are not in the brokers any more, nor is what came after them: %s",
            _offsets(read),
            _told(read),
        )


def _offsets(lost: Iterable[LostRange]) -> int:
    return sum(map(len, lost))


def _told(lost: Iterable[LostRange]) -> str:
    """``[0, 12) of t@b:0, [0, 5) of t@b:1: their cause; [7, 9) of t@b:2: its cause``, the first ranges by queue."""
    ordered = sorted(lost, key=lambda one: (one.queue.sort_key(), one.begin_offset))
    by_cause: dict[str, list[LostRange]] = {}
    for one in ordered[:MOST_NAMED]:
        by_cause.setdefault(one.cause, []).append(one)
    texts = [f"{', '.join(map(str, ranges))}: {cause}" for cause, ranges in by_cause.items()]
    return "; ".join([*texts, *_counted(ordered[MOST_NAMED:])])


def _counted(rest: Sequence[LostRange]) -> list[str]:
    return [f"and {sum(map(len, rest))} offsets in {len(rest)} more ranges"] if rest else []
