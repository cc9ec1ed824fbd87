"""Start positions: initial offsets of queues that neither the checkpoint nor the group has, and what the start of a
topic changes. ``topic_starts`` requests the facts, and sends and logs what ``plan_start`` returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rocketmq_spark.condition import listed
from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.consumer.consume_from_where import ConsumeFromWhere, StartingPoint
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import RETRY_TOPIC_PREFIX, MessageQueue, QueueBounds
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.options.queue_positions import EARLIEST, FALLBACKS, GROUP, LATEST
from rocketmq_spark.source.data_loss import RETENTION, LostRange, report_losses
from rocketmq_spark.source.stream.offsets import SourceOffset


def unread_queues(checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> list[MessageQueue]:
    """Return the queues of ``stored``, in its order, whose topic was never read. ``checkpoint`` has no queue of the
    topic, and the group has no committed offset of one.

    ``stored``: the group's offsets of all queues of the subscribed topics, owned or not; None: no offset.
    """
    started = {queue.topic for queue in checkpoint.queues}
    started |= {queue.topic for queue, offset in stored.items() if offset is not None}
    return [queue for queue in stored if queue.topic not in started]


def queues_read_by_group(checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> list[MessageQueue]:
    """Return the queues of ``stored``, in its order, of topics that ``checkpoint`` lacks and the group has read. The
    group has read a topic if it has a committed offset of one of its queues. All queues of the topic are returned."""
    in_checkpoint = {queue.topic for queue in checkpoint.queues}
    of_group = {queue.topic for queue, offset in stored.items() if offset is not None}
    return [queue for queue in stored if queue.topic in of_group - in_checkpoint]


def format_resumption(name: str, stored: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> str:
    """Return the log text for queues that resume from their ``stored`` offsets despite a new checkpoint. It has the
    backlog of all of them, then offset and bounds of the first ``MAX_LISTED`` (8). ``name``: name of the offsets'
    store. ``bounds`` must have all queues of ``stored``."""
    left = sum(max(0, bounds[queue].max_offset - at) for queue, at in stored.items())
    total = sum(bounds[queue].max_offset - bounds[queue].min_offset for queue in stored)
    parts = [
        f"queue={queue} offset={stored[queue]} bounds=[{bounds[queue].min_offset}, {bounds[queue].max_offset})"
        for queue in sorted(stored, key=MessageQueue.sort_key)
    ]
    return (
        f"Checkpoint has no offsets of these queues; resuming from those of {name}, start "
        f"options are ignored. To read: {left} of {total} offsets: {_named(parts)}"
    )


def format_lost_offsets(stored: Mapping[MessageQueue, int | None], checkpoint: SourceOffset) -> str | None:
    """Return the warning that the group has no offset (None in ``stored``) of queues that the checkpoint has read
    beyond offset 0, or None without such queues. A killed broker may have lost the offsets. Another cluster, with older
    messages in queues of the same names, is not distinguishable."""
    read_to = {queue: progress.end_offset for queue, progress in checkpoint.queues.items() if progress.end_offset > 0}
    lost = [queue for queue, at in stored.items() if at is None and queue in read_to]
    if not lost:
        return None
    parts = [f"queue={queue} offset={read_to[queue]}" for queue in sorted(lost, key=MessageQueue.sort_key)]
    return (
        "Brokers have no committed offsets of the group for queues that the checkpoint has "
        f"read; resuming from the checkpoint: {_named(parts)}. If 'namesrvAddr' now points to another cluster, its "
        "messages below these offsets are not read: use a new checkpoint location (and, for a file sink, a new path)"
    )


def group_positions_ahead(
    checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None], bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, int]:
    """Return, by queue, the offsets to which ``groupOffsets`` ``checkpoint`` lowers the group's committed ones. It is
    the checkpoint's offset of the queue or, if the checkpoint has only other queues of the topic, the queue's min
    offset. Omit queues of other topics, and queues in which the group has no larger offset. ``bounds`` must have all
    queues of ``stored``."""
    topics = {queue.topic for queue in checkpoint.queues}
    read_to = {queue: bounds[queue].min_offset for queue in stored if queue.topic in topics}
    read_to |= {queue: progress.end_offset for queue, progress in checkpoint.queues.items()}
    return {queue: read_to[queue] for queue, at in stored.items() if at is not None and at > read_to.get(queue, at)}


def format_move(moved: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]) -> str:
    """Return the log text for a reset of the group's offsets from ``stored`` to ``moved`` (``groupOffsets`` ``ignore``
    or ``checkpoint``). It lists the first ``MAX_LISTED`` (8) queues."""
    in_order = sorted(moved, key=MessageQueue.sort_key)
    parts = [f"queue={queue} from={stored[queue]} to={moved[queue]}" for queue in in_order]
    return f"Reset the group's offsets as configured by 'groupOffsets': {_named(parts)}"


def _named(parts: Sequence[str]) -> str:
    """Return the first ``MAX_LISTED`` (8) of ``parts``, one a queue, then the number of further queues, if any."""
    return listed(parts, more=" and {} more queues")


def first_positions(
    start: StartingPoint,
    bounds: Mapping[MessageQueue, QueueBounds],
    found: Mapping[MessageQueue, int],
    *,
    requires_match: bool = False,
    fail_on_data_loss: bool = True,
) -> dict[MessageQueue, int]:
    """Return the start position of each queue of ``bounds``, which has all queues of topics that were never read.
    ``start`` lists the position for the queue or its topic, or ``start.where`` defines it. A retry topic, which has the
    messages that a group has sent back, starts at its first message unless it is listed.

    ``found``: the first offset stored at ``start.timestamps_ms`` or later, of the queues that have such a time. Raises,
    with all queues in the error: OptionError[LISTED_QUEUES_UNKNOWN | OFFSETS_OUT_OF_RANGE], and with ``requires_match``
    OptionError[TIMESTAMP_NOT_MATCHED] for queues without a message since their time. With ``fail_on_data_loss`` false,
    listed offsets that retention has deleted are logged and raised to the min offsets.

    Source of the policies: ``client/impl/consumer/RebalancePushImpl.java#computePullFromWhereWithException``; differs:
    a topic starts as a whole, so a queue that it gains later starts at its min offset instead of at "latest".
    """
    _check_listed_queues_exist(start, bounds)
    listed = {queue: at for queue, at in start.positions.by_queue(bounds).items() if at != GROUP}
    first = {
        queue: _listed_offset(listed[queue], held) if queue in listed else _by_policy(start.where, held, found, queue)
        for queue, held in bounds.items()
    }
    if not fail_on_data_loss:
        first |= _skip_deleted({queue: first[queue] for queue in listed}, bounds)
    _check_offsets({queue: first[queue] for queue in listed}, bounds)
    if requires_match:
        searched = [queue for queue in found if queue in bounds and not queue.topic.startswith(RETRY_TOPIC_PREFIX)]
        _check_matched([one for one in searched if first[one] >= bounds[one].max_offset], start)
    return first


def queues_without_group_offset(start: StartingPoint, unread: Collection[MessageQueue]) -> list[MessageQueue]:
    """Return the queues of ``unread``, which have no committed offset, that ``start`` lists at the group's committed
    offset without a fallback: they cannot start. Omit queues of retry topics, which start at their first message."""
    listed = start.positions.by_queue(unread)
    return [one for one in unread if listed.get(one) == GROUP and not one.topic.startswith(RETRY_TOPIC_PREFIX)]


def _by_policy(
    where: ConsumeFromWhere, held: QueueBounds, found: Mapping[MessageQueue, int], queue: MessageQueue
) -> int:
    """Return the start position by ``consumeFromWhere``: the min offset for FIRST_OFFSET, the max offset for
    LAST_OFFSET. For TIMESTAMP it is the offset in ``found``, or the min offset if this is larger or ``found`` lacks the
    queue. A queue of a retry topic starts at its min offset in any case."""
    if queue.topic.startswith(RETRY_TOPIC_PREFIX):
        return held.min_offset
    if where is ConsumeFromWhere.TIMESTAMP:
        return max(found.get(queue, 0), held.min_offset)
    return held.min_offset if where is ConsumeFromWhere.FIRST_OFFSET else held.max_offset


def _listed_offset(position: int, held: QueueBounds) -> int:
    """Return the offset of a listed position, for a queue without the group's offset: for EARLIEST and "group:earliest"
    the min offset, for LATEST and "group:latest" the max offset, otherwise ``position``."""
    position = FALLBACKS.get(position) or position
    return {EARLIEST: held.min_offset, LATEST: held.max_offset}.get(position, position)


def _option_of(start: StartingPoint) -> str:
    """Return the name of the option that an error shows for ``start``: ``startingTimestamp`` for one time for all
    queues, ``startingOffsetsByTimestamp`` for times of queues or topics, otherwise ``startingOffsets``."""
    if start.timestamp_ms is not None:
        return "startingTimestamp"
    return "startingOffsetsByTimestamp" if start.times.values() else "startingOffsets"


def _check_listed_queues_exist(start: StartingPoint, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
    """Raise OptionError[LISTED_QUEUES_UNKNOWN] if positions are for queues that are not in ``bounds``, while their
    topics are."""
    topics = {queue.topic for queue in bounds}
    listed = [queue for queue, _ in (*start.offsets, *start.times.queues)]
    unknown = [str(queue) for queue in listed if queue.topic in topics and queue not in bounds]
    if unknown:
        option, names = _option_of(start), ", ".join(unknown)
        raise OptionError("LISTED_QUEUES_UNKNOWN", count=len(unknown), option=option, queues=names)


def _skip_deleted(
    offsets: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, int]:
    """Log the ranges from ``offsets`` up to the min offsets as deleted. Return the min offsets of the queues with such
    a range; other queues are missing. Raises KeyError for a queue without ``bounds``."""
    lost = [
        LostRange(queue, offset, bounds[queue].min_offset, RETENTION)
        for queue, offset in offsets.items()
        if offset < bounds[queue].min_offset
    ]
    report_losses(lost, is_failure=False)
    return {one.queue: one.end_offset for one in lost}


def _check_offsets(offsets: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> None:
    """Raise OptionError[OFFSETS_OUT_OF_RANGE], with all of them, for ``offsets`` before the min or after the max offset
    of their queue."""
    unavailable = [
        f"{queue}: {offset} [{bounds[queue].min_offset}, {bounds[queue].max_offset}]"
        for queue, offset in offsets.items()
        if not bounds[queue].min_offset <= offset <= bounds[queue].max_offset
    ]
    if unavailable:
        count, text = len(unavailable), ", ".join(unavailable)
        raise OptionError("OFFSETS_OUT_OF_RANGE", count=count, option="startingOffsets", offsets=text)


def _check_matched(unmatched: Sequence[MessageQueue], start: StartingPoint) -> None:
    """Raise OptionError[TIMESTAMP_NOT_MATCHED] with the ``unmatched`` queues and their times; do nothing without
    any."""
    if unmatched:
        times_ms = start.timestamps_ms(unmatched)
        text = ", ".join(f"{queue}: {times_ms[queue]}" for queue in unmatched)
        raise OptionError("TIMESTAMP_NOT_MATCHED", count=len(unmatched), option=_option_of(start), queues=text)


def check_assigned(assigned: Collection[MessageQueue], start: SourceOffset, snapshot: MetadataSnapshot) -> None:
    """Raise OptionError[ASSIGNED_QUEUES_NOT_FOUND] for assigned queues that are neither in ``snapshot`` nor in
    ``start``, the checkpoint's offset. Call it with a complete snapshot only; this is not checked. To queues that only
    the checkpoint has, option ``missingQueues`` applies elsewhere."""
    missing = [str(queue) for queue in assigned if queue not in snapshot.bounds and queue not in start.queues]
    if missing:
        raise OptionError("ASSIGNED_QUEUES_NOT_FOUND", count=len(missing), queues=", ".join(missing))


@dataclass(frozen=True, slots=True)
class StartPlan:
    """What the start of topics changes and logs, decided by ``plan_start`` before the search by time.

    ``stored``: the group's offsets of all queues of the topics. ``point``: start position of ``unread`` and
    ``to_move``. ``unread``: queues whose start positions are committed. ``to_move``: queues whose committed offsets are
    replaced by start positions. ``to_restore``: the checkpoint's offsets, by queue, that replace larger committed ones.
    ``is_reset_void``: log that ``groupOffsets`` ``checkpoint`` has no effect. ``resumption``, ``lost_offsets``: text to
    log once the topics have started; None: nothing.
    """

    stored: Mapping[MessageQueue, int | None]
    point: StartingPoint
    unread: tuple[MessageQueue, ...]
    to_move: tuple[MessageQueue, ...]
    to_restore: Mapping[MessageQueue, int]
    is_reset_void: bool
    resumption: str | None
    lost_offsets: str | None

    @property
    def timestamps_ms(self) -> dict[MessageQueue, int]:
        """Return the times (epoch ms) to search for, by queue; queues without a time are missing."""
        return self.point.timestamps_ms(self.to_start)

    @property
    def to_start(self) -> tuple[MessageQueue, ...]:
        """Return the queues that get a start position: ``unread``, then ``to_move``."""
        return (*self.unread, *self.to_move)


def plan_start(
    options: ReadOptions,
    start: SourceOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
    stored: Mapping[MessageQueue, int | None],
    point: StartingPoint,
    *,
    resets_group: bool,
    has_unavailable: bool,
) -> StartPlan:
    """Return what the start of topics changes. ``stored``: the group's offsets of all their queues (None: no offset).
    ``start``: the checkpoint's offset. ``bounds`` must have all queues of ``stored``. ``point``: start position of
    unread topics. ``resets_group``: apply ``groupOffsets`` ``ignore`` or ``checkpoint``. ``has_unavailable``: queues to
    reset are missing in ``bounds``. Raises OptionError[COMMITTED_OFFSETS_NOT_FOUND] if the query is to start at offsets
    that the group lacks."""
    unread, read_by_group = unread_queues(start, stored), queues_read_by_group(start, stored)
    _check_group_offsets(options.consumer_group, point, unread)
    is_move = resets_group and not start.queues
    to_move = [queue for queue in read_by_group if is_move and queue.topic != options.retry_topic]
    to_restore = group_positions_ahead(start, stored, bounds) if resets_group else {}
    has_effect = bool(to_restore) or has_unavailable
    resumed = {queue: at for queue in read_by_group if queue not in to_move and (at := stored[queue]) is not None}
    name = "this query's file" if options.message_model == BROADCASTING else "the group"
    return StartPlan(
        stored=stored,
        point=point,
        unread=tuple(unread),
        to_move=tuple(to_move),
        to_restore=to_restore,
        is_reset_void=resets_group and bool(start.queues) and bool(stored) and not has_effect,
        resumption=format_resumption(name, resumed, bounds) if resumed else None,
        lost_offsets=None if options.has_own_offsets else format_lost_offsets(stored, start),
    )


def _check_group_offsets(group: str, point: StartingPoint, unread: Collection[MessageQueue]) -> None:
    """Raise OptionError[COMMITTED_OFFSETS_NOT_FOUND] if the query is to start at offsets that ``group`` lacks."""
    if without := queues_without_group_offset(point, unread):
        raise OptionError(
            "COMMITTED_OFFSETS_NOT_FOUND",
            group=group,
            count=len(without),
            option="startingOffsets",
            queues=", ".join(map(str, without)),
        )
