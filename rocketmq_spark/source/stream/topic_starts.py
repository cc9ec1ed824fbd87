"""TopicStarts: the start of each topic of a query, once a run: where it begins, and that the group stands there.

A topic that nobody has read begins where the options say; its first positions are at the brokers, answered, before an
offset is returned. One that the group has read goes on there, which is said. A member that is alone moves the group:
with ``groupOffsets`` ``ignore`` and a new checkpoint to where the options say, with ``checkpoint`` and one that is not
new back to that.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.survey import Survey
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.source.stream.first_positions import (
    ahead_of,
    first_positions,
    queues_of_the_group,
    told_forgotten,
    told_move,
    told_resumption,
    unread_queues,
)
from rocketmq_spark.source.stream.offsets import SourceOffset

log = logging.getLogger(__name__)


class TopicStarts:
    """Used by the planner, in its turn."""

    def __init__(self, options: ReadOptions) -> None:
        self.topics: set[str] = set()
        """Those that have started."""
        self.has_queues = True
        """Whether one of them is left to start, as far as is known."""
        self._options = options
        self._point = starting_point(options)
        self._unconfirmed: dict[MessageQueue, int] = {}

    def is_to_move(self, start: SourceOffset) -> bool:
        """Whether the group is to be moved before anything that it has read counts."""
        moves = "checkpoint" if start.queues else "ignore"
        return self._options.group_offsets == moves and not self.topics

    def look(self, membership: Membership, start: SourceOffset, survey: Survey) -> None:
        """Start the topics of which everything is known that it takes."""
        is_moving = self.is_to_move(start)
        is_alone = not is_moving or membership.members.are_only_we()
        if not survey.is_complete or not is_alone:
            # Only complete knowledge tells that a topic has none.
            return
        queues = [queue for queue in survey.bounds if queue.topic not in self.topics]
        self.has_queues = bool(queues)
        stored = membership.offsets.keeper.stored_offsets(queues)
        if len(stored) < len(queues):
            return
        unread, known = unread_queues(start, stored), queues_of_the_group(start, stored)
        to_restore = ahead_of(start, stored, survey.bounds) if is_moving else {}
        if is_moving and start.queues and not to_restore:
            log.info("the group is nowhere ahead of this checkpoint: there is nothing that 'groupOffsets' moves back")
        to_move = [] if start.queues else [one for one in known if is_moving and one.topic != self._options.retry_topic]
        found = _found_by_time(membership, self._point.timestamp_ms, [*unread, *to_move])
        if found is None:
            return
        first = first_positions(self._point, {queue: survey.bounds[queue] for queue in (*unread, *to_move)}, found)
        is_moved = self._move(membership, {queue: first[queue] for queue in to_move} | to_restore, stored)
        if self._raise(membership, {queue: first[queue] for queue in unread}) and is_moved:
            self.topics |= {queue.topic for queue in queues}
            self._say(survey, {queue: stored[queue] for queue in known if queue not in to_move})
            self._warn(start, stored)

    def _raise(self, membership: Membership, first: Mapping[MessageQueue, int]) -> bool:
        # A topic of which some queues' positions are stored does not look unread any more.
        first = {**first, **self._unconfirmed}
        confirmed = membership.offsets.raise_to(first)
        self._unconfirmed = {queue: offset for queue, offset in first.items() if queue not in confirmed}
        return not self._unconfirmed

    def _move(
        self, membership: Membership, wanted: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]
    ) -> bool:
        """Deliberately, and answered; what an operator has said before does not count any more."""
        moved = membership.offsets.lower_to(wanted)
        for queue in moved:
            membership.resets.forget(queue)
        if moves := {queue: wanted[queue] for queue in moved if wanted[queue] != stored[queue]}:
            log.warning("%s", told_move(moves, stored))
        return len(moved) == len(wanted)

    def _warn(self, start: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> None:
        told = None if self._options.message_model == BROADCASTING else told_forgotten(stored, start)
        if told is not None:
            log.warning("%s", told)

    def _say(self, survey: Survey, resumed: Mapping[MessageQueue, int | None]) -> None:
        where = {queue: at for queue, at in resumed.items() if at is not None}
        if where:
            who = "this query's file" if self._options.message_model == BROADCASTING else "the group"
            log.info("%s", told_resumption(who, where, survey.bounds))


def _found_by_time(
    membership: Membership, timestamp_ms: int | None, queues: Collection[MessageQueue]
) -> dict[MessageQueue, int] | None:
    """Where each queue begins if a time says so; None: not all are known, and a topic starts as a whole."""
    if timestamp_ms is None:
        return {}
    found = membership.servers.search_offsets(dict.fromkeys(queues, timestamp_ms))
    return found if len(found) == len(queues) else None
