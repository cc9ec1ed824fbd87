"""Ranges of a batch read: both ends of each queue, from the options, the queues' bounds, and searches by time. Pure.

Source of the precedence of options: ``org/apache/spark/sql/kafka010/KafkaOffsetRangeLimit.scala``. Differs: both ends
are resolved before any task runs, and all queues with an invalid position are reported at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.options.queue_positions import EARLIEST, FALLBACKS, LATEST, QueuePositions
from rocketmq_spark.source.data_loss import deleted, report_losses

NONE: Final = "none"

NOTHING_COMMITTED: Final[Mapping[MessageQueue, int | None]] = MappingProxyType({})


class RangeEnd(NamedTuple):
    """The start or the end of all ranges of a batch read, set by ``option``. ``is_time``: its positions are times
    (epoch ms). ``group``: its positions may be this group's committed offsets. ``requires_match``: raise an error for a
    queue without a message at or after its time."""

    option: str
    positions: QueuePositions
    is_time: bool = False
    group: str = NONE
    requires_match: bool = False

    def check_listed(self, queues: Collection[MessageQueue]) -> None:
        """Check that each of ``queues`` has a position (its own, its topic's or that of all queues). Check that each
        listed queue, and a queue of each listed topic, is in ``queues``. Raises OptionError[LISTED_QUEUES_MISMATCH]
        otherwise."""
        missing, unknown = self.positions.unlisted(queues), self.positions.unknown(queues)
        if missing or unknown:
            raise OptionError(
                "LISTED_QUEUES_MISMATCH",
                option=self.option,
                missing=_join_or_none(map(str, missing)),
                unknown=_join_or_none(unknown),
            )

    def timestamps_ms(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the times to search for, by queue; {} for offsets."""
        return self.positions.by_queue(queues) if self.is_time else {}

    def group_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return those ``queues`` whose position is the group's committed offset, with or without a fallback; [] for
        times."""
        positions = {} if self.is_time else self.positions.by_queue(queues)
        return [queue for queue, position in positions.items() if position in FALLBACKS]

    def is_listed(self, queue: MessageQueue) -> bool:
        """Return whether the queue's position is a listed offset: no word, and no time."""
        return not self.is_time and self.positions.by_queue([queue]).get(queue, EARLIEST) >= 0

    def resolve(
        self,
        bounds: Mapping[MessageQueue, QueueBounds],
        found: Mapping[MessageQueue, int],
        committed: Mapping[MessageQueue, int | None] = NOTHING_COMMITTED,
    ) -> dict[MessageQueue, int]:
        """Return the offset of each queue of ``bounds``. For a time it is the offset in ``found``, the results of the
        search for ``timestamps_ms``, limited to the bounds: a message stored after ``bounds`` were requested is beyond
        the end. For EARLIEST or LATEST it is the min or max offset. For a position of the group (``group_queues``) it
        is the offset in ``committed``, or without one the fallback. Otherwise it is the listed offset. Raises
        OptionError[COMMITTED_OFFSETS_NOT_FOUND | TIMESTAMP_NOT_MATCHED]."""
        if self.is_time:
            offsets = {queue: one.clamp(found[queue]) for queue, one in bounds.items()}
            self._check_matched([queue for queue, offset in offsets.items() if offset == bounds[queue].max_offset])
            return offsets
        positions = self.positions.by_queue(bounds)
        of_group = self.group_queues(bounds)
        without = [queue for queue in of_group if committed[queue] is None]
        self._check_committed([queue for queue in without if FALLBACKS[positions[queue]] is None])
        positions |= {queue: offset for queue in of_group if (offset := committed[queue]) is not None}
        positions |= {queue: fallback for queue in without if (fallback := FALLBACKS[positions[queue]]) is not None}
        words = {queue: {EARLIEST: held.min_offset, LATEST: held.max_offset} for queue, held in bounds.items()}
        return {queue: words[queue].get(position, position) for queue, position in positions.items()}

    def _check_matched(self, without: Collection[MessageQueue]) -> None:
        """Raise OptionError[TIMESTAMP_NOT_MATCHED] for the queues in ``without``, which have no message at or after
        their time, if ``requires_match``. Do nothing if there are none."""
        if without and self.requires_match:
            times = self.positions.by_queue(without)
            raise OptionError(
                "TIMESTAMP_NOT_MATCHED",
                count=len(without),
                option=self.option,
                queues=_join_or_none(f"{queue}: {times[queue]}" for queue in without),
            )

    def _check_committed(self, without: Collection[MessageQueue]) -> None:
        """Raise OptionError[COMMITTED_OFFSETS_NOT_FOUND] for the queues in ``without``, which lack a committed offset
        and a fallback. Do nothing if there are none."""
        if without:
            raise OptionError(
                "COMMITTED_OFFSETS_NOT_FOUND",
                group=self.group,
                count=len(without),
                option=self.option,
                queues=_join_or_none(map(str, without)),
            )


def start_of(options: BatchReadOptions) -> RangeEnd:
    """Return the start of all ranges. ``startingTimestamp`` has precedence over ``startingOffsetsByTimestamp``, and
    this over ``startingOffsets``."""
    is_strict = options.timestamp_strategy == "error"
    if options.starting_timestamp_ms is not None:
        at_ms = QueuePositions(options.starting_timestamp_ms)
        return RangeEnd("startingTimestamp", at_ms, is_time=True, requires_match=is_strict)
    if options.starting_timestamps_ms is not None:
        at_ms = options.starting_timestamps_ms
        return RangeEnd("startingOffsetsByTimestamp", at_ms, is_time=True, requires_match=is_strict)
    return RangeEnd("startingOffsets", options.starting_offsets, group=options.given_group or NONE)


def end_of(options: BatchReadOptions) -> RangeEnd:
    """Return the end of all ranges. ``endingTimestamp`` has precedence over ``endingOffsetsByTimestamp``, and this over
    ``endingOffsets``. It never requires a match."""
    if options.ending_timestamp_ms is not None:
        return RangeEnd("endingTimestamp", QueuePositions(options.ending_timestamp_ms), is_time=True)
    if options.ending_timestamps_ms is not None:
        return RangeEnd("endingOffsetsByTimestamp", options.ending_timestamps_ms, is_time=True)
    return RangeEnd("endingOffsets", options.ending_offsets, group=options.given_group or NONE)


def batch_ranges(
    bounds: Mapping[MessageQueue, QueueBounds],
    start: tuple[RangeEnd, Mapping[MessageQueue, int]],
    end: tuple[RangeEnd, Mapping[MessageQueue, int]],
    *,
    fail_on_data_loss: bool,
) -> list[QueueRange]:
    """Return the non-empty ranges to read, in the order of ``bounds``.

    ``start``, ``end``: each with the offsets to which it resolves. Raises OptionError[OFFSETS_OUT_OF_RANGE |
    END_BEFORE_START], which lists all such queues. With ``fail_on_data_loss`` false, offsets before the min offset
    raise no error. They are logged as deleted and left out of the range. An end before a start gives an empty range if
    the start is the min offset, and the start's option does not list it as a number.
    """
    (start_end, starts), (end_end, ends) = start, end
    _check_bounds(start_end, starts, bounds, fail_on_data_loss=fail_on_data_loss)
    _check_bounds(end_end, ends, bounds, fail_on_data_loss=fail_on_data_loss)
    reversed_ranges = [
        f"{queue} from {starts[queue]} to {ends[queue]}"
        for queue, held in bounds.items()
        if ends[queue] < starts[queue] and (starts[queue] != held.min_offset or start_end.is_listed(queue))
    ]
    if reversed_ranges:
        raise OptionError(
            "END_BEFORE_START",
            count=len(reversed_ranges),
            ranges=_join_or_none(reversed_ranges),
            start_option=start_end.option,
            end_option=end_end.option,
        )
    ranges = [QueueRange(queue, starts[queue], ends[queue]) for queue in bounds if starts[queue] < ends[queue]]
    report_losses(deleted(ranges, bounds), is_failure=False)
    return [
        QueueRange(one.queue, max(one.begin_offset, bounds[one.queue].min_offset), one.end_offset)
        for one in ranges
        if one.end_offset > bounds[one.queue].min_offset
    ]


def _check_bounds(
    end: RangeEnd,
    offsets: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, QueueBounds],
    *,
    fail_on_data_loss: bool,
) -> None:
    """Raise OptionError[OFFSETS_OUT_OF_RANGE], with all of them, for ``offsets`` after the max offset of their queue.
    With ``fail_on_data_loss`` also for those before the min offset."""
    unavailable = [
        f"{queue}: {offsets[queue]} [{held.min_offset}, {held.max_offset}]"
        for queue, held in bounds.items()
        if offsets[queue] > held.max_offset or (fail_on_data_loss and offsets[queue] < held.min_offset)
    ]
    if unavailable:
        count, text = len(unavailable), _join_or_none(unavailable)
        raise OptionError("OFFSETS_OUT_OF_RANGE", count=count, option=end.option, offsets=text)


def _join_or_none(parts: Iterable[str]) -> str:
    """Return ``parts``, separated by commas; "none" if there are none."""
    return ", ".join(parts) or NONE
