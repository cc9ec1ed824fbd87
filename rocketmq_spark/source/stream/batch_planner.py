"""BatchPlanner: the steps of ``latestOffset``. It reads the member's state, lets ``planning`` decide, and acts.

    1. commit what ``start`` shows to be completed, acknowledged;
    2. with something to plan: refresh routes, members and bounds, and rebalance;
    3. a topic that was never read: write the start positions of all its queues to the broker, acknowledged;
    4. per queue the larger of checkpoint and broker, and raise the broker's offset to it;
    5. plan.

docs/dev/offsets.md describes what fails if a step is omitted or moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from rocketmq_spark.consumer.cluster_api import Link, MetadataSnapshot
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_committer import Check
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.data_loss import LossCount, LostRange, PassedOverRanges, deleted, report_losses
from rocketmq_spark.source.stream.admission import Admission
from rocketmq_spark.source.stream.available_now import AvailableNowTargets
from rocketmq_spark.source.stream.missing_queues import MissingQueues
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position, idle_progress, positions_below
from rocketmq_spark.source.stream.position_resolution import (
    PositionResolution,
    queues_at_slaves,
    reset_positions,
    resolve_positions,
    warn_of_emptied,
    warn_of_reset,
    without_lagging,
)
from rocketmq_spark.source.stream.progress import Backlog
from rocketmq_spark.source.stream.queue_facts import GroupOffsets, collect_facts
from rocketmq_spark.source.stream.queue_identity import VerifiedQueues, over_same_links
from rocketmq_spark.source.stream.topic_starts import TopicStarts

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

Planned: TypeAlias = Mapping[MessageQueue, QueueProgress]
Positions: TypeAlias = Mapping[MessageQueue, Position]

IDLE_WAIT_MS: Final = 200
"""Time that an idle call waits for a change; Spark would call again every 12 ms. Not longer: the query's other sources
wait for it, and so does a graceful stop."""

OTHER_MEMBERS_WAIT_MS: Final = 2_000
"""Time that a call of an ``availableNow`` run waits for other members. They may be other loads of the same query, and
Spark runs no batch of these until the call returns."""

IDLE_WAIT_QUEUES_PER_MS: Final = 4
"""Queues per ms of idle wait, beyond ``IDLE_WAIT_MS``: with many queues a call costs more, in Spark too, which reads
and compares the offset."""


def idle_wait_ms(queue_count: int) -> int:
    """Return how long an idle call waits for a change: IDLE_WAIT_MS, or 1 ms per IDLE_WAIT_QUEUES_PER_MS queues of the
    offset if this is longer."""
    return max(IDLE_WAIT_MS, queue_count // IDLE_WAIT_QUEUES_PER_MS)


class Member(Protocol):
    """Methods of ``consumer.member.Member`` that a planner uses."""

    def group_lock(self) -> AbstractContextManager[Membership]: ...

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool: ...

    def has_lost_connection(self, links: Iterable[Link | None]) -> bool: ...

    def leave_group(self) -> None: ...


class Drain(Protocol):
    """Request to stop this query gracefully, see ``DrainRequest``. ``check_request``: return whether there is one.
    ``claim``: make it irreversible; return False if it was withdrawn. ``finish``: record that queues are released."""

    def check_request(self) -> bool: ...

    def claim(self) -> bool: ...

    def finish(self) -> None: ...


class BatchPlanner:
    """Planner of the micro-batches of one run of a query. Idle: nothing to read now. Draining: a graceful stop was
    requested. Used by one thread, the source runner's main thread."""

    def __init__(self, member: Member, options: ReadOptions, drain: Drain, clock: Clock) -> None:
        self._member = member
        self._options = options
        self._missing = MissingQueues(options)
        self._drain = drain
        self._clock = clock
        self.backlog = Backlog()
        self.losses = LossCount()  # since this start
        self._positions: dict[MessageQueue, int] = {}
        self._starts = TopicStarts(options)
        self._verified = VerifiedQueues(has_own_offsets=options.has_own_offsets)
        self._admission = Admission(options)
        self._passed_over = PassedOverRanges(options.consumer_group)
        self._must_refresh = True
        self._has_complete_snapshot = False
        self._completed: SourceOffset | None = None
        self._completion_reported: set[MessageQueue] = set()
        self._is_unconfirmed = False
        self._targets: AvailableNowTargets | None = None
        self.completed_after_rebalance = 0  # counter of the membership, as of the last completion
        self.masters: Mapping[str, BrokerAddress] = {}  # by broker name, as of the last plan

    def stop_at_current_end(self) -> None:
        """Plan up to the max offsets of the first complete snapshot (AvailableNow), for owned and other queues."""
        self._targets = AvailableNowTargets(self._options.cluster_timeout_ms)

    def latest_offset(self, start: SourceOffset, limit: int | None) -> SourceOffset:
        """Commit ``start``, whose messages are in the sink, wait for work, plan, and return the next micro-batch's end.
        If there is nothing to read, return ``start`` itself, or ``TopicStarts.idle_offset``, once all brokers have
        responded and start positions of an empty ``start`` are confirmed. Return it also after queues are released for
        a graceful stop. While ``availableNow`` awaits other members, return a batch without rows every 2 s. ``limit``:
        maximum number of offsets; None: no limit and no minimum. Raises DataLossError (``failOnDataLoss``), what
        ``Membership.refresh_metadata`` does, and RouteError[QUEUES_UNAVAILABLE.TIMEOUT | QUEUES_UNAVAILABLE.FAIL]."""
        self._mark_completed(start)
        wait_ms = idle_wait_ms(len(start.queues))
        began_ms = self._clock()
        while True:
            is_draining = self._drain.check_request()
            if is_draining:
                if self._try_release_queues(start):
                    return start
            elif self._await_work(wait_ms):
                with self._member.group_lock() as membership:
                    end = self._plan(membership, start, limit)
                if end is not start:
                    return end
            if self._try_become_idle(start):
                return self._starts.idle_offset(start)
            is_waiting = self._targets is not None and self._targets.awaits_other_members
            # Not while draining: the next offset would report queues as completed that are known to be re-created.
            if is_waiting and not is_draining and self._clock() - began_ms >= OTHER_MEMBERS_WAIT_MS:
                return start.after_waiting()

    def _mark_completed(self, start: SourceOffset) -> None:
        """Mark each queue's offset in ``start`` as completed, at every call until one finds it owned. Commit these and
        unconfirmed ones, wait, and add reports of tasks. Do nothing once all are found and confirmed."""
        if start is not self._completed:
            self._completed, self._completion_reported = start, set()
        if len(self._completion_reported) == len(start.queues) and not self._is_unconfirmed:
            return
        with self._member.group_lock() as membership:
            unreported = start.queues.keys() - self._completion_reported
            membership.mark_completed(
                {queue: start.queues[queue].end_offset for queue in unreported},
                {queue: start.queues[queue].last_store_timestamp_ms for queue in unreported},
            )
            self._completion_reported |= unreported & {held.queue for held in membership.process_queues}
            self._is_unconfirmed = bool(membership.offsets.unconfirmed)
            self.completed_after_rebalance = membership.completed_after_rebalance
            self.losses.add_reported(membership.task_reports.take_losses())
            self._admission.sizes.add(membership.task_reports.take_sizes())

    def _await_work(self, wait_ms: int) -> bool:
        """Return whether to plan. If a refresh is due, return True at once. With a delayed batch, wait for the rest of
        the delay, at most ``wait_ms``, and return True. Otherwise wait up to ``wait_ms`` for a change, and return
        whether there was one."""
        if self._missing.is_due(self._clock()) or self._member.has_lost_connection(self._verified.links):
            return True
        if self._admission.delay.is_active:
            if (remaining_ms := self._admission.delay.remaining_ms(self._clock())) > 0:
                self._member.wait_for_change({}, min(wait_ms, remaining_ms))
            return True
        return self._must_refresh or self._member.wait_for_change(self._positions, wait_ms)

    def _try_become_idle(self, start: SourceOffset) -> bool:
        """Return whether ``latest_offset`` may return without a batch. With ``availableNow`` call ``_try_end_run``.
        Otherwise a snapshot must have been complete and, if ``start`` is empty, all topics have started."""
        if self._targets is not None:
            return self._try_end_run(start, self._targets)
        if not self._has_complete_snapshot:
            return False
        return bool(start.queues) or self._starts.is_complete

    def _try_end_run(self, start: SourceOffset, targets: AvailableNowTargets) -> bool:
        """Commit ``start``, and return whether the run may end. The group must have reached the targets, or other
        members made no progress for the timeout, and all offsets must be confirmed. While unavailable queues are
        awaited, or ``groupOffsets`` is not applied, only restart the timeout and return False."""
        targets.drop(self._missing.dropped)
        if self._missing.awaited or (self._starts.must_reset_group(start) and self._starts.has_queues):
            targets.restart_timeout(self._clock())
            return False
        self._mark_completed(start)
        with self._member.group_lock() as membership:
            targets.lower_to_bounds(membership.queries.query_bounds())
            stored = membership.offsets.stored_offsets(targets.offsets)
            lagging = targets.lagging_brokers(membership.slave_reads.brokers, start, stored)
            membership.require_masters(lagging)
            return targets.check_progress(start, stored, self._clock(), lagging) and membership.offsets.persist()

    def _try_release_queues(self, start: SourceOffset) -> bool:
        """Commit completed offsets. Once the brokers have confirmed all, claim the stop request, leave the group and
        return True; False if it was withdrawn. Until then plan nothing, wait up to ``IDLE_WAIT_MS`` for a change, and
        return False. Refresh after a change, which raises for a server that is unresponsive for its limit."""
        with self._member.group_lock() as membership:
            is_confirmed = membership.offsets.persist()
            membership.require_masters()
        if is_confirmed:
            if not self._drain.claim():
                return False
            self._member.leave_group()
            self._drain.finish()
            return True
        if self._member.wait_for_change({}, IDLE_WAIT_MS):
            with self._member.group_lock() as membership:
                snapshot = without_lagging(membership.refresh_metadata(start.queues), start)
                suspect = membership.offsets.suspect & snapshot.bounds.keys()
                self._resolve_positions(membership, start, snapshot, self._query_stored_offsets(membership, suspect))
        return False

    def recover(self, end: SourceOffset, required: Sequence[QueueRange]) -> tuple[LostRange, ...]:
        """Prepare the replay of the batch that ends at ``end``; call this once, before any plan. Consume the operators'
        reset mark of each of its queues by a pull, which otherwise only its tasks would do, and record the resets.
        Return the deleted offsets of ``required``, logged and counted for all tasks, or raise DataLossError."""
        with self._member.group_lock() as membership:
            membership.resets.consume_marks([one.queue for one in end.ranges()])
            self.masters = membership.masters
            lost = deleted(required, membership.queries.query_bounds())
        self._report(lost)
        return lost

    def _plan(self, membership: Membership, start: SourceOffset, limit: int | None) -> SourceOffset:
        """Refresh, rebalance, start topics, resolve positions, plan, and mark the ranges in flight. Return the batch's
        end, without ranges if there are only first or lower positions; ``start`` itself if there is nothing new."""
        membership.slave_reads.end_requirement(is_reading=self._targets is None)
        snapshot = without_lagging(membership.refresh_metadata(start.queues), start)
        self.masters = membership.masters
        self._missing.update(snapshot.unavailable, start, self._clock())
        membership.set_queue_outages(self._missing.outages)
        for queue in self._missing.dropped & membership.offsets.suspect:
            # Its topic is deleted, and the group's offset with it: the completed offset cannot be committed.
            membership.offsets.discard(queue)
        self._verified.update(snapshot, self._positions)
        if self._targets is not None and not self._missing.awaited:
            self._targets.fix_targets(snapshot)
        self._starts.start_topics(membership, start, snapshot)
        candidates = self._to_plan(membership, start, snapshot)
        stored = self._query_stored_offsets(membership, candidates)
        snapshot, positions = self._resolve_positions(membership, start, snapshot, stored)
        self._stop_watching(start, snapshot, set(candidates) - positions.keys())
        positions = {queue: position for queue, position in positions.items() if queue in snapshot.owned}
        targets, probe = self._targets.offsets if self._targets else None, membership.queries.probe_sizes
        planned = self._admission.plan(
            positions, snapshot.bounds, start, limit=limit, targets=targets, now_ms=self._clock(), probe_sizes=probe
        )
        if start.advanced(planned) == start:
            planned = {}  # the last batch again, after a reset: to Spark an equal offset is no batch: move back
        membership.mark_in_flight({queue: (plan.begin_offset, plan.end_offset) for queue, plan in planned.items()})
        self._record_plan(snapshot, positions, planned)
        lower = positions_below(positions, {queue: progress.end_offset for queue, progress in start.queues.items()})
        self._must_refresh = bool(planned or lower) or self._member.has_lost_connection(snapshot.links.values())
        if not (planned or lower) and (start.queues or not self._positions):
            return start
        return start.advanced(idle_progress(self._positions, start, snapshot.bounds) | planned)

    def _stop_watching(self, start: SourceOffset, snapshot: MetadataSnapshot, queues: Collection[MessageQueue]) -> None:
        """Stop polling ``queues``, whose positions no broker has confirmed. If there are none, and no queue is awaited,
        set ``_has_complete_snapshot`` if ``snapshot`` is complete, or lacks all read queues as unavailable."""
        self._positions = {queue: at for queue, at in self._positions.items() if queue not in queues}
        read = set(filter(self._options.reads, start.queues))
        is_full = snapshot.is_complete or (bool(read) and read <= snapshot.unavailable.keys())
        self._has_complete_snapshot |= is_full and not queues and not self._missing.awaited

    def _to_plan(self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot) -> list[MessageQueue]:
        """Return, sorted, the owned queues with bounds, in ``start`` or of a started topic, that have unread offsets,
        are unverified or ``OffsetCommitter.suspect``. Append RELEASING suspects. [] until ``groupOffsets`` is
        applied."""
        if self._starts.must_reset_group(start):
            return []
        return [
            queue
            for queue in sorted(snapshot.owned, key=MessageQueue.sort_key)
            if queue in snapshot.bounds
            and (queue in start.queues or queue.topic in self._starts.topics)
            and (
                self._positions.get(queue) != snapshot.bounds[queue].max_offset
                or queue not in self._verified
                or queue in membership.offsets.suspect
            )
        ] + sorted(membership.offsets.suspect & snapshot.releasing & snapshot.bounds.keys(), key=MessageQueue.sort_key)

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: GroupOffsets
    ) -> tuple[MetadataSnapshot, dict[MessageQueue, Position]]:
        """Resolve where the queues of ``stored`` resume. Raise the group's offsets to it, or lower them to it where a
        queue no longer reaches them, and wait. Then apply operators' resets, but not before ``groupOffsets``. Return
        ``snapshot`` with the bounds used, and, by queue, the positions that are confirmed or at a slave."""
        facts = collect_facts(membership, self._verified, start, snapshot, stored)
        snapshot = replace(snapshot, bounds=facts.bounds)
        resolution = resolve_positions(start, facts, has_own_offsets=self._options.has_own_offsets)
        check = partial(over_same_links, snapshot, membership.queries.link)
        confirmed = self._commit(membership, resolution, snapshot, check)
        confirmed |= queues_at_slaves(resolution.positions, snapshot)  # committed when there is a master again
        self._verified.mark_verified(confirmed, snapshot)
        resolved = {queue: position for queue, position in resolution.positions.items() if queue in confirmed}
        resets = {} if self._starts.must_reset_group(start) else self._apply_resets(membership, snapshot)
        return snapshot, resolved | resets

    def _commit(
        self, membership: Membership, resolution: PositionResolution, snapshot: MetadataSnapshot, check: Check
    ) -> set[MessageQueue]:
        """Log emptied, lost and passed-over offsets, or raise DataLossError (``failOnDataLoss``); discard, lower and
        raise committed offsets, in this order; wait. Return queues that the store has confirmed, none at a slave."""
        warn_of_emptied(resolution.emptied)
        self._report(resolution.lost)
        self._passed_over.report(resolution.passed_over, resolution.positions.keys())
        for queue in resolution.discard:
            membership.offsets.discard(queue)
        unresolved = resolution.lower_to.keys() - membership.offsets.replace_offsets(resolution.lower_to)
        targets, at_slaves = resolution.raise_to.items(), snapshot.brokers_at_slaves
        required = {one: at for one, at in targets if one not in unresolved and one.broker_name not in at_slaves}
        return membership.offsets.raise_to(required, check)

    def _report(self, lost: Collection[LostRange]) -> None:
        """Log and count losses; with ``failOnDataLoss`` do neither, and raise DataLossError. Do nothing without any."""
        report_losses(lost, is_failure=self._options.fail_on_data_loss)
        self.losses.add(lost)

    def _query_stored_offsets(self, membership: Membership, candidates: Collection[MessageQueue]) -> GroupOffsets:
        """Request the group's offsets and wait; return those of responsive brokers in the order of ``candidates``."""
        stored = membership.offsets.stored_offsets(candidates)
        return {queue: stored[queue] for queue in candidates if queue in stored}

    def _apply_resets(self, membership: Membership, snapshot: MetadataSnapshot) -> dict[MessageQueue, Position]:
        """Replace the offsets of owned queues by operators' pending resets, and wait. Log the confirmed ones, return
        their positions, and discard them as pending. Discard also resets of queues that are not owned."""
        resets = reset_positions(membership.prune_resets(), snapshot)
        applied = membership.offsets.reset_offsets(resets)
        for queue in applied:
            warn_of_reset(queue, self._positions.get(queue), resets[queue])
        return {queue: Position(resets[queue]) for queue in applied}

    def _record_plan(self, snapshot: MetadataSnapshot, positions: Positions, planned: Planned) -> None:
        """Record ``planned`` for the next admission, positions of owned queues with bounds for polls and backlog."""
        self._admission.record_planned(planned, self._clock())
        self._positions |= {queue: position.offset for queue, position in positions.items()}
        self._positions |= {queue: progress.end_offset for queue, progress in planned.items()}
        checked = snapshot.owned & snapshot.bounds.keys()  # an unresponsive broker may lose offsets: check it again
        self._positions = {queue: at for queue, at in self._positions.items() if queue in checked}
        # A member that owns no queue may not have its assignment yet.
        is_known = not self._missing.has_unavailable and (bool(snapshot.owned) or snapshot.is_complete)
        is_complete = is_known and snapshot.owned <= self._positions.keys()
        self.backlog.update(self._positions, snapshot.bounds, is_complete=is_complete)
