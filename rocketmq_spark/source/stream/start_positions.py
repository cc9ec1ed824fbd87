"""Start positions: initial offsets of queues that neither the checkpoint nor the group has, and the start of each topic
of a query, once a run.

A topic that was never read starts as the options define; the brokers acknowledge its start positions before an offset
is returned. A topic that the group has read resumes from the group's offsets, which is logged. A member that is alone
resets the group's offsets: with ``groupOffsets`` ``ignore`` and a new checkpoint to the start that the options define,
with ``checkpoint`` and an existing checkpoint to the checkpoint's offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.consumer.consume_from_where import ConsumeFromWhere, StartingPoint, starting_point
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import RETRY_TOPIC_PREFIX, MessageQueue, QueueBounds
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.options.queue_positions import EARLIEST, FALLBACKS, GROUP, LATEST
from rocketmq_spark.source.data_loss import RETENTION, LostRange, report_losses
from rocketmq_spark.source.stream.offsets import SourceOffset

MAX_LOGGED_QUEUES: Final = 8
"""Maximum number of queues in a log line."""


def unread_queues(checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> list[MessageQueue]:
    """Return the queues of ``stored``, in its order, whose topic was never read: ``checkpoint`` has no queue of the
    topic, and the group has no committed offset of one.

    ``stored``: the group's offsets of all queues of the subscribed topics, owned or not; None: no offset.
    """
    started = {queue.topic for queue in checkpoint.queues}
    started |= {queue.topic for queue, offset in stored.items() if offset is not None}
    return [queue for queue in stored if queue.topic not in started]


def queues_read_by_group(checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> list[MessageQueue]:
    """Return the queues of ``stored``, in its order, of topics that ``checkpoint`` lacks and the group has read: it has
    a committed offset of at least one queue of the topic. Queues without an offset of such a topic are included."""
    in_checkpoint = {queue.topic for queue in checkpoint.queues}
    of_group = {queue.topic for queue, offset in stored.items() if offset is not None}
    return [queue for queue in stored if queue.topic in of_group - in_checkpoint]


def format_resumption(name: str, stored: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> str:
    """Return the log text for queues that resume from their ``stored`` offsets despite a new checkpoint: the backlog of
    all of them, then offset and bounds of the first ``MAX_LOGGED_QUEUES``. ``name``: where the offsets are stored.
    ``bounds`` must have all queues of ``stored``."""
    left = sum(max(0, bounds[queue].max_offset - at) for queue, at in stored.items())
    total = sum(bounds[queue].max_offset - bounds[queue].min_offset for queue in stored)
    parts = [
        f"queue={queue} offset={stored[queue]} of [{bounds[queue].min_offset}, {bounds[queue].max_offset})"
        for queue in sorted(stored, key=MessageQueue.sort_key)
    ]
    return (
        f"Checkpoint has no offsets of these queues; resuming from those of {name}, start "
        f"options are ignored. Backlog {left} of {total} offsets: {_named(parts)}"
    )


def format_lost_offsets(stored: Mapping[MessageQueue, int | None], checkpoint: SourceOffset) -> str | None:
    """Return the warning that the group has no offset (None in ``stored``) of queues that the checkpoint has read
    beyond offset 0; None if there are no such queues. A killed broker may have lost the offsets; another cluster, with
    older messages in queues of the same names, is indistinguishable."""
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
    """Return the offsets to which ``groupOffsets`` ``checkpoint`` lowers the group's committed offsets, by queue: the
    checkpoint's offset, or the min offset of a queue that the checkpoint lacks, in a topic that it has. Omit queues of
    other topics, and queues in which the group is not ahead or has no offset. ``bounds`` must have all queues of
    ``stored``."""
    topics = {queue.topic for queue in checkpoint.queues}
    read_to = {queue: bounds[queue].min_offset for queue in stored if queue.topic in topics}
    read_to |= {queue: progress.end_offset for queue, progress in checkpoint.queues.items()}
    return {queue: read_to[queue] for queue, at in stored.items() if at is not None and at > read_to.get(queue, at)}


def format_move(moved: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]) -> str:
    """Return the log text for a reset of the group's offsets from ``stored`` to ``moved`` (``groupOffsets`` ``ignore``
    or ``checkpoint``), which lists the first ``MAX_LOGGED_QUEUES`` queues."""
    in_order = sorted(moved, key=MessageQueue.sort_key)
    parts = [f"queue={queue} from={stored[queue]} to={moved[queue]}" for queue in in_order]
    return f"Reset the group's offsets as configured by 'groupOffsets': {_named(parts)}"


def _named(parts: Sequence[str]) -> str:
    """Return the first ``MAX_LOGGED_QUEUES`` of ``parts`` as text, then the number of the remaining ones, if any."""
    more = f" and {len(parts) - MAX_LOGGED_QUEUES} more queues" if len(parts) > MAX_LOGGED_QUEUES else ""
    return ", ".join(parts[:MAX_LOGGED_QUEUES]) + more


def first_positions(
    start: StartingPoint,
    bounds: Mapping[MessageQueue, QueueBounds],
    found: Mapping[MessageQueue, int],
    *,
    requires_match: bool = False,
    fail_on_data_loss: bool = True,
) -> dict[MessageQueue, int]:
    """Return the start position of each queue of ``bounds``, which has all queues of topics that were never read: the
    position that ``start`` lists for the queue or its topic, else by ``start.where``. A retry topic, which has the
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
        queue: _listed(listed[queue], held) if queue in listed else _by_policy(start.where, held, found, queue)
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
    LAST_OFFSET, the offset in ``found`` for TIMESTAMP. For TIMESTAMP it is the min offset if that is larger, or if
    ``found`` lacks the queue. A queue of a retry topic starts at its min offset in any case."""
    if queue.topic.startswith(RETRY_TOPIC_PREFIX):
        return held.min_offset
    if where is ConsumeFromWhere.TIMESTAMP:
        return max(found.get(queue, 0), held.min_offset)
    return held.min_offset if where is ConsumeFromWhere.FIRST_OFFSET else held.max_offset


def _listed(position: int, held: QueueBounds) -> int:
    """Return the offset of a listed position: for EARLIEST and LATEST the min and max offset, else the position itself.
    One at the group's committed offset counts as its fallback, because the group has no offset of the queue."""
    position = FALLBACKS.get(position) or position
    return {EARLIEST: held.min_offset, LATEST: held.max_offset}.get(position, position)


def _option_of(start: StartingPoint) -> str:
    """Return the name of the option that an error shows for ``start``: ``startingTimestamp`` for one time for all
    queues, else ``startingOffsetsByTimestamp`` if queues or topics have times, else ``startingOffsets``."""
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
    """Raise OptionError[OFFSETS_OUT_OF_RANGE], with all of them, for ``offsets`` below the min or above the max offset
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


log = logging.getLogger(__name__)

FIRST_MESSAGE: Final = StartingPoint(ConsumeFromWhere.FIRST_OFFSET)


class TopicStarts:
    """Start of each topic, once in a run of a query: commits start positions of topics that were never read, and resets
    the group's offsets if ``groupOffsets`` requires it. Not thread-safe: the planner uses it under the group lock.

    With ``subscribePattern``, a topic that appears after the query or its group has begun starts at its first message.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.topics: set[str] = set()
        """Topics that have started."""
        self.has_queues = True
        """Whether topics with queues are left to start, as of the last complete snapshot."""
        self._options = options
        self._has_begun = False
        self._subscribed: frozenset[str] | None = None
        """Topics of the last snapshot."""
        self._point = starting_point(options)
        self._unconfirmed: dict[MessageQueue, int] = {}

    def must_reset_group(self, start: SourceOffset) -> bool:
        """Return whether the group's offsets are still to be reset before they are used: with ``groupOffsets``
        ``ignore`` if ``start`` is empty, with ``checkpoint`` if it is not. False once topics have started."""
        moves = "checkpoint" if start.queues else "ignore"
        return self._options.group_offsets == moves and not self.topics

    @property
    def is_complete(self) -> bool:
        """Return whether all topics of the last snapshot have started; False before the first one."""
        return self._subscribed is not None and self._subscribed <= self.topics

    def idle_offset(self, start: SourceOffset) -> SourceOffset:
        """Return ``start``, the offset of a query that has nothing to read. With a pattern, a checkpoint without any
        offset gets a first one, another object: it records that the query has begun."""
        has_offset = start.has_begun or self._options.topic_pattern is None
        return start if has_offset else start.advanced({})

    def start_topics(self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot) -> None:
        """Start topics that have not started: commit start positions of unread ones, reset the group's offsets if
        required, wait, and log it. None starts while ``snapshot`` is incomplete, a group to reset has other members or
        awaited queues, or a broker has not responded: call it again. Raises permanent errors, those of
        ``first_positions`` and ``check_assigned``, and OptionError[COMMITTED_OFFSETS_NOT_FOUND]."""
        self._subscribed = snapshot.topics
        must_reset_group = self.must_reset_group(start)
        has_other_members = must_reset_group and membership.members.record_other_members()
        unavailable = self._unavailable_queues(start, snapshot) if must_reset_group else set()
        if not snapshot.is_complete or has_other_members or (unavailable and self._options.missing_queues != "drop"):
            return  # only a complete snapshot shows that a topic has no queues
        check_assigned(self._options.assigned or (), start, snapshot)
        queues = [queue for queue in snapshot.bounds if queue.topic not in self.topics]
        self.has_queues = bool(queues)
        stored = membership.offsets.store.stored_offsets(queues)
        if len(stored) < len(queues):
            return
        unread, read_by_group = unread_queues(start, stored), queues_read_by_group(start, stored)
        point = self._point if must_reset_group else self._point_of_unread(start, stored)
        self._check_group_offsets(point, unread)
        to_restore = group_positions_ahead(start, stored, snapshot.bounds) if must_reset_group else {}
        if must_reset_group and start.queues and queues and not (to_restore or unavailable):
            log.info(
                "GROUP_OFFSETS_KEPT: No committed offset of the group is ahead of this checkpoint; "
                "groupOffsets=checkpoint has no effect. Remove the option."
            )
        to_move = (
            []
            if start.queues
            else [one for one in read_by_group if must_reset_group and one.topic != self._options.retry_topic]
        )
        found = _search_offsets(membership, point.timestamps_ms([*unread, *to_move]))
        if found is None:
            return
        to_start = {queue: snapshot.bounds[queue] for queue in (*unread, *to_move)}
        first = first_positions(
            point,
            to_start,
            found,
            requires_match=self._options.requires_match,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        is_moved = self._reset_group_offsets(
            membership, {queue: first[queue] for queue in to_move} | to_restore, stored
        )
        if self._commit_first(membership, {queue: first[queue] for queue in unread}) and is_moved:
            self._has_begun = True
            self.topics |= {queue.topic for queue in queues}
            self._log_resumption(snapshot, {queue: stored[queue] for queue in read_by_group if queue not in to_move})
            self._log_lost_offsets(start, stored)

    def _unavailable_queues(self, start: SourceOffset, snapshot: MetadataSnapshot) -> set[MessageQueue]:
        """Return the queues to read that ``start`` has and ``snapshot`` lacks: their group offsets cannot be reset."""
        to_read = filter(self._options.reads, start.queues)
        return {queue for queue in to_read if queue.topic in snapshot.topics and queue not in snapshot.bounds}

    def _point_of_unread(self, start: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> StartingPoint:
        """Return the start position of unread topics: the configured one. With a pattern, it is the first message if
        the query has begun, or if the group has committed offsets of a topic that the pattern selects: unread topics
        have appeared later then."""
        of_group = {queue.topic for queue, offset in stored.items() if offset is not None}
        is_later = self._has_begun or start.has_begun or any(map(self._options.selects, of_group))
        return FIRST_MESSAGE if is_later and self._options.topic_pattern is not None else self._point

    def _check_group_offsets(self, point: StartingPoint, unread: Collection[MessageQueue]) -> None:
        """Raise OptionError[COMMITTED_OFFSETS_NOT_FOUND] if the query is to start at offsets that the group lacks."""
        if without := queues_without_group_offset(point, unread):
            raise OptionError(
                "COMMITTED_OFFSETS_NOT_FOUND",
                group=self._options.consumer_group,
                count=len(without),
                option="startingOffsets",
                queues=", ".join(map(str, without)),
            )

    def _commit_first(self, membership: Membership, first: Mapping[MessageQueue, int]) -> bool:
        """Raise the stored offsets to the start positions ``first``, and to unconfirmed ones of earlier calls, which
        replace those of ``first``; wait for the brokers. Keep what is not confirmed for the next call; return whether
        all is confirmed."""
        # A topic with stored positions of some queues no longer counts as unread.
        first = {**first, **self._unconfirmed}
        confirmed = membership.offsets.raise_to(first)
        self._unconfirmed = {queue: offset for queue, offset in first.items() if queue not in confirmed}
        return not self._unconfirmed

    def _reset_group_offsets(
        self, membership: Membership, targets: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]
    ) -> bool:
        """Replace the group's offsets by ``targets``, also by smaller ones, and wait. For queues whose broker
        acknowledged it, discard a pending reset by an operator, and log a warning with the changed offsets. Return
        whether all were acknowledged."""
        moved = membership.offsets.replace_offsets(targets)
        for queue in moved:
            membership.resets.discard(queue)
        if moves := {queue: targets[queue] for queue in moved if targets[queue] != stored[queue]}:
            log.warning("GROUP_OFFSETS_RESET: %s", format_move(moves, stored))
        return len(moved) == len(targets)

    def _log_lost_offsets(self, start: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> None:
        """Log the warning of ``format_lost_offsets``, if there is one; nothing if no other query uses the stored
        offsets."""
        text = None if self._options.has_own_offsets else format_lost_offsets(stored, start)
        if text is not None:
            log.warning("GROUP_OFFSETS_MISSING: %s", text)

    def _log_resumption(self, snapshot: MetadataSnapshot, resumed: Mapping[MessageQueue, int | None]) -> None:
        """Log at INFO that queues of ``resumed`` with a stored offset resume from it despite a new checkpoint; nothing
        if no queue has an offset."""
        where = {queue: at for queue, at in resumed.items() if at is not None}
        if where:
            name = "this query's file" if self._options.message_model == BROADCASTING else "the group"
            log.info("GROUP_OFFSETS_RESUMED: %s", format_resumption(name, where, snapshot.bounds))


def _search_offsets(
    membership: Membership, timestamps_ms: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int] | None:
    """Request and return the first offset of each queue at its timestamp (epoch ms) or later, the max offset if there
    is none; {} without timestamps. None if a queue has no result, because its broker is unresponsive: a topic starts as
    a whole."""
    found = membership.client.search_offsets(timestamps_ms) if timestamps_ms else {}
    return found if len(found) == len(timestamps_ms) else None
