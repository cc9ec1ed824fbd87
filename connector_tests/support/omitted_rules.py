"""The product with a single rule left out, for each rule that the model of the join covers.

Each class changes one thing of its base and leaves the rest alone. ``properties/test_join_rules`` says what breaks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from connector_tests.support.misled_group import BEYOND
from connector_tests.support.simulated_query import Lent, SimulatedMember, SourceRunner
from connector_tests.support.strand import point
from rocketmq_spark.consumer.allocation import allocate_all
from rocketmq_spark.consumer.broker_identities import BrokerIdentities
from rocketmq_spark.consumer.cluster_api import BrokerApi, Future, Link, MetadataSnapshot, links_to
from rocketmq_spark.consumer.consume_from_where import StartingPoint
from rocketmq_spark.consumer.group_members import GroupMembers
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_committer import Check, OffsetCommitter, OffsetStore
from rocketmq_spark.consumer.rebalance import QueueState, RebalanceImpl, RebalancePlan
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.batch_planner import BatchPlanner, Member
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position
from rocketmq_spark.source.stream.position_resolution import PositionResolution
from rocketmq_spark.source.stream.queue_identity import VerifiedQueues
from rocketmq_spark.source.stream.topic_starts import TopicStarts

T = TypeVar("T")

Stored = Mapping[MessageQueue, int | None]
Resolved = tuple[MetadataSnapshot, dict[MessageQueue, Position]]

WITHOUT_GROUP_LOCK = "out of turn"

# ------------------------------------------------------------------------------------------ commits


class CommitsLater(Membership):
    """What ``start`` proves is left to the timer."""

    def mark_completed(self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]) -> None:
        self._complete_ranges(end_offsets, stored_to_ms)
        self._release(self._queue_states.in_state(QueueState.RELEASING))


class TreatsTimeoutAsResponse(Membership):
    """A commit counts when it is sent."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.offsets = _NeedsNoResponse(self.offsets.store, self.resets, self.offsets._is_owned, self.client.link)


class _NeedsNoResponse(OffsetCommitter):
    def raise_to(self, required: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
        super().raise_to(required, check)
        self._confirm(required, links_to(required, self._link_to))
        self._links.clear()
        return set(required)


class ChecksOnce(BatchPlanner):
    """What a silent broker has kept is not looked at when it is back: that would heal a lost answer."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._verified = _NeverVerifiesAgain()

    def _record_plan(
        self,
        snapshot: MetadataSnapshot,
        positions: Mapping[MessageQueue, Position],
        planned: Mapping[MessageQueue, QueueProgress],
    ) -> None:
        before = self._positions
        super()._record_plan(snapshot, positions, planned)
        self._positions = {queue: at for queue, at in before.items() if queue in snapshot.owned} | self._positions


class WritesUnread(Membership):
    """Offsets are written whatever the broker has."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.offsets = _NeverReads(self.offsets.store, self.resets, self.offsets._is_owned, self.client.link)


class _NeverReads(OffsetCommitter):
    def raise_to(self, required: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
        links = links_to(required, self._link_to)
        confirmed = self.store.write_offsets(required)
        self._confirm({queue: required[queue] for queue in confirmed}, links)
        return confirmed


class TakesLinksLate(Membership):
    """The link of a commit is taken when its responses are recorded."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.offsets = _TakesLinksLate(self.offsets.store, self.resets, self.offsets._is_owned, self.client.link)


class _TakesLinksLate(OffsetCommitter):
    def _confirm(self, offsets: Mapping[MessageQueue, int], links: Mapping[str, Link | None]) -> None:
        super()._confirm(offsets, links_to(offsets, self._link_to))


class CommitsDroppedQueues(Membership):
    """What is proven of a dropped queue is committed all the same."""

    def _complete_ranges(
        self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]
    ) -> bool:
        lost = end_offsets.keys() - self._rebalance_impl.table.keys()
        self.offsets.raise_to({queue: end_offsets[queue] for queue in lost})
        return super()._complete_ranges(end_offsets, stored_to_ms)


class LeavesWithoutResponse(SimulatedMember):
    """Who leaves gracefully does not wait for the answer to its last commit."""

    def lend(self, membership: Membership) -> Lent:
        def persist() -> bool:
            membership.offsets.persist()
            return True

        return Lent(super().lend(membership), offsets=Lent(membership.offsets, persist=persist))


class TrustsAddresses(Membership):
    """Whoever is at a broker's address is that broker."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.client._identities = _TrustingNames(self.client._cluster, self.client._cluster.routes.master)


class UsesAnyResponse(Membership):
    """A response counts though the connection of its request was lost meanwhile."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.client._identities = _AnyResponse(self.client._cluster, self.client._cluster.routes.master)


class _AnyResponse(BrokerIdentities):
    def verify_response(self, broker_name: str, future: Future[T]) -> Future[T]:
        return future


class _TrustingNames(BrokerIdentities):
    def submit_bounds(self, broker: BrokerApi, topic: str, broker_name: str) -> Future[dict[MessageQueue, QueueBounds]]:
        self.record_verified(broker_name, self.link(broker_name))
        return broker.submit_topic_stats(topic)


# ------------------------------------------------------------------------------------------ where a plan starts


class TrustsTheCheckpoint(BatchPlanner):
    """A plan starts at the checkpoint."""

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: Stored
    ) -> Resolved:
        new = {queue: None if queue in start.queues else offset for queue, offset in stored.items()}
        return super()._resolve_positions(membership, start, snapshot, new)


class TrustsTheBroker(BatchPlanner):
    """A plan starts at the group's offset."""

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: Stored
    ) -> Resolved:
        return super()._resolve_positions(membership, SourceOffset(), snapshot, stored)


class TrustsCachedPositions(BatchPlanner):
    """The group's offset is looked at only for queues that have just been gained."""

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: Stored
    ) -> Resolved:
        return super()._resolve_positions(
            membership, start, snapshot, {**stored, **{q: at for q, at in self._positions.items() if q in stored}}
        )


class RaisesNothing(SimulatedMember):
    """The broker is not raised to where a plan starts; first positions are written."""

    def lend(self, membership: Membership) -> Lent:
        offsets = membership.offsets

        def raise_to(required: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
            stored = offsets.store.stored_offsets(required)
            offsets.raise_to({queue: required[queue] for queue, offset in stored.items() if offset is None})
            return set(required)

        return Lent(super().lend(membership), offsets=Lent(offsets, raise_to=raise_to))


class KeepsFirstPositions(SimulatedMember):
    """First positions are not written to the broker, only remembered."""

    def __init__(self, membership: Membership, runner: SourceRunner) -> None:
        super().__init__(membership, runner)
        self._first: dict[MessageQueue, int] = {}

    def lend(self, membership: Membership) -> Lent:
        offsets = membership.offsets

        def stored_offsets(queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
            stored = offsets.store.stored_offsets(queues)
            return {queue: self._first.get(queue) if offset is None else offset for queue, offset in stored.items()}

        def raise_to(required: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
            stored = offsets.store.stored_offsets(required)
            first = {queue: required[queue] for queue, offset in stored.items() if offset is None}
            self._first |= first
            return first.keys() | offsets.raise_to({q: required[q] for q in required.keys() - first.keys()})

        first_kept = Lent(offsets, raise_to=raise_to, stored_offsets=stored_offsets)
        return Lent(super().lend(membership), offsets=first_kept)


class StartsNewQueuesAtTheirEnd(BatchPlanner):
    """A queue that a topic gains begins at "latest"."""

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: Stored
    ) -> Resolved:
        ends = {
            queue: snapshot.bounds[queue].max_offset if offset is None and queue not in start.queues else offset
            for queue, offset in stored.items()
        }
        return super()._resolve_positions(membership, start, snapshot, ends)


class DecidesOnResponses(BatchPlanner):
    """Whether a topic is known is decided on what brokers happen to answer."""

    def __init__(self, member: Member, options: ReadOptions, *arguments: Any, **keywords: Any) -> None:
        super().__init__(member, options, *arguments, **keywords)
        self._starts = _StartsOnResponses(options)


class _StartsOnResponses(TopicStarts):
    def start_topics(self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot) -> None:
        super().start_topics(membership, start, replace(snapshot, is_complete=True))


class StartsLaterTopicsAsConfigured(BatchPlanner):
    """A topic that a pattern matches later starts where the options define, as those of the beginning."""

    def __init__(self, member: Member, options: ReadOptions, *arguments: Any, **keywords: Any) -> None:
        super().__init__(member, options, *arguments, **keywords)
        self._starts = _HasNeverBegun(options)


class _HasNeverBegun(TopicStarts):
    def _point_of_unread(self, start: SourceOffset, stored: Stored) -> StartingPoint:
        return self._point


# ------------------------------------------------------------------------------------------ other queues


class ChecksOnlyAtStart(BatchPlanner):
    """Whether a queue is still the one that was read is looked at once in each start of a query."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._verified = _NeverVerifiesAgain()


class _NeverVerifiesAgain(VerifiedQueues):
    def update(self, snapshot: MetadataSnapshot, positions: Mapping[MessageQueue, int]) -> None:
        return

    def mark_unverified(self, queues: Iterable[MessageQueue]) -> None:
        return


class TrustsOldBrokers(BatchPlanner):
    """Every broker is taken to delete the group's offsets with their topic."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._verified = _TrustsOldBrokers()


class _TrustsOldBrokers(VerifiedQueues):
    def update(self, snapshot: MetadataSnapshot, positions: Mapping[MessageQueue, int]) -> None:
        super().update(replace(snapshot, brokers_deleting_offsets=frozenset(snapshot.links)), positions)


class IgnoresReconnection(BatchPlanner):
    """That a broker had to be connected to again is no sign."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._verified = _ComparesBoundsOnly()


class _ComparesBoundsOnly(VerifiedQueues):
    def update(self, snapshot: MetadataSnapshot, positions: Mapping[MessageQueue, int]) -> None:
        super().update(replace(snapshot, links={}), positions)

    def mark_verified(self, queues: Iterable[MessageQueue], snapshot: MetadataSnapshot) -> None:
        super().mark_verified(queues, replace(snapshot, links={}))


class NoticesNoLostConnection(SimulatedMember):
    """An idle query looks at its connections only when there is something to plan."""

    def has_lost_connection(self, links: Iterable[Link | None]) -> bool:
        return False


class RaisesOverAnyConnection(BatchPlanner):
    """The group's offset is raised to where the snapshot shows a queue, though its broker was restarted since."""

    def _commit(
        self, membership: Membership, resolution: PositionResolution, snapshot: MetadataSnapshot, check: Check
    ) -> set[MessageQueue]:
        return super()._commit(membership, resolution, snapshot, dict)


class RewritesVanishedOffsets(Membership):
    """Where the group's offset has vanished what was proven is written again, unseen."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.offsets = _IgnoresVanishedOffsets(
            self.offsets.store, self.resets, self.offsets._is_owned, self.client.link
        )


class _IgnoresVanishedOffsets(OffsetCommitter):
    def _detect_vanished(self, found: Mapping[MessageQueue, int | None]) -> None:
        return


class WritesLateCompletions(Membership):
    """What is proven is written whatever the queue is by now."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        store = Lent(self.offsets.store, are_unchanged=lambda proofs: dict.fromkeys(proofs, True))
        self.offsets = OffsetCommitter(cast(OffsetStore, store), self.resets, self.offsets._is_owned, self.client.link)


class ForgetsStoreTimes(BatchPlanner):
    """The offset says when the last message was stored that is there now."""

    def _plan(self, membership: Membership, start: SourceOffset, limit: int | None) -> SourceOffset:
        end = super()._plan(membership, start, limit)
        idle = {
            queue: end.queues[queue]._replace(last_store_timestamp_ms=bounds.last_store_timestamp_ms)
            for queue, (bounds, _) in self._verified._verified_bounds.items()
            if queue in end.queues and end.queues[queue].begin_offset == end.queues[queue].end_offset
        }
        return end if end is start else start.advanced(dict(end.queues) | idle)


class JudgesByTheGroupsOffset(BatchPlanner):
    """A queue that ends below the group's offset is another one, whatever the checkpoint has read of it."""

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: Stored
    ) -> Resolved:
        ends = {queue: snapshot.bounds[queue].max_offset for queue in stored}
        undated = {
            queue: QueueProgress(progress.begin_offset, progress.end_offset, 0)
            for queue, progress in start.queues.items()
            if (stored.get(queue) or 0) > ends.get(queue, 0)
        }
        return super()._resolve_positions(membership, start.advanced(undated), snapshot, stored)


class TrustsQueuesBeyondTheirEnd(BatchPlanner):
    """A group offset beyond the end of a queue is no sign to check the queue."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._verified = _VerifiedWithoutSigns()

    def _query_stored_offsets(
        self, membership: Membership, candidates: Collection[MessageQueue]
    ) -> Mapping[MessageQueue, int | None]:
        stored = super()._query_stored_offsets(membership, candidates)
        assert isinstance(self._verified, _VerifiedWithoutSigns)
        self._verified.kept = {queue for queue, at in stored.items() if at == BEYOND}
        return stored


class _VerifiedWithoutSigns(VerifiedQueues):
    kept: Collection[MessageQueue] = ()

    def mark_unverified(self, queues: Iterable[MessageQueue]) -> None:
        super().mark_unverified(queue for queue in queues if queue not in self.kept)


# ------------------------------------------------------------------------------------------ the offset


class RemovesLastRanges(BatchPlanner):
    """With nothing to plan the ranges of the last batch are taken out of the offset."""

    def _plan(self, membership: Membership, start: SourceOffset, limit: int | None) -> SourceOffset:
        end = super()._plan(membership, start, limit)
        return start.advanced({}) if end is start and start.queues else end


class ForgetsQueues(BatchPlanner):
    """Only queues that are read stay in the offset."""

    def _plan(self, membership: Membership, start: SourceOffset, limit: int | None) -> SourceOffset:
        end = super()._plan(membership, start, limit)
        read = {one.queue for one in end.ranges()}
        return start if end is start else SourceOffset({q: progress for q, progress in end.queues.items() if q in read})


class ReadsOnlyOwnedQueues(SourceRunner):
    """A logged range is read only while its queue is ours."""

    def partitions(self, end_text: str) -> list[QueueRange]:
        owned = {process_queue.queue for process_queue in self.membership.process_queues}
        return [one for one in super().partitions(end_text) if one.queue in owned]


# ------------------------------------------------------------------------------------------ ownership


class DecidesUnlisted(Membership):
    """A member that the group's list does not name counts itself in."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.members = _replaced_by(_ListsItself, self)


def _replaced_by(kind: type[GroupMembers], of: Membership) -> GroupMembers:
    """Return members of another class, made as ``Membership`` makes its own."""
    return kind(of._options, of.members._client_id, of.client, started_ms=of._started_ms, checkpoint_id=None)


class _ListsItself(GroupMembers):
    def query_members(self) -> list[str] | None:
        listed_ids = super().query_members() or []
        return listed_ids if self._client_id in listed_ids else [*listed_ids, self._client_id]


class CountsConnections(Membership):
    """An id that is listed twice is two members."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._rebalance_impl = _TakesIdsAsTheyAre(
            self._options.consumer_group, self.members._client_id, strategy_of(self._options)
        )


class _TakesIdsAsTheyAre(RebalanceImpl):
    def decide(
        self, queues: Mapping[str, Sequence[MessageQueue]], client_ids: Sequence[str] | None
    ) -> RebalancePlan | None:
        if self._client_id not in (client_ids or ()):
            return None
        mine = set(allocate_all(self._strategy, self._group, self._client_id, queues, tuple(client_ids or ())))
        held = self._table.keys()
        return RebalancePlan(drop=tuple(held - mine), add=tuple(mine - held))


class IgnoresDuplicateClientId(Membership):
    """A newcomer does not wait for the connection that has its id."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.members = _replaced_by(_HidesDuplicateClientId, self)


class _HidesDuplicateClientId(GroupMembers):
    def query_members(self) -> list[str] | None:
        listed_ids = super().query_members()
        return None if listed_ids is None else sorted(set(listed_ids))


class TrustsOneBroker(Membership):
    """The list of members is whatever the first broker says."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.members = _replaced_by(_CallsOneBroker, self)


class _CallsOneBroker(GroupMembers):
    def query_members(self) -> list[str] | None:
        for broker_name in self._routes.broker_names():
            listed_ids = self._client.call_concurrently(
                {0: broker_name}, lambda broker, _: broker.submit_consumer_ids("g")
            )
            if listed_ids:
                return listed_ids[0]
        return None


class PlansWithoutGroupLock(BatchPlanner):
    """In the middle of a plan somebody else may have the turn."""

    def _resolve_positions(
        self, membership: Membership, start: SourceOffset, snapshot: MetadataSnapshot, stored: Stored
    ) -> Resolved:
        resolved = super()._resolve_positions(membership, start, snapshot, stored)
        assert isinstance(self._member, SimulatedMember)
        lock = self._member.lock
        acquired_at = lock.acquired_at
        lock.__exit__(None, None, None)
        point(WITHOUT_GROUP_LOCK)
        lock.__enter__()
        lock.acquired_at = acquired_at
        return resolved


class PlansReassignedQueues(Membership):
    """Bears a plan of queues that are not its own any more."""

    def mark_in_flight(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        super().mark_in_flight({queue: one for queue, one in ranges.items() if queue in self._rebalance_impl.table})


# ------------------------------------------------------------------------------------------ locks


class ReleasesUncompleted(Membership):
    """Orderly: a queue is given up while its batch runs."""

    def _is_drained(self, queue: MessageQueue) -> bool:
        return queue not in self.offsets.unconfirmed


class ReleasesUncommitted(Membership):
    """Orderly: a queue is given up before its commit is answered."""

    def _is_drained(self, queue: MessageQueue) -> bool:
        return not self._rebalance_impl.table[queue].in_flight


class ReadsBeforeItLocks(Membership):
    """Orderly: a gained queue's offset is read, then the queue is locked."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.early_offsets: dict[MessageQueue, int | None] = {}

    def _add(self, queues: Collection[MessageQueue]) -> None:
        self.early_offsets |= self.offsets.store.stored_offsets(queues)
        super()._add(queues)

    def mark_in_flight(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.early_offsets.clear()
        super().mark_in_flight(ranges)


class PlansWithEarlyOffsets(SimulatedMember):
    """Goes with ReadsBeforeItLocks."""

    def lend(self, membership: Membership) -> Lent:
        assert isinstance(membership, ReadsBeforeItLocks)
        store, early_offsets = membership.offsets.store, membership.early_offsets

        def stored_offsets(queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
            return {queue: early_offsets.get(queue, at) for queue, at in store.stored_offsets(queues).items()}

        return Lent(super().lend(membership), offsets=Lent(membership.offsets, stored_offsets=stored_offsets))
