"""Settlement: where queues go on, and what that takes. Pure: the batch planner asks before, and acts afterwards."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.source.data_loss import LostRange
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.planning import Position, lost_ranges, position_of, positions_below

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What is known of queues that may be planned.

    ``stored``: the group's offsets; None: there is none. ``recreated_from``: of the same queues, where each begins to
    be another one than the checkpoint has read; None: it is the same. ``bounds``: of these and perhaps of more.
    ``doubtful``: queues of which something was proven or confirmed that may be of another one. ``emptied``: queues that
    begin anew since all of them had been planned.
    """

    bounds: Mapping[MessageQueue, QueueBounds]
    stored: Mapping[MessageQueue, int | None]
    recreated_from: Mapping[MessageQueue, int | None]
    doubtful: Set[MessageQueue] = frozenset()
    emptied: Collection[MessageQueue] = ()


@dataclass(frozen=True, slots=True)
class PositionResolution:
    """Positions, and what is to be done, in the order of the fields, before anything is planned from there.

    ``emptied``: begin anew, with nothing lost; to be told. ``passed_over``: the group has read them and the checkpoint
    has not. ``lost``: to be reported, which may end the query.
    ``discard``: what was confirmed of these queues may be of other ones. ``lower_to``: these queues do not reach as
    far as the group's offset any more. ``raise_to``: what the group's offsets must be at least, but for queues that
    were not lowered.
    """

    positions: Mapping[MessageQueue, Position]
    emptied: tuple[MessageQueue, ...]
    passed_over: tuple[QueueRange, ...]
    lost: tuple[LostRange, ...]
    discard: frozenset[MessageQueue]
    lower_to: Mapping[MessageQueue, int]
    raise_to: Mapping[MessageQueue, int]


def resolve_positions(start: SourceOffset, facts: QueueFacts, *, is_broadcasting: bool) -> PositionResolution:
    """Where ``facts``'s queues go on after ``start``: at the larger of checkpoint and group, see ``position_of``."""
    stored = _without_read_queues(facts.stored, start) if is_broadcasting else facts.stored
    emptied = tuple(queue for queue, at in stored.items() if queue in facts.emptied and at is not None)
    positions = {
        queue: Position(facts.bounds[queue].min_offset)
        if queue in emptied
        else position_of(queue, facts.bounds[queue], start.queues.get(queue), at, facts.recreated_from[queue])
        for queue, at in stored.items()
    }
    return PositionResolution(
        positions,
        emptied,
        tuple(_passed_over(positions, start, facts)),
        tuple(lost_ranges(positions.values())),
        _stale_commits(positions, start, facts),
        positions_below(positions, facts.stored),
        {queue: position.offset for queue, position in positions.items()},
    )


def _passed_over(
    positions: Mapping[MessageQueue, Position], start: SourceOffset, facts: QueueFacts
) -> Iterator[QueueRange]:
    """From where the checkpoint is to where it goes on, of queues that are the same and have lost nothing; without what
    is deleted, which an earlier start has reported."""
    for queue in positions.keys() & start.queues.keys() - set(facts.emptied):
        position = positions[queue]
        begin_offset = max(start.queues[queue].end_offset, facts.bounds[queue].min_offset)
        if position.lost is None and begin_offset < position.offset:
            yield QueueRange(queue, begin_offset, position.offset)


def _stale_commits(
    positions: Mapping[MessageQueue, Position], start: SourceOffset, facts: QueueFacts
) -> frozenset[MessageQueue]:
    """Queues of which what was confirmed is of another one, or may be. That goes on before where the checkpoint is."""
    vanished = {queue for queue, at in facts.stored.items() if at is None}
    read_to = {queue: progress.end_offset for queue, progress in start.queues.items()}
    return frozenset(vanished | positions_below(positions, read_to).keys() | (facts.doubtful & facts.stored.keys()))


def _without_read_queues(
    stored: Mapping[MessageQueue, int | None], start: SourceOffset
) -> dict[MessageQueue, int | None]:
    """In BROADCASTING the file is this query's alone: where the checkpoint knows a queue it says nothing, though it
    were larger."""
    return {queue: None if queue in start.queues else offset for queue, offset in stored.items()}


def reset_positions(pending: Mapping[MessageQueue, int], snapshot: MetadataSnapshot) -> dict[MessageQueue, int]:
    """Where an operator lets our queues go on, also further back: it wins over checkpoint and group. Never beyond what
    there is of a queue."""
    return {
        queue: min(max(offset, snapshot.bounds[queue].min_offset), snapshot.bounds[queue].max_offset)
        for queue, offset in pending.items()
        if queue in snapshot.bounds and queue in snapshot.owned
    }


def warn_of_emptied(queue: MessageQueue) -> None:
    """Log that a queue was emptied, which loses nothing."""
    log.warning(
        "QUEUE_EMPTIED: Queue=%s was emptied on its broker after the query had planned all its messages; resuming "
        "from its first offset",
        queue,
    )


def warn_of_reset(queue: MessageQueue, before: int | None, offset: int) -> None:
    """Log that an operator has reset a queue. ``before``: its position, None if it had none."""
    log.warning(
        "OFFSET_RESET: Group offset of queue=%s was reset from outside (mqadmin); resuming from offset=%d, before at "
        "offset=%s",
        queue,
        offset,
        "unknown" if before is None else before,
    )
