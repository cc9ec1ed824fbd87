"""TopicStarts: the start of each topic of a query, once a run. It requests facts, lets ``plan_start`` decide, and acts.

A topic that was never read starts as the options define. The brokers acknowledge its start positions before an offset
is returned. A topic that the group has read resumes from the group's offsets, which is logged. A member that is alone
resets the group's offsets. With ``groupOffsets`` ``ignore`` and a new checkpoint it resets them to the start that the
options define, with ``checkpoint`` and an existing checkpoint to the checkpoint's offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.consumer.consume_from_where import ConsumeFromWhere, StartingPoint, starting_point
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.start_positions import (
    StartPlan,
    check_assigned,
    first_positions,
    format_move,
    plan_start,
)

log = logging.getLogger(__name__)

FIRST_MESSAGE: Final = StartingPoint(ConsumeFromWhere.FIRST_OFFSET)


class TopicStarts:
    """Start of each topic, once in a run of a query. Commits start positions of unread topics (neither the checkpoint
    nor the group has offsets), and resets the group's offsets if ``groupOffsets`` requires it. Not thread-safe: the
    planner uses it under the group lock.

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
        """Return whether the group's offsets must still be reset before they are used. ``groupOffsets`` ``ignore``
        requires it if ``start`` is empty, ``checkpoint`` if it is not. False once topics have started."""
        moves = "checkpoint" if start.queues else "ignore"
        return self._options.group_offsets == moves and not self.topics

    @property
    def is_complete(self) -> bool:
        """Return whether all topics of the last snapshot have started; False before the first one."""
        return self._subscribed is not None and self._subscribed <= self.topics

    def idle_offset(self, start: SourceOffset) -> SourceOffset:
        """Return ``start``, the offset of a query that has nothing to read. With a pattern, and before the first batch,
        return another object without positions. Spark then logs a batch, which records that the query has begun."""
        has_offset = start.has_begun or self._options.topic_pattern is None
        return start if has_offset else start.advanced({})

    def start_topics(self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot) -> None:
        """Start topics that have not started: commit start positions of unread ones, reset the group's offsets if
        required, wait, and log it. All of them start, or none; then call this again. Raises permanent errors, those of
        ``first_positions`` and ``check_assigned``, and OptionError[COMMITTED_OFFSETS_NOT_FOUND]."""
        self._subscribed = snapshot.topics
        resets_group = self.must_reset_group(start)
        has_unavailable = resets_group and self._has_unavailable(start, snapshot)
        if not self._may_start(membership, snapshot, resets_group, has_unavailable):
            return
        check_assigned(self._options.assigned or (), start, snapshot)
        queues = [queue for queue in snapshot.bounds if queue.topic not in self.topics]
        self.has_queues = bool(queues)
        stored = membership.offsets.stored_offsets(queues)
        if len(stored) < len(queues):
            return  # a broker has not returned the group's offsets
        point = self._point if resets_group else self._point_of_unread(start, stored)
        plan = plan_start(
            self._options,
            start,
            snapshot.bounds,
            stored,
            point,
            resets_group=resets_group,
            has_unavailable=has_unavailable,
        )
        self._execute(membership, plan, snapshot.bounds)

    def _may_start(
        self, membership: Membership, snapshot: MetadataSnapshot, resets_group: bool, has_unavailable: bool
    ) -> bool:
        """Return whether topics may start, before any request. They may not if ``snapshot`` is incomplete, if the group
        to reset has other members, or while its offsets of unavailable queues cannot be reset (``missingQueues``). If
        ``resets_group``, record in any case whether it has other members (``GroupMembers.record_other_members``)."""
        has_other_members = resets_group and membership.members.record_other_members()
        must_wait = has_unavailable and self._options.missing_queues != "drop"
        return snapshot.is_complete and not has_other_members and not must_wait

    def _has_unavailable(self, start: SourceOffset, snapshot: MetadataSnapshot) -> bool:
        """Return whether ``snapshot`` lacks queues to read that ``start`` has: their group offsets cannot be reset."""
        to_read = filter(self._options.reads, start.queues)
        return any(queue.topic in snapshot.topics and queue not in snapshot.bounds for queue in to_read)

    def _point_of_unread(self, start: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> StartingPoint:
        """Return the start position of unread topics: the configured one. With a pattern, it is the first message for
        topics that have appeared later: the query has begun, or the group has committed offsets of a topic that the
        pattern selects."""
        of_group = {queue.topic for queue, offset in stored.items() if offset is not None}
        is_later = self._has_begun or start.has_begun or any(map(self._options.selects, of_group))
        return FIRST_MESSAGE if is_later and self._options.topic_pattern is not None else self._point

    def _execute(self, membership: Membership, plan: StartPlan, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """Search the offsets by time, reset the group's offsets, commit start positions, wait for each step, and log
        it. Once all are acknowledged the plan's topics have started. Raises the errors of ``first_positions``."""
        if plan.is_reset_void:
            log.info(
                "GROUP_OFFSETS_KEPT: No committed offset of the group is ahead of this checkpoint; "
                "groupOffsets=checkpoint has no effect. Remove the option."
            )
        found = _search_offsets(membership, plan.timestamps_ms)
        if found is None:
            return
        first = self._first_positions(plan, bounds, found)
        is_reset = self._reset_group_offsets(membership, plan, first)
        is_committed = self._commit_first(membership, {queue: first[queue] for queue in plan.unread})
        if is_reset and is_committed:
            self._record_start(plan)

    def _first_positions(
        self, plan: StartPlan, bounds: Mapping[MessageQueue, QueueBounds], found: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """Return the start position of each queue of ``plan.to_start``, see ``first_positions``, and raise its errors.
        ``found``: the offsets at ``plan.timestamps_ms``."""
        return first_positions(
            plan.point,
            {queue: bounds[queue] for queue in plan.to_start},
            found,
            requires_match=self._options.requires_match,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )

    def _commit_first(self, membership: Membership, first: Mapping[MessageQueue, int]) -> bool:
        """Raise the stored offsets to start positions and wait for the brokers. Unconfirmed positions of earlier calls
        override ``first``. Keep unconfirmed positions for the next call, and return whether there are none."""
        # A topic with stored positions of some queues no longer counts as unread.
        first = {**first, **self._unconfirmed}
        confirmed = membership.offsets.raise_to(first)
        self._unconfirmed = {queue: offset for queue, offset in first.items() if queue not in confirmed}
        return not self._unconfirmed

    def _reset_group_offsets(self, membership: Membership, plan: StartPlan, first: Mapping[MessageQueue, int]) -> bool:
        """Replace the group's offsets of ``plan.to_move`` by ``first``, apply ``plan.to_restore``, also by smaller
        ones, and wait. For acknowledged queues, discard a pending reset by an operator, and log a warning with the
        changed offsets. Return whether all were acknowledged."""
        targets = {**{queue: first[queue] for queue in plan.to_move}, **plan.to_restore}
        moved = membership.offsets.reset_offsets(targets)
        if moves := {queue: targets[queue] for queue in moved if targets[queue] != plan.stored[queue]}:
            log.warning("GROUP_OFFSETS_RESET: %s", format_move(moves, plan.stored))
        return len(moved) == len(targets)

    def _record_start(self, plan: StartPlan) -> None:
        """Record that the plan's topics have started, and log its ``resumption`` and ``lost_offsets``, if any. Queues
        resume from the group's offsets despite a new checkpoint, or the group lacks offsets of queues that the
        checkpoint has read."""
        self._has_begun = True
        self.topics |= {queue.topic for queue in plan.stored}
        if plan.resumption is not None:
            log.info("GROUP_OFFSETS_RESUMED: %s", plan.resumption)
        if plan.lost_offsets is not None:
            log.warning("GROUP_OFFSETS_MISSING: %s", plan.lost_offsets)


def _search_offsets(
    membership: Membership, timestamps_ms: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int] | None:
    """Request and return the first offset of each queue at its timestamp (epoch ms) or later, or the max offset if
    there is none; {} without timestamps. Return None if a queue has no result, because its broker is unresponsive. A
    topic starts as a whole."""
    found = membership.queries.search_offsets(timestamps_ms) if timestamps_ms else {}
    return found if len(found) == len(timestamps_ms) else None
