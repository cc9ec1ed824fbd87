"""The product with a single rule left out, for each rule that the model of the join covers.

Each class changes one thing of its base and leaves the rest alone. ``properties/test_join_rules`` says what breaks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from connector_tests.support.simulated_query import Lent, SimulatedMember, SourceRunner
from connector_tests.support.strand import point
from rocketmq_spark.consumer.allocation import allocate_all
from rocketmq_spark.consumer.broker_names import BrokerNames
from rocketmq_spark.consumer.group_members import GroupMembers
from rocketmq_spark.consumer.group_offsets import Check, GroupOffsets, OffsetKeeper
from rocketmq_spark.consumer.membership import NOT_KNOWN, Membership
from rocketmq_spark.consumer.ports import Answer, BrokerPort, Survey
from rocketmq_spark.consumer.queue_life import QueueState
from rocketmq_spark.consumer.rebalance import RebalanceImpl, RebalancePlan
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.batch_planner import BatchPlanner, Member
from rocketmq_spark.source.stream.incarnation import TrustedQueues
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position
from rocketmq_spark.source.stream.start_positions import TopicStarts

Stored = Mapping[MessageQueue, int | None]
Settled = tuple[Survey, dict[MessageQueue, Position]]

OUT_OF_TURN = "out of turn"

# ------------------------------------------------------------------------------------------ commits


class CommitsLater(Membership):
    """What ``start`` proves is left to the timer."""

    def prove(
        self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int] = NOT_KNOWN
    ) -> None:
        self._finish(end_offsets, stored_to_ms)
        self._release(self._lives.those(QueueState.LEAVING))


class TakesSilenceForAnAnswer(Membership):
    """A commit counts when it is sent."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.offsets = _NeedsNoAnswer(self.offsets.keeper, self.resets, self._is_ours, self.servers.link)


class _NeedsNoAnswer(GroupOffsets):
    def raise_to(self, wanted: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
        super().raise_to(wanted, check)
        self._confirm(wanted)
        self._links.clear()
        return set(wanted)


class LooksOnce(BatchPlanner):
    """What a silent broker has kept is not looked at when it is back: that would heal a lost answer."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._trusted = _TrustsForEver()

    def _remember(
        self, survey: Survey, positions: Mapping[MessageQueue, Position], planned: Mapping[MessageQueue, QueueProgress]
    ) -> None:
        before = self._positions
        super()._remember(survey, positions, planned)
        self._positions = {queue: at for queue, at in before.items() if queue in survey.owned} | self._positions


class WritesUnread(Membership):
    """Offsets are written whatever the broker has."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.offsets = _NeverReads(self.offsets.keeper, self.resets, self._is_ours, self.servers.link)


class _NeverReads(GroupOffsets):
    def raise_to(self, wanted: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
        confirmed = self.keeper.write_offsets(wanted)
        self._confirm({queue: wanted[queue] for queue in confirmed})
        return confirmed


class CommitsWhatItLost(Membership):
    """What is proven of a dropped queue is committed all the same."""

    def _finish(self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]) -> bool:
        lost = end_offsets.keys() - self._rebalance_impl.table.keys()
        self.offsets.raise_to({queue: end_offsets[queue] for queue in lost})
        return super()._finish(end_offsets, stored_to_ms)


class LeavesUnanswered(SimulatedMember):
    """Who leaves gracefully does not wait for the answer to its last commit."""

    def lend(self, membership: Membership) -> Lent:
        def persist() -> bool:
            membership.offsets.persist()
            return True

        return Lent(super().lend(membership), offsets=Lent(membership.offsets, persist=persist))


class TrustsAddresses(Membership):
    """Whoever is at a broker's address is that broker."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.servers._names = _TrustingNames(self.servers._cluster, ())


class _TrustingNames(BrokerNames):
    def submit_bounds(
        self, broker: BrokerPort, topic: str, broker_name: str
    ) -> Answer[dict[MessageQueue, QueueBounds]]:
        self.found(broker_name, self.link(broker_name))
        return broker.submit_topic_stats(topic)


# ------------------------------------------------------------------------------------------ where a plan starts


class TrustsTheCheckpoint(BatchPlanner):
    """A plan starts at the checkpoint."""

    def _settle(self, membership: Membership, start: SourceOffset, survey: Survey, stored: Stored) -> Settled:
        new = {queue: None if queue in start.queues else offset for queue, offset in stored.items()}
        return super()._settle(membership, start, survey, new)


class TrustsTheBroker(BatchPlanner):
    """A plan starts at the group's offset."""

    def _settle(self, membership: Membership, start: SourceOffset, survey: Survey, stored: Stored) -> Settled:
        return super()._settle(membership, SourceOffset(), survey, stored)


class TrustsItsMemory(BatchPlanner):
    """The group's offset is looked at only for queues that have just been gained."""

    def _settle(self, membership: Membership, start: SourceOffset, survey: Survey, stored: Stored) -> Settled:
        return super()._settle(
            membership, start, survey, {**stored, **{q: at for q, at in self._positions.items() if q in stored}}
        )


class RaisesNothing(SimulatedMember):
    """The broker is not raised to where a plan starts; first positions are written."""

    def lend(self, membership: Membership) -> Lent:
        offsets = membership.offsets

        def raise_to(wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
            stored = offsets.keeper.stored_offsets(wanted)
            offsets.raise_to({queue: wanted[queue] for queue, offset in stored.items() if offset is None})
            return set(wanted)

        return Lent(super().lend(membership), offsets=Lent(offsets, raise_to=raise_to))


class KeepsFirstPositions(SimulatedMember):
    """First positions are not written to the broker, only remembered."""

    def __init__(self, membership: Membership, runner: SourceRunner) -> None:
        super().__init__(membership, runner)
        self._first: dict[MessageQueue, int] = {}

    def lend(self, membership: Membership) -> Lent:
        offsets = membership.offsets

        def stored_offsets(queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
            stored = offsets.keeper.stored_offsets(queues)
            return {queue: self._first.get(queue) if offset is None else offset for queue, offset in stored.items()}

        def raise_to(wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
            stored = offsets.keeper.stored_offsets(wanted)
            first = {queue: wanted[queue] for queue, offset in stored.items() if offset is None}
            self._first |= first
            return first.keys() | offsets.raise_to({q: wanted[q] for q in wanted.keys() - first.keys()})

        keeper = Lent(offsets.keeper, stored_offsets=stored_offsets)
        return Lent(super().lend(membership), offsets=Lent(offsets, keeper=keeper, raise_to=raise_to))


class StartsNewQueuesAtTheirEnd(BatchPlanner):
    """A queue that a topic gains begins at "latest"."""

    def _settle(self, membership: Membership, start: SourceOffset, survey: Survey, stored: Stored) -> Settled:
        ends = {
            queue: survey.bounds[queue].max_offset if offset is None and queue not in start.queues else offset
            for queue, offset in stored.items()
        }
        return super()._settle(membership, start, survey, ends)


class DecidesOnWhatAnswers(BatchPlanner):
    """Whether a topic is known is decided on what brokers happen to answer."""

    def __init__(self, member: Member, options: ReadOptions, *given: Any, **named: Any) -> None:
        super().__init__(member, options, *given, **named)
        self._starts = _StartsOnWhatAnswers(options)


class _StartsOnWhatAnswers(TopicStarts):
    def look(self, membership: Membership, start: SourceOffset, survey: Survey) -> None:
        super().look(membership, start, replace(survey, is_complete=True))


# ------------------------------------------------------------------------------------------ other queues


class LooksAtTheStart(BatchPlanner):
    """Whether a queue is still the one that was read is looked at once in each start of a query."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._trusted = _TrustsForEver()


class _TrustsForEver(TrustedQueues):
    def surveyed(self, survey: Survey, positions: Mapping[MessageQueue, int]) -> None:
        return

    def doubt(self, queues: Iterable[MessageQueue]) -> None:
        return


class TrustsOldBrokers(BatchPlanner):
    """Every broker is taken to delete the group's offsets with their topic."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._trusted = _TrustsOldBrokers()


class _TrustsOldBrokers(TrustedQueues):
    def surveyed(self, survey: Survey, positions: Mapping[MessageQueue, int]) -> None:
        super().surveyed(replace(survey, telling=frozenset(survey.links)), positions)


class SeesNoBrokenConnection(BatchPlanner):
    """That a broker had to be connected to again is no sign."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._trusted = _SeesBoundsOnly()


class _SeesBoundsOnly(TrustedQueues):
    def surveyed(self, survey: Survey, positions: Mapping[MessageQueue, int]) -> None:
        super().surveyed(replace(survey, links={}), positions)

    def trust(self, queues: Iterable[MessageQueue], survey: Survey) -> None:
        super().trust(queues, replace(survey, links={}))


class WritesWhatVanished(Membership):
    """Where the group's offset has vanished what was proven is written again, unseen."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.offsets = _SeesNothingVanish(self.offsets.keeper, self.resets, self._is_ours, self.servers.link)


class _SeesNothingVanish(GroupOffsets):
    def _look_for_vanished(self, found: Mapping[MessageQueue, int | None]) -> None:
        return


class WritesLateProofs(Membership):
    """What is proven is written whatever the queue is by now."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        keeper = Lent(self.offsets.keeper, are_same=lambda proofs: dict.fromkeys(proofs, True))
        self.offsets = GroupOffsets(cast(OffsetKeeper, keeper), self.resets, self._is_ours, self.servers.link)


class ForgetsStoreTimes(BatchPlanner):
    """The offset says when the last message was stored that is there now."""

    def _at_rest(self, start: SourceOffset, survey: Survey) -> dict[MessageQueue, QueueProgress]:
        return {
            queue: QueueProgress(at, at, survey.bounds[queue].last_store_timestamp_ms)
            for queue, at in self._positions.items()
            if queue in survey.bounds
        }


# ------------------------------------------------------------------------------------------ the offset


class RewritesItself(BatchPlanner):
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


class ReadsOnlyWhatItOwns(SourceRunner):
    """A logged range is read only while its queue is ours."""

    def partitions(self, end_text: str) -> list[QueueRange]:
        owned = {process_queue.queue for process_queue in self.membership.process_queues}
        return [one for one in super().partitions(end_text) if one.queue in owned]


# ------------------------------------------------------------------------------------------ ownership


class DecidesUnlisted(Membership):
    """A member that the group's list does not name counts itself in."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.members = _ListsItself(
            self._options,
            self.members._client_id,
            self.servers,
            self._routes,
            self._outages,
            started_ms=self._started_ms,
        )


class _ListsItself(GroupMembers):
    def listed(self) -> list[str] | None:
        told = super().listed() or []
        return told if self._client_id in told else [*told, self._client_id]


class CountsConnections(Membership):
    """An id that is listed twice is two members."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
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


class IgnoresItsNamesake(Membership):
    """A newcomer does not wait for the connection that has its id."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.members = _KnowsNoNamesake(
            self._options,
            self.members._client_id,
            self.servers,
            self._routes,
            self._outages,
            started_ms=self._started_ms,
        )


class _KnowsNoNamesake(GroupMembers):
    def listed(self) -> list[str] | None:
        told = super().listed()
        return None if told is None else sorted(set(told))


class BelievesOneBroker(Membership):
    """The list of members is whatever the first broker says."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.members = _AsksOneBroker(
            self._options,
            self.members._client_id,
            self.servers,
            self._routes,
            self._outages,
            started_ms=self._started_ms,
        )


class _AsksOneBroker(GroupMembers):
    def listed(self) -> list[str] | None:
        for broker_name in self._routes.broker_names():
            told = self._servers.ask_together({0: broker_name}, lambda broker, _: broker.submit_consumer_ids("g"))
            if told:
                return told[0]
        return None


class PlansOutOfTurn(BatchPlanner):
    """In the middle of a plan somebody else may have the turn."""

    def _settle(self, membership: Membership, start: SourceOffset, survey: Survey, stored: Stored) -> Settled:
        settled = super()._settle(membership, start, survey, stored)
        assert isinstance(self._member, SimulatedMember)
        lock = self._member.lock
        taken_at = lock.taken_at
        lock.__exit__(None, None, None)
        point(OUT_OF_TURN)
        lock.__enter__()
        lock.taken_at = taken_at
        return settled


class TakesWhatIsLeft(Membership):
    """Bears a plan of queues that are not its own any more."""

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        super().take({queue: one for queue, one in ranges.items() if queue in self._rebalance_impl.table})


# ------------------------------------------------------------------------------------------ locks


class ReleasesUnproven(Membership):
    """Orderly: a queue is given up while its batch runs."""

    def _is_settled(self, queue: MessageQueue) -> bool:
        return queue not in self.offsets.unconfirmed


class ReleasesUncommitted(Membership):
    """Orderly: a queue is given up before its commit is answered."""

    def _is_settled(self, queue: MessageQueue) -> bool:
        return not self._rebalance_impl.table[queue].in_flight


class ReadsBeforeItLocks(Membership):
    """Orderly: a gained queue's offset is read, then the queue is locked."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.read_early: dict[MessageQueue, int | None] = {}

    def _gain(self, queues: Collection[MessageQueue]) -> None:
        self.read_early |= self.offsets.keeper.stored_offsets(queues)
        super()._gain(queues)

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.read_early.clear()
        super().take(ranges)


class PlansWithWhatWasReadEarly(SimulatedMember):
    """Goes with ReadsBeforeItLocks."""

    def lend(self, membership: Membership) -> Lent:
        assert isinstance(membership, ReadsBeforeItLocks)
        keeper, read_early = membership.offsets.keeper, membership.read_early

        def stored_offsets(queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
            return {queue: read_early.get(queue, at) for queue, at in keeper.stored_offsets(queues).items()}

        offsets = Lent(membership.offsets, keeper=Lent(keeper, stored_offsets=stored_offsets))
        return Lent(super().lend(membership), offsets=offsets)
