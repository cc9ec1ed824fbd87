"""Position resolution: where queues resume, and the actions for that. Pure: the planner collects facts and acts."""

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
    """Facts of queues that may be planned, which the planner has collected.

    ``stored``: the group's committed offsets; None: there is none. ``recreated_from``: of the same queues, the offset
    from which the queue is not the one that the checkpoint has read; None: it is the same. ``bounds``: of these queues,
    perhaps of more. ``doubtful``: queues whose completed or confirmed offsets may be of another queue identity.
    ``emptied``: queues that begin at their first offset again, after all their messages had been planned.
    """

    bounds: Mapping[MessageQueue, QueueBounds]
    stored: Mapping[MessageQueue, int | None]
    recreated_from: Mapping[MessageQueue, int | None]
    doubtful: Set[MessageQueue] = frozenset()
    emptied: Collection[MessageQueue] = ()


@dataclass(frozen=True, slots=True)
class PositionResolution:
    """Positions, and the actions before anything is planned from there, in the order of the fields.

    ``emptied``: begin again, with nothing lost; to be logged. ``passed_over``: ranges that the group has read and the
    checkpoint has not. ``lost``: to be reported, which may end the query. ``discard``: queues whose confirmed offsets
    may be of another queue identity. ``lower_to``: offsets of queues that no longer reach the group's offset.
    ``raise_to``: minimum of the group's offsets, except of queues that could not be lowered.
    """

    positions: Mapping[MessageQueue, Position]
    emptied: tuple[MessageQueue, ...]
    passed_over: tuple[QueueRange, ...]
    lost: tuple[LostRange, ...]
    discard: frozenset[MessageQueue]
    lower_to: Mapping[MessageQueue, int]
    raise_to: Mapping[MessageQueue, int]


def resolve_positions(start: SourceOffset, facts: QueueFacts, *, has_own_offsets: bool) -> PositionResolution:
    """Return where each queue of ``facts.stored`` resumes after ``start``, and the actions that the caller must take
    before it plans. A queue in ``facts.emptied`` with a stored offset resumes at its min offset, all others by
    ``position_of``: at the larger of checkpoint and group offset. With ``has_own_offsets`` the stored offset of a queue
    in ``start`` does not count."""
    stored = _without_read_queues(facts.stored, start) if has_own_offsets else facts.stored
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
    """Yield, in no order, the range between the checkpoint's offset and the position of each queue that the checkpoint
    has and that was not emptied and has no loss. Offsets below the min offset are left out: an earlier start has
    reported their loss."""
    for queue in positions.keys() & start.queues.keys() - set(facts.emptied):
        position = positions[queue]
        begin_offset = max(start.queues[queue].end_offset, facts.bounds[queue].min_offset)
        if position.lost is None and begin_offset < position.offset:
            yield QueueRange(queue, begin_offset, position.offset)


def _stale_commits(
    positions: Mapping[MessageQueue, Position], start: SourceOffset, facts: QueueFacts
) -> frozenset[MessageQueue]:
    """Return the queues whose confirmed offsets the committer is to discard, because they may be of another queue
    identity: queues without a stored offset, queues that resume below the checkpoint's offset, and doubtful ones."""
    vanished = {queue for queue, at in facts.stored.items() if at is None}
    read_to = {queue: progress.end_offset for queue, progress in start.queues.items()}
    return frozenset(vanished | positions_below(positions, read_to).keys() | (facts.doubtful & facts.stored.keys()))


def _without_read_queues(
    stored: Mapping[MessageQueue, int | None], start: SourceOffset
) -> dict[MessageQueue, int | None]:
    """Return ``stored``, with None for each queue in the checkpoint: with ``has_own_offsets`` no other query writes the
    offsets, and the checkpoint's count, even if the stored ones are larger."""
    return {queue: None if queue in start.queues else offset for queue, offset in stored.items()}


def reset_positions(pending: Mapping[MessageQueue, int], snapshot: MetadataSnapshot) -> dict[MessageQueue, int]:
    """Return the offsets to which an operator has reset queues, also backward, limited to the queues' bounds; omit
    queues that are not owned or have no bounds. A reset overrides checkpoint and group."""
    return {
        queue: snapshot.bounds[queue].clamp(offset)
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
        "OFFSET_RESET: The group's offset of queue=%s was reset, for example with mqadmin; resuming from offset=%d "
        "instead of offset=%s",
        queue,
        offset,
        "unknown" if before is None else before,
    )
