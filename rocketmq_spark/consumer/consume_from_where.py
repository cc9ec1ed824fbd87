"""ConsumeFromWhere: the start position of a topic without a committed offset, from all options that set it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from rocketmq_spark.condition import cut
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.queue_positions import (
    EARLIEST,
    GROUP,
    GROUP_OR_EARLIEST,
    GROUP_OR_LATEST,
    LATEST,
    QueuePositions,
)


class ConsumeFromWhere(Enum):
    """RocketMQ's start positions, which heartbeats carry. Source: ``common/consumer/ConsumeFromWhere.java``."""

    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


OF_POSITIONS: Final = {
    EARLIEST: ConsumeFromWhere.FIRST_OFFSET,
    LATEST: ConsumeFromWhere.LAST_OFFSET,
    GROUP: ConsumeFromWhere.LAST_OFFSET,
    GROUP_OR_EARLIEST: ConsumeFromWhere.FIRST_OFFSET,
    GROUP_OR_LATEST: ConsumeFromWhere.LAST_OFFSET,
}
"""Of positions that ``startingOffsets`` sets for all queues. A start position applies to topics that the group has not
read, so the group's offset is its fallback; for GROUP, which has none, it is the default."""


NO_TIMES: Final = QueuePositions()


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Start position of topics that the group has not read. ``where`` applies to queues without a position in
    ``offsets`` (of single queues) or ``topics``. For TIMESTAMP only, in epoch ms: ``timestamp_ms``, of all queues, or
    ``times``; queues without a time start at FIRST_OFFSET. ``requires_group``: a group without committed offsets is an
    error (``startingOffsets=group``)."""

    where: ConsumeFromWhere
    timestamp_ms: int | None = None
    offsets: tuple[tuple[MessageQueue, int], ...] = ()
    topics: tuple[tuple[str, int], ...] = ()
    requires_group: bool = False
    times: QueuePositions = NO_TIMES

    @property
    def positions(self) -> QueuePositions:
        """Return the positions to which ``where`` does not apply: ``offsets``, ``topics``, and, if ``requires_group``,
        GROUP for all other queues."""
        return QueuePositions(GROUP if self.requires_group else None, self.topics, self.offsets)

    def timestamps_ms(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the times (epoch ms) to search for, by queue: ``timestamp_ms`` if it is set, else those in ``times``.
        Queues without a time are missing."""
        times = self.times if self.timestamp_ms is None else QueuePositions(self.timestamp_ms)
        return times.by_queue(queues)


def starting_point(options: ReadOptions) -> StartingPoint:
    """Return the start position that ``startingOffsets``, ``startingOffsetsByTimestamp``, ``startingTimestamp``,
    ``consumeTimestamp`` and ``consumeFromWhere`` set; the end of the topic if none is set.

    Raises OptionError[INCOMPATIBLE_OPTIONS] when two of them set different positions, or one lists a topic that is not
    read, OptionError[OPTION_REQUIRES_OPTION] for CONSUME_FROM_TIMESTAMP without a time.

    Source: ``client/consumer/DefaultMQPushConsumer.java``. Differs: its default time, half an hour before each start of
    the client, is not used, because it would differ between members.
    """
    configured = list(_configured_points(options))
    for (first, first_point), (second, second_point) in pairwise(configured):
        if first_point != second_point:
            reason = "They set different start positions."
            raise OptionError("INCOMPATIBLE_OPTIONS", first=first, second=second, reason=reason)
    return configured[0][1] if configured else StartingPoint(ConsumeFromWhere.LAST_OFFSET)


def _configured_points(options: ReadOptions) -> Iterator[tuple[str, StartingPoint]]:
    """Yield the name and the start position of each option that is set. Raises the errors of ``starting_point`` during
    iteration."""
    if options.starting_offsets is not None:
        yield "startingOffsets", _of_starting_offsets(options)
    if options.starting_timestamps_ms is not None:
        _check_subscribed(options, "startingOffsetsByTimestamp", options.starting_timestamps_ms)
        times_of_queues = options.starting_timestamps_ms
        yield "startingOffsetsByTimestamp", StartingPoint(ConsumeFromWhere.TIMESTAMP, times=times_of_queues)
    times = {"startingTimestamp": options.starting_timestamp_ms, "consumeTimestamp": options.consume_timestamp_ms}
    for name, timestamp_ms in times.items():
        if timestamp_ms is not None:
            yield name, StartingPoint(ConsumeFromWhere.TIMESTAMP, timestamp_ms)
    if options.consume_from_where is not None:
        yield "consumeFromWhere", _of_consume_from_where(options)


def _of_starting_offsets(options: ReadOptions) -> StartingPoint:
    """Return the start position that ``startingOffsets`` sets: one for all queues, or those of topics and single
    queues, with FIRST_OFFSET for the rest. Raises OptionError[INCOMPATIBLE_OPTIONS] for topics that are not read."""
    listed = options.starting_offsets or QueuePositions()
    if listed.everywhere is not None:
        return StartingPoint(OF_POSITIONS[listed.everywhere], requires_group=listed.everywhere == GROUP)
    _check_subscribed(options, "startingOffsets", listed)
    return StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=listed.queues, topics=listed.topics)


def _check_subscribed(options: ReadOptions, name: str, listed: QueuePositions) -> None:
    """Raise OptionError[INCOMPATIBLE_OPTIONS] if ``listed``, the value of option ``name``, has topics that are not
    subscribed, do not match the pattern, or have no assigned queue. The error names these topics."""
    named_topics = {queue.topic for queue, _ in listed.queues} | {topic for topic, _ in listed.topics}
    if unread_topics := [topic for topic in named_topics if not options.selects(topic)]:
        second, verb = ("subscribe", "subscribed") if options.assigned is None else ("assign", "assigned")
        if options.topic_pattern is not None:
            second, verb = "subscribePattern", "matched"
        reason = f"'{name}' has topics that are not {verb}: {cut(', '.join(sorted(unread_topics)))}."
        raise OptionError("INCOMPATIBLE_OPTIONS", first=name, second=second, reason=reason)


def _of_consume_from_where(options: ReadOptions) -> StartingPoint:
    """Return the start position that ``consumeFromWhere`` sets; the time of TIMESTAMP is ``consumeTimestamp``, else
    ``startingTimestamp``. Raises OptionError[OPTION_REQUIRES_OPTION] if neither is set."""
    where = ConsumeFromWhere(options.consume_from_where)
    if where is not ConsumeFromWhere.TIMESTAMP:
        return StartingPoint(where)
    times = (options.consume_timestamp_ms, options.starting_timestamp_ms)
    configured_times = [timestamp_ms for timestamp_ms in times if timestamp_ms is not None]
    if not configured_times:
        reason = f"{where.value} has no default time."
        raise OptionError("OPTION_REQUIRES_OPTION", option="consumeFromWhere", needed="consumeTimestamp", reason=reason)
    return StartingPoint(where, configured_times[0])
