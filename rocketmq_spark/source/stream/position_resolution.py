"""Position resolution: where queues resume, and the required actions. Pure: the planner collects facts and acts.

While a broker has no master, its bounds and offsets are those of a slave, which lags behind the master. Its end may be
lower than the checkpoint's, its first offset higher, and its copy of the group's offsets is up to a minute old. None of
these is a loss, or a step back. So a queue is planned there only if the slave has the position that this query has
reached, and from there on; all else waits for the master.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.source.data_loss import LostRange
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.planning import Position, lost_ranges, position_of, positions_below

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Facts of queues that may be planned, which the planner has collected.

    ``stored``: the group's committed offsets, or None. ``recreated_from``: of the same queues, the offset from which
    the queue is not the one that the checkpoint has read, or None for the same queue. ``bounds``: of these queues,
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
    before it plans. A queue in ``facts.emptied`` with a stored offset resumes at its min offset. All other queues
    resume by ``position_of``: at the larger of checkpoint and group offset. With ``has_own_offsets`` the stored offset
    of a queue in ``start`` does not count."""
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
    """Yield, in no order, the non-empty ranges from the checkpoint's offset of a queue to its position. Omit queues
    that were emptied or have a loss. A range includes messages that brokers have deleted, since a checkpoint restored
    from a backup may be older than their retention."""
    for queue in positions.keys() & start.queues.keys() - set(facts.emptied):
        position, read_to = positions[queue], start.queues[queue].end_offset
        if position.lost is None and read_to < position.offset:
            yield QueueRange(queue, read_to, position.offset)


def _stale_commits(
    positions: Mapping[MessageQueue, Position], start: SourceOffset, facts: QueueFacts
) -> frozenset[MessageQueue]:
    """Return the queues whose confirmed offsets the committer must discard: they may be of another queue identity.
    These are queues without a stored offset, queues that resume before the checkpoint's offset, and doubtful ones."""
    vanished = {queue for queue, at in facts.stored.items() if at is None}
    read_to = {queue: progress.end_offset for queue, progress in start.queues.items()}
    return frozenset(vanished | positions_below(positions, read_to).keys() | (facts.doubtful & facts.stored.keys()))


def _without_read_queues(
    stored: Mapping[MessageQueue, int | None], start: SourceOffset
) -> dict[MessageQueue, int | None]:
    """Return ``stored``, with None for each queue in the checkpoint. With ``has_own_offsets`` no other query writes the
    offsets, and the checkpoint's count, even if the stored ones are larger."""
    return {queue: None if queue in start.queues else offset for queue, offset in stored.items()}


def queues_at_slaves(queues: Collection[MessageQueue], snapshot: MetadataSnapshot) -> set[MessageQueue]:
    """Return the ``queues`` whose broker is read at a slave, so that ``snapshot`` has the slave's bounds."""
    return {queue for queue in queues if queue.broker_name in snapshot.brokers_at_slaves}


def without_lagging(snapshot: MetadataSnapshot, start: SourceOffset) -> MetadataSnapshot:
    """Return ``snapshot`` without the bounds of a queue at a slave if ``start`` lacks the queue, or if the bounds do
    not include its position in ``start``. Such queues count as unresponsive."""
    if not snapshot.brokers_at_slaves:
        return snapshot
    lagging = {
        queue
        for queue in queues_at_slaves(snapshot.bounds, snapshot)
        if queue not in start.queues or not _bounds_include(snapshot, queue, start.queues[queue].end_offset)
    }
    return replace(snapshot, bounds={queue: held for queue, held in snapshot.bounds.items() if queue not in lagging})


def without_older(
    stored: Mapping[MessageQueue, int | None], start: SourceOffset, snapshot: MetadataSnapshot
) -> Mapping[MessageQueue, int | None]:
    """Return ``stored``, the group's offsets. A queue at a slave gets the larger of its offset there and in ``start``,
    which must have it. Omit queues at a slave whose bounds do not include the larger one: other members have read
    further."""
    at_slaves = queues_at_slaves(stored.keys(), snapshot)
    raised = {queue: max(stored[queue] or 0, start.queues[queue].end_offset) for queue in at_slaves}
    lagging = {queue for queue, offset in raised.items() if not _bounds_include(snapshot, queue, offset)}
    return {queue: raised.get(queue, at) for queue, at in stored.items() if queue not in lagging}


def _bounds_include(snapshot: MetadataSnapshot, queue: MessageQueue, offset: int) -> bool:
    """Return whether ``offset`` is in the queue's bounds, or its max offset."""
    return snapshot.bounds[queue].min_offset <= offset <= snapshot.bounds[queue].max_offset


def reset_positions(pending: Mapping[MessageQueue, int], snapshot: MetadataSnapshot) -> dict[MessageQueue, int]:
    """Return the offsets to which an operator has reset queues, also backward, limited to the queues' bounds. Omit
    queues that are not owned or have no bounds. A reset overrides checkpoint and group."""
    return {
        queue: snapshot.bounds[queue].clamp(offset)
        for queue, offset in pending.items()
        if queue in snapshot.bounds and queue in snapshot.owned
    }


def warn_of_emptied(queues: Iterable[MessageQueue]) -> None:
    """Log one warning for each of ``queues``: it was emptied, and loses nothing."""
    for queue in queues:
        log.warning(
            "QUEUE_EMPTIED: Queue=%s was emptied by its broker. No message is lost, because the query had planned all "
            "of them; resuming from the queue's first offset",
            queue,
        )


def warn_of_reset(queue: MessageQueue, before: int | None, offset: int) -> None:
    """Log a warning that an operator has reset a queue. ``before``: its position, None if it had none."""
    log.warning(
        "OFFSET_RESET: The group's offset of queue=%s was reset, for example with mqadmin; resuming from offset=%d "
        "instead of offset=%s",
        queue,
        offset,
        "unknown" if before is None else before,
    )
