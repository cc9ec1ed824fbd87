"""Planning: from positions and bounds to the ranges of the next micro-batch. It only decides; the batch planner acts.

The rules are in docs/dev/offsets.md. Each offset of the checkpoint or the broker is valid ("all messages before it are
in some member's output"). So the larger of two is valid as well, and a plan starts there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.data_loss import (
    BEYOND_END,
    BEYOND_UNVERIFIED_END,
    RECREATED,
    REPLACED,
    RETENTION,
    TRUNCATED,
    LostRange,
)
from rocketmq_spark.source.stream.message_sizes import MessageSizes, shares_within
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


@dataclass(frozen=True, slots=True)
class Position:
    """Start of a queue's next range, and the lost offsets before it, or None."""

    offset: int
    lost: LostRange | None = None


NOTHING_READ: Final = SourceOffset()

EMPTIED_STORE_TIME_MS: Final = 1
"""Last store time of a queue whose messages were all deleted before the first metadata refresh. No message is as old:
any message below the position is of another queue. 0 would mean unknown."""


def position_of(
    queue: MessageQueue,
    bounds: QueueBounds,
    checkpoint: QueueProgress | None,
    stored: int | None,
    recreated_from: int | None = None,
) -> Position:
    """Return where a queue resumes, with the offsets that are lost: at the larger of checkpoint and group offset,
    within the queue's bounds (``_within``). If the group offset is beyond the queue's end, and the checkpoint's is not
    or is missing, see ``_beyond_end_position``. Without either offset it is the queue's min offset: the start positions
    of a topic were written to the broker before any plan (``topic_starts``).

    ``stored``: the group's offset at the broker, or None. ``recreated_from``: first offset of a re-created queue that
    replaced the one that the checkpoint has read (``queue_identity``); it resumes by ``_recreated_position``, whatever
    ``stored`` is. None: it is the same queue. Ignored without ``checkpoint``.
    """
    if checkpoint is not None and recreated_from is not None:
        return _recreated_position(queue, min(recreated_from, checkpoint.end_offset - 1), bounds, checkpoint)
    if stored is not None and (0 if checkpoint is None else checkpoint.end_offset) <= bounds.max_offset < stored:
        return _beyond_end_position(queue, stored, bounds, checkpoint)
    previous = [progress.end_offset for progress in (checkpoint,) if progress is not None]
    if stored is not None:
        previous.append(stored)
    if not previous:
        return Position(bounds.min_offset)
    return _within(queue, max(previous), bounds, checkpoint)


def _recreated_position(queue: MessageQueue, begin: int, bounds: QueueBounds, checkpoint: QueueProgress) -> Position:
    """Return the position of a re-created queue: its min offset, or ``begin``, the first offset with a message of the
    new queue, if this is larger. All offsets from ``begin`` up to the checkpoint's are lost."""
    cause = RECREATED if begin <= bounds.min_offset else REPLACED
    return Position(max(begin, bounds.min_offset), LostRange(queue, begin, checkpoint.end_offset, cause))


def _beyond_end_position(
    queue: MessageQueue, stored: int, bounds: QueueBounds, checkpoint: QueueProgress | None
) -> Position:
    """Return the position of a queue whose max offset is smaller than the group's offset ``stored``, but not than the
    checkpoint's. Without a store time in the checkpoint, which identifies the queue, it is the min offset. With one it
    is the checkpoint's offset, or the min offset if that is larger. The loss is ``[max offset, stored)``, or in the
    last case ``[checkpoint's offset, min offset)``."""
    if checkpoint is None or checkpoint.last_store_timestamp_ms <= 0:
        return Position(bounds.min_offset, LostRange(queue, bounds.max_offset, stored, BEYOND_UNVERIFIED_END))
    if checkpoint.end_offset < bounds.min_offset:
        return _within(queue, checkpoint.end_offset, bounds, checkpoint)
    return Position(checkpoint.end_offset, LostRange(queue, bounds.max_offset, stored, BEYOND_END))


def _within(queue: MessageQueue, offset: int, bounds: QueueBounds, checkpoint: QueueProgress | None) -> Position:
    """Return the position ``offset``, limited to the bounds, with the lost offsets before the min or beyond the max
    offset. A queue that ends before ``offset`` is truncated if its last message was not stored later than the
    checkpoint's: it resumes at its max offset. Otherwise, and without a checkpoint, it is re-created, and resumes at
    its min offset."""
    if offset < bounds.min_offset:
        return Position(bounds.min_offset, LostRange(queue, offset, bounds.min_offset, RETENTION))
    if offset <= bounds.max_offset:
        return Position(offset)
    if checkpoint is not None and bounds.last_store_timestamp_ms <= checkpoint.last_store_timestamp_ms:
        return Position(bounds.max_offset, LostRange(queue, bounds.max_offset, offset, TRUNCATED))
    return Position(bounds.min_offset, LostRange(queue, bounds.max_offset, offset, RECREATED))


def later_of(previous: QueueProgress | None, bounds: QueueBounds) -> int:
    """Return the last store time of a queue to record in an offset, in epoch ms: the later of ``previous`` and
    ``bounds``. An emptied queue or a clock that was put back must not lower it. If both are unknown (0), return
    ``EMPTIED_STORE_TIME_MS`` for a queue of which all messages are deleted, else 0."""
    later_ms = max(bounds.last_store_timestamp_ms, 0 if previous is None else previous.last_store_timestamp_ms)
    is_emptied = 0 < bounds.min_offset == bounds.max_offset
    return EMPTIED_STORE_TIME_MS if is_emptied and later_ms == 0 else later_ms


def is_recorded(progress: QueueProgress | None, position: int) -> bool:
    """Return whether the checkpoint's ``progress`` ends at ``position`` and has a store time; False for None."""
    return progress is not None and progress.end_offset == position and progress.last_store_timestamp_ms > 0


def idle_progress(
    positions: Mapping[MessageQueue, int], checkpoint: SourceOffset, bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, QueueProgress]:
    """Return progress without a range, at its position, for each queue in ``bounds`` that is not ``is_recorded``: its
    position differs from the checkpoint's, or the checkpoint lacks its store time. Omit all other queues. They keep
    their store time, since a later one may be of another queue."""
    moved = {
        queue: at
        for queue, at in positions.items()
        if queue in bounds and not is_recorded(checkpoint.queues.get(queue), at)
    }
    return {
        queue: QueueProgress(at, at, later_of(checkpoint.queues.get(queue), bounds[queue]))
        for queue, at in moved.items()
    }


def unplanned_offsets(
    positions: Mapping[MessageQueue, Position],
    bounds: Mapping[MessageQueue, QueueBounds],
    targets: Mapping[MessageQueue, int] | None = None,
) -> dict[MessageQueue, int]:
    """Return the number of offsets from each queue's position to its end, without queues that have none. The end is the
    max offset or, if lower, the queue's target. ``bounds`` must have all queues of ``positions``. ``targets``: ends
    that AvailableNow has fixed; a queue without one is not read. Without targets (None) all queues are read."""
    unplanned = {}
    for queue, position in positions.items():
        end = bounds[queue].max_offset if targets is None else min(targets.get(queue, 0), bounds[queue].max_offset)
        if end > position.offset:
            unplanned[queue] = end - position.offset
    return unplanned


def plan_batch(
    positions: Mapping[MessageQueue, Position],
    bounds: Mapping[MessageQueue, QueueBounds],
    unplanned: Mapping[MessageQueue, int],
    *,
    limit: int | None,
    max_bytes: int | None = None,
    sizes: MessageSizes | None = None,
    last_planned: Sequence[MessageQueue] = (),
    checkpoint: SourceOffset = NOTHING_READ,
) -> dict[MessageQueue, QueueProgress]:
    """Return the next range of the queues that get a share of the limits; {} if there is nothing to read.

    Parameters
    ----------
    positions, bounds : of the queues that may be planned, same keys
    unplanned : offsets that may be planned, see ``unplanned_offsets``
    limit : maximum number of offsets in total, see ``fair_shares``; None: no limit
    max_bytes : maximum number of bytes in total, estimated by ``sizes``, see ``shares_within``; None: no limit
    last_planned : see ``fair_shares``
    checkpoint : source of the last store times to keep

    Returns
    -------
    Progress with ``begin_offset < end_offset`` for each planned queue, never beyond its bounds or target.
    """
    shares = fair_shares(unplanned, limit, last_planned)
    if max_bytes is not None and sizes is not None:
        shares = shares_within(shares, max_bytes, sizes.of, last_planned)
    return {
        queue: QueueProgress(
            positions[queue].offset,
            positions[queue].offset + share,
            later_of(checkpoint.queues.get(queue), bounds[queue]),
        )
        for queue, share in shares.items()
    }


def unreached(
    targets: Mapping[MessageQueue, int], checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]
) -> dict[MessageQueue, int]:
    """Return, by queue, the number of offsets before its AvailableNow target that neither this query (``checkpoint``)
    nor the group (``stored``, its offsets) has reached. Omit queues that have reached their target."""
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
    """Return the offsets of ``positions`` that are smaller than the queue's ``previous`` offset, which the queue no
    longer reaches. Omit queues without a previous offset (None or missing)."""
    return {
        queue: position.offset
        for queue, position in positions.items()
        if (before := previous.get(queue)) is not None and position.offset < before
    }


def lost_ranges(positions: Iterable[Position]) -> list[LostRange]:
    """Return the losses of the ``positions`` that have one, in order."""
    return [position.lost for position in positions if position.lost is not None]


def fair_shares(
    unplanned: Mapping[MessageQueue, int], limit: int | None, last_planned: Sequence[MessageQueue] = ()
) -> dict[MessageQueue, int]:
    """Split ``limit`` offsets among queues in proportion to the unplanned offsets of each.

    Parameters
    ----------
    unplanned : offsets that are not planned, > 0 for each queue
    limit : offsets in total, >= 1; None: no limit
    last_planned : queues in the order in which they were last planned, the latest one last

    Returns
    -------
    Shares > 0, none above the queue's unplanned offsets, ``min(limit, all unplanned)`` in total. If the limit allows
    it, every queue gets at least one. If not, some get one each: those that were never planned, then those planned
    longest ago, so that none starves; the one with more unplanned offsets where that is equal.
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
    # The remainder is less than one per rounded queue; these have more unplanned offsets, and come first.
    for queue in fullest_first[: limit - sum(shares.values())]:
        shares[queue] += 1
    return shares
