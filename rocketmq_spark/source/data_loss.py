"""Lost offsets: their causes, and their report, which is an error that ends the query, or a warning."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from rocketmq_spark.errors import DataLossError
from rocketmq_spark.grouping import grouped
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.wire.body.task_report import ReportedLoss

log = logging.getLogger(__name__)


class LossCause(NamedTuple):
    """Why offsets are lost, as errors and warnings state it, and the sub-condition of DATA_LOSS.

    ``was_read``: whether the query, or by the group's offset another member, had read the offsets; what else the queue
    held when they were lost is unknown. ``is_known``: False if only the group's committed offset shows the loss:
    perhaps no message ever had the offsets.
    """

    text: str
    condition: str
    was_read: bool = False
    is_known: bool = True

    def __str__(self) -> str:
        return self.text


RETENTION: Final = LossCause("the broker deleted them (retention)", "OFFSETS_UNAVAILABLE")
RECREATED: Final = LossCause(
    "the topic was deleted and created again, or its queue was emptied", "TOPIC_RECREATED", was_read=True
)
REPLACED: Final = LossCause(
    "the broker lost the end of the queue and has stored other messages there", "QUEUE_TRUNCATED", was_read=True
)
TRUNCATED: Final = LossCause("the broker lost the end of the queue", "QUEUE_TRUNCATED", was_read=True)
TAIL_LOST: Final = LossCause(
    "the broker has not had them for long: it lost the end of the queue, or a part of it", "QUEUE_TRUNCATED"
)
BEYOND_END: Final = LossCause(
    "the group's committed offset is beyond the end of the queue: the broker lost the end after another member had "
    "read it, or a client committed a wrong offset; 'groupOffsets' set to 'checkpoint' resets it",
    "OFFSETS_BEYOND_END",
    was_read=True,
    is_known=False,
)
"""The checkpoint's own last message is still there, so the queue is the one that was read."""

BEYOND_UNVERIFIED_END: Final = LossCause(
    "the group's committed offset is beyond the end of the queue: the topic was deleted and created again, the broker "
    "lost the end of the queue, or a client committed a wrong offset",
    "OFFSETS_BEYOND_END",
    was_read=True,
    is_known=False,
)
OMITTED: Final = LossCause("the broker omitted them from its responses", "OFFSETS_OMITTED")
VACANT: Final = LossCause(
    "no message has them: the broker could not read what was sent, and may have lost what was stored beside it",
    "OFFSETS_OMITTED",
)
"""Not a failure, whatever ``failOnDataLoss`` is: otherwise any producer could end the query."""

_SKIPPED: Final = "Skipping {count} offsets that the query has not read; their messages are in no output: {ranges}"
WARNINGS: Final[Mapping[tuple[str, bool], str]] = {
    ("OFFSETS_UNAVAILABLE", False): _SKIPPED,
    ("QUEUE_TRUNCATED", False): _SKIPPED,
    ("OFFSETS_OMITTED", False): _SKIPPED,
    ("TOPIC_RECREATED", True): (
        "{count} offsets that the query has read no longer exist in a re-created or emptied queue. Later messages may "
        "be lost too, their number is unknown: {ranges}"
    ),
    ("QUEUE_TRUNCATED", True): (
        "{count} offsets that the query has read no longer exist in a truncated queue. Later messages may be lost too, "
        "their number is unknown: {ranges}"
    ),
    ("OFFSETS_BEYOND_END", True): (
        "Committed offsets of the group are beyond the ends of their queues. Lowering them to those of the checkpoint, "
        "or else to the first message, and resuming there. Messages may be lost, their number is unknown. Check the "
        "broker's disk and replicas: {ranges}"
    ),
}
"""Warnings by sub-condition of DATA_LOSS, all of them, and ``was_read``, in the order in which they are logged."""

MAX_LISTED_RANGES: Final = 20
"""Maximum number of ranges that an error lists; it counts the rest, and a restart finds them again. A warning lists
all ranges: it is the only record of the loss."""

MAX_REMEMBERED: Final = 100_000
"""Maximum number of ranges of which it is remembered that they were counted. A producer can cause a loss with each
message, see ``VACANT``."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets ``[begin_offset, end_offset)`` that were expected and that the broker no longer has."""

    queue: MessageQueue
    begin_offset: int
    end_offset: int
    cause: LossCause

    def __len__(self) -> int:
        return self.end_offset - self.begin_offset

    def __contains__(self, other: LostRange) -> bool:
        is_within = self.begin_offset <= other.begin_offset and other.end_offset <= self.end_offset
        return self.queue == other.queue and is_within

    def __str__(self) -> str:
        return f"[{self.begin_offset}, {self.end_offset}) of {self.queue}"


class LossCount:
    """Number of lost offsets and ranges so far, without those that the query had read: their number is unknown. Each
    offset counts once: planner and tasks find the same losses, and a retried task finds them again. Not thread-safe."""

    def __init__(self) -> None:
        self.offsets = 0
        self.ranges = 0
        """Number of lost ranges, each with at least one offset that was not counted before."""
        self._by_condition = dict.fromkeys(sorted({condition for condition, _ in WARNINGS}), (0, 0))
        self._last_read: dict[MessageQueue, LostRange] = {}
        """Last loss of a queue that the totals do not count: a plan that no broker confirms finds it again."""
        self._counted: dict[MessageQueue, list[tuple[int, int]]] = {}
        """Half-open ranges in ascending order, neither overlapping nor adjacent; at most ``MAX_REMEMBERED`` of a queue.
        Beyond that the first half becomes one: what is lost later is mostly behind it."""
        self._reported: dict[ReportedLoss, None] = {}
        """The last ``MAX_REMEMBERED``, in the order in which they were reported."""

    def add(self, lost: Collection[LostRange]) -> None:
        """Count the offsets of ``lost`` that were not counted before. Losses whose cause ``was_read`` count in
        ``by_condition`` and not in the totals. One that repeats the last such loss of its queue does not count. All
        whose cause ``is_known`` also discard which offsets of their queue were counted, because the offsets belong to
        other messages from then on; the totals stay."""
        for one in lost:
            if one.cause.was_read:
                self._count_read(one)
            else:
                self.add_range(one, one.cause.condition)

    @property
    def by_condition(self) -> dict[str, tuple[int, int]]:
        """Return the number of offsets and ranges by sub-condition of DATA_LOSS, of all five. These include losses that
        the totals do not count, see ``LossCause.was_read``."""
        return dict(self._by_condition)

    def add_reported(self, losses: Iterable[ReportedLoss]) -> None:
        """Count ``losses``, which tasks have reported; repeated ones count once. A condition that is none of DATA_LOSS
        counts as OFFSETS_UNAVAILABLE."""
        new = set(losses) - self._reported.keys()
        self._reported |= dict.fromkeys(new)
        for oldest in list(islice(self._reported, max(0, len(self._reported) - MAX_REMEMBERED))):
            del self._reported[oldest]
        for one, condition in sorted(new, key=lambda one: (one.range.queue.sort_key(), one.range.begin_offset)):
            self.add_range(one, condition if condition in self._by_condition else RETENTION.condition)

    def add_range(self, lost: LostRange | QueueRange, condition: str) -> None:
        """Count the offsets of ``lost`` that are not counted yet, in total and under ``condition``, a sub-condition of
        DATA_LOSS. Record the range as counted. Add 1 to the number of ranges if an offset was new."""
        begin_offset, end_offset = lost.begin_offset, lost.end_offset
        counted = self._counted.setdefault(lost.queue, [])
        first = bisect_left(counted, begin_offset, key=lambda one: one[1])
        touched = counted[first : bisect_right(counted, end_offset, key=lambda one: one[0])]
        already_counted = sum(min(end_offset, end) - max(begin_offset, begin) for begin, end in touched)
        begins, ends = zip((begin_offset, end_offset), *touched, strict=True)
        counted[first : first + len(touched)] = [(min(begins), max(ends))]
        if len(counted) > MAX_REMEMBERED:
            half = len(counted) // 2
            counted[:half] = [(counted[0][0], counted[half - 1][1])]
        new = end_offset - begin_offset - already_counted
        if new:
            self.offsets += new
            self.ranges += 1
            self._add(condition, new)

    def _count_read(self, lost: LostRange) -> None:
        """Count a loss that the totals do not count by its condition, unless it equals the last such loss of its queue.
        If the query had read it, discard what is recorded of the queue."""
        if lost.cause.is_known:
            self._counted.pop(lost.queue, None)
        if self._last_read.get(lost.queue) != lost:
            self._last_read[lost.queue] = lost
            self._add(lost.cause.condition, len(lost))

    def _add(self, condition: str, offsets: int) -> None:
        """Add one range, with this number of offsets, to those of ``condition``."""
        before_offsets, before_ranges = self._by_condition[condition]
        self._by_condition[condition] = before_offsets + offsets, before_ranges + 1


def deleted(ranges: Iterable[QueueRange], bounds: Mapping[MessageQueue, QueueBounds]) -> tuple[LostRange, ...]:
    """Return the part of each range that is before its queue's min offset, as lost by retention; () if there is none.
    Ranges of queues without ``bounds`` are ignored."""
    return tuple(
        LostRange(one.queue, one.begin_offset, min(one.end_offset, bounds[one.queue].min_offset), RETENTION)
        for one in ranges
        if one.queue in bounds and one.begin_offset < bounds[one.queue].min_offset
    )


def report_losses(lost: Collection[LostRange], *, is_failure: bool) -> None:
    """If losses are a failure (``failOnDataLoss``), raise DataLossError for all of them, also vacant ones. Otherwise
    log a warning for each kind. Do nothing without losses. Raises DataLossError[DATA_LOSS.TOPIC_RECREATED |
    DATA_LOSS.QUEUE_TRUNCATED | DATA_LOSS.OFFSETS_OMITTED | DATA_LOSS.OFFSETS_BEYOND_END] if all losses are of one kind,
    else, for losses by retention or of several kinds, DataLossError[DATA_LOSS.OFFSETS_UNAVAILABLE].
    """
    if not lost:
        return
    by_kind = grouped(lost, lambda one: (one.cause.condition, one.cause.was_read))
    if is_failure:
        conditions = {condition for condition, _ in by_kind}
        condition = conditions.pop() if len(conditions) == 1 else RETENTION.condition
        raise DataLossError(f"DATA_LOSS.{condition}", count=_offsets(lost), ranges=_format_losses(lost))
    for (condition, was_read), warning in WARNINGS.items():
        if of_kind := by_kind.get((condition, was_read)):
            ranges = _format_losses(of_kind, len(of_kind))
            log.warning("DATA_LOSS.%s: %s", condition, warning.format(count=_offsets(of_kind), ranges=ranges))


class PassedOverRanges:
    """Log of ranges that the group has read and this checkpoint has not, once per queue since the start. Later moves
    between members are normal in every group. Not thread-safe."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._compared: set[MessageQueue] = set()
        """Queues whose group offset was compared with the checkpoint's."""

    def report(self, ranges: Iterable[QueueRange], compared: Iterable[MessageQueue]) -> None:
        """Log one warning with the ``ranges`` of queues that no earlier call has compared; nothing without any. Record
        the queues in ``compared``, of which later calls log nothing."""
        new = [one for one in ranges if one.queue not in self._compared]
        self._compared.update(compared)
        if not new:
            return
        ordered = sorted(new, key=lambda one: (one.queue.sort_key(), one.begin_offset))
        log.warning(
            "GROUP_AHEAD_OF_CHECKPOINT: Committed offsets of group=%s are %d offsets ahead of this checkpoint; this "
            "query skips them: %s. Another member has read them, or the group's offsets were reset. If this checkpoint "
            "is from a backup, restore it once more, because this start changes it. Then start with "
            "groupOffsets=checkpoint. This option resets the group to the checkpoint's offsets.",
            self._group,
            sum(one.end_offset - one.begin_offset for one in ordered),
            ", ".join(map(str, ordered)),
        )


def report_undelivered(group: str, deleted: Iterable[QueueRange], *, is_failure: bool) -> None:
    """Log one warning with the ranges ``deleted``, at least one, that brokers deleted before delivery to a group with
    message-based load balancing. Raises DataLossError[DATA_LOSS.UNDELIVERED_MESSAGES], without a warning, if
    ``is_failure``."""
    lost = [LostRange(one.queue, one.begin_offset, one.end_offset, RETENTION) for one in deleted]
    if is_failure:
        raise DataLossError(
            "DATA_LOSS.UNDELIVERED_MESSAGES", count=_offsets(lost), group=group, ranges=_format_losses(lost)
        )
    log.warning(
        "DATA_LOSS.UNDELIVERED_MESSAGES: Brokers deleted %d messages before delivery to group=%s; they are in no "
        "output: %s",
        _offsets(lost),
        group,
        _format_losses(lost, len(lost)),
    )


def _offsets(lost: Iterable[LostRange]) -> int:
    """Return the number of offsets in ``lost``, each counted once."""
    count = LossCount()
    for one in lost:
        count.add_range(one, one.cause.condition)
    return count.offsets


def _format_losses(lost: Iterable[LostRange], max_ranges: int = MAX_LISTED_RANGES) -> str:
    """Return ``[0, 12) of t@b:0, [0, 5) of t@b:1: their cause; [7, 9) of t@b:2: its cause``. It lists the first
    ``max_ranges`` ranges by queue and offset, grouped by cause, then the number of the remaining offsets and ranges, if
    any."""
    ordered = sorted(lost, key=lambda one: (one.queue.sort_key(), one.begin_offset))
    by_cause = grouped(ordered[:max_ranges], lambda one: one.cause)
    texts = [f"{', '.join(map(str, ranges))}: {cause}" for cause, ranges in by_cause.items()]
    return "; ".join([*texts, *_format_remaining(ordered[max_ranges:])])


def _format_remaining(remaining: Sequence[LostRange]) -> list[str]:
    """Return one text, the number of offsets and of ranges in ``remaining``; [] if it is empty."""
    return [f"and {sum(map(len, remaining))} offsets in {len(remaining)} more ranges"] if remaining else []
