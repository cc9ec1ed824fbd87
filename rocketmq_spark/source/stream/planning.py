"""Planning: from positions and bounds to the ranges of the next micro-batch. Decides; the batch planner does.

The rules are those of docs/dev/offsets.md: every number that the checkpoint or the broker holds is true
("all below is in some member's output"), so the larger of two is true as well, and a plan starts there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.data_loss import RECREATED, REPLACED, RETENTION, TRUNCATED, LostRange
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


@dataclass(frozen=True, slots=True)
class Position:
    """Where the next range of a queue begins, and what is missing in front of it."""

    offset: int
    lost: LostRange | None = None


NOTHING_READ: Final = SourceOffset()

EMPTIED_STORE_TIME_MS: Final = 1
"""The last store time of a queue whose messages were all deleted before anybody asked. No message is as old: whatever
is seen below our position is another queue's. 0 would say that nothing is known."""


def position_of(
    queue: MessageQueue,
    bounds: QueueBounds,
    checkpoint: QueueProgress | None,
    stored: int | None,
    recreated_from: int | None = None,
) -> Position:
    """Where to go on in a queue: the larger of checkpoint and broker; where neither knows it, the queue is new.

    ``stored`` is the group's offset at the broker. A new queue begins at its min offset: the first positions of a topic
    have been written to the broker before anything is planned (``start_positions``). ``recreated_from``: from there on
    it is not the queue that the checkpoint has read, see ``queue_identity``.
    """
    if checkpoint is not None and recreated_from is not None:
        return _recreated_position(queue, min(recreated_from, checkpoint.end_offset - 1), bounds, checkpoint)
    previous = [progress.end_offset for progress in (checkpoint,) if progress is not None]
    if stored is not None:
        previous.append(stored)
    if not previous:
        return Position(bounds.min_offset)
    return _within(queue, max(previous), bounds, checkpoint)


def _recreated_position(queue: MessageQueue, begin: int, bounds: QueueBounds, checkpoint: QueueProgress) -> Position:
    cause = RECREATED if begin <= bounds.min_offset else REPLACED
    return Position(max(begin, bounds.min_offset), LostRange(queue, begin, checkpoint.end_offset, cause))


def _within(queue: MessageQueue, offset: int, bounds: QueueBounds, checkpoint: QueueProgress | None) -> Position:
    if offset < bounds.min_offset:
        return Position(bounds.min_offset, LostRange(queue, offset, bounds.min_offset, RETENTION))
    if offset <= bounds.max_offset:
        return Position(offset)
    if checkpoint is not None and bounds.last_store_timestamp_ms <= checkpoint.last_store_timestamp_ms:
        return Position(bounds.max_offset, LostRange(queue, bounds.max_offset, offset, TRUNCATED))
    return Position(bounds.min_offset, LostRange(queue, bounds.max_offset, offset, RECREATED))


def later_of(previous: QueueProgress | None, bounds: QueueBounds) -> int:
    """The last store time to remember in ms: knowledge is never lost to an emptied queue or a clock that was put
    back. Of a queue that was empty when it was met: ``EMPTIED_STORE_TIME_MS``."""
    later_ms = max(bounds.last_store_timestamp_ms, 0 if previous is None else previous.last_store_timestamp_ms)
    is_emptied = 0 < bounds.min_offset == bounds.max_offset
    return EMPTIED_STORE_TIME_MS if is_emptied and later_ms == 0 else later_ms


def plan_batch(
    positions: Mapping[MessageQueue, Position],
    bounds: Mapping[MessageQueue, QueueBounds],
    *,
    limit: int | None,
    targets: Mapping[MessageQueue, int] | None = None,
    last_planned: Sequence[MessageQueue] = (),
    checkpoint: SourceOffset = NOTHING_READ,
) -> dict[MessageQueue, QueueProgress]:
    """The next range of every queue that has something to read.

    Parameters
    ----------
    positions, bounds : of the queues that may be planned, same keys
    limit : offsets in all; None: no limit
    targets : the end that AvailableNow fixed for each queue; a queue without one is not read. None: read what there is
    served : see ``fair_shares``
    checkpoint : whose store times are not forgotten

    Returns
    -------
    Progress with ``begin_offset < end_offset`` for each planned queue, never beyond its bounds or target.
    """
    unplanned = {}
    for queue, position in positions.items():
        end = bounds[queue].max_offset if targets is None else min(targets.get(queue, 0), bounds[queue].max_offset)
        if end > position.offset:
            unplanned[queue] = end - position.offset
    return {
        queue: QueueProgress(
            positions[queue].offset,
            positions[queue].offset + share,
            later_of(checkpoint.queues.get(queue), bounds[queue]),
        )
        for queue, share in fair_shares(unplanned, limit, last_planned).items()
    }


def unreached(
    targets: Mapping[MessageQueue, int], checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]
) -> dict[MessageQueue, int]:
    """Offsets left to each AvailableNow target that neither this query nor, by the group's offsets, another member has
    reached."""
    missing = {}
    for queue, target in targets.items():
        progress = checkpoint.queues.get(queue)
        reached = max(progress.end_offset if progress else 0, stored.get(queue) or 0)
        if reached < target:
            missing[queue] = target - reached
    return missing


def positions_below(
    positions: Mapping[MessageQueue, Position], previous: Mapping[MessageQueue, int | None]
) -> dict[MessageQueue, int]:
    """Positions below what is ``previous`` of their queues: these do not reach so far any more."""
    return {
        queue: position.offset
        for queue, position in positions.items()
        if (before := previous.get(queue)) is not None and position.offset < before
    }


def lost_ranges(positions: Iterable[Position]) -> list[LostRange]:
    """What is missing in front of any of ``positions``."""
    return [position.lost for position in positions if position.lost is not None]


def fair_shares(
    unplanned: Mapping[MessageQueue, int], limit: int | None, last_planned: Sequence[MessageQueue] = ()
) -> dict[MessageQueue, int]:
    """Split ``limit`` offsets among queues in proportion to what waits in each.

    Parameters
    ----------
    waiting : offsets that wait, > 0 for each queue
    limit : offsets in all, >= 1; None: no limit
    served : queues in the order in which they had their last turn, the latest one last

    Returns
    -------
    Shares > 0, none above what waits, ``min(limit, all that outages)`` in all. While the limit allows it every queue
    gets at least one. Below that some get one each: those that never had a turn, then those that had it longest ago, so
    that none starves; the fuller one where that is equal.
    """
    total = sum(unplanned.values())
    if limit is None or total <= limit:
        return dict(unplanned)
    fullest_first = sorted(unplanned, key=lambda queue: (-unplanned[queue], queue.sort_key()))
    if limit < len(unplanned):
        last_order = {queue: order for order, queue in enumerate(last_planned)}
        return dict.fromkeys(sorted(fullest_first, key=lambda queue: last_order.get(queue, -1))[:limit], 1)
    spare, beyond_one = limit - len(unplanned), total - len(unplanned)
    shares = {queue: 1 + spare * (unplanned[queue] - 1) // beyond_one for queue in fullest_first}
    # What rounding leaves is less than one for each queue that was rounded; those have more, and are the fullest.
    for queue in fullest_first[: limit - sum(shares.values())]:
        shares[queue] += 1
    return shares
