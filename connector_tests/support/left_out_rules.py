"""The product with a single rule left out, for each rule that the model of the join covers.

Each class changes one thing of its base and leaves the rest alone. ``properties/test_join_rules`` says what breaks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connector_tests.support.simulated_query import SimulatedMember, SourceRunner
from connector_tests.support.strand import point
from rocketmq_spark.consumer.allocation import allocate_all
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.ports import Survey
from rocketmq_spark.consumer.rebalance import RebalanceImpl, RebalancePlan
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position

Stored = Mapping[MessageQueue, int | None]
Positions = dict[MessageQueue, Position]

OUT_OF_TURN = "out of turn"

# ------------------------------------------------------------------------------------------ commits


class CommitsLater(Membership):
    """What ``start`` proves is left to the timer."""

    def prove(self, end_offsets: Mapping[MessageQueue, int]) -> None:
        self._finish(end_offsets)
        self._release(self._leaving)
        self.view = self._new_view()


class TakesSilenceForAnAnswer(Membership):
    """A commit counts when it is sent."""

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        super().raise_offsets(wanted)
        for queue in wanted.keys() & self._rebalance_impl.table.keys():
            self._store.confirm(queue, wanted[queue])
        return set(wanted)


class LooksOnce(BatchPlanner):
    """What a silent broker has kept is not looked at when it is back: that would heal a lost answer."""

    def _remember(
        self, survey: Survey, positions: Mapping[MessageQueue, Position], planned: Mapping[MessageQueue, QueueProgress]
    ) -> None:
        before = self._positions
        super()._remember(survey, positions, planned)
        self._positions = {queue: at for queue, at in before.items() if queue in survey.owned} | self._positions


class WritesUnread(Membership):
    """Offsets are written whatever the broker has."""

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        confirmed = self._inquiry.write_offsets(wanted)
        for queue in confirmed & self._rebalance_impl.table.keys():
            self._store.confirm(queue, wanted[queue])
        return confirmed


class CommitsWhatItLost(Membership):
    """What is proven of a dropped queue is committed all the same."""

    def _finish(self, end_offsets: Mapping[MessageQueue, int]) -> bool:
        lost = end_offsets.keys() - self._rebalance_impl.table.keys()
        self.raise_offsets({queue: end_offsets[queue] for queue in lost})
        return super()._finish(end_offsets)


class LeavesUnanswered(SimulatedMember):
    """Who leaves gracefully does not wait for the answer to its last commit."""

    def persist(self) -> bool:
        super().persist()
        return True


# ------------------------------------------------------------------------------------------ where a plan starts


class TrustsTheCheckpoint(BatchPlanner):
    """A plan starts at the checkpoint."""

    def _settle(self, start: SourceOffset, survey: Survey, stored: Stored) -> Positions:
        new = {queue: None if queue in start.queues else offset for queue, offset in stored.items()}
        return super()._settle(start, survey, new)


class TrustsTheBroker(BatchPlanner):
    """A plan starts at the group's offset."""

    def _settle(self, start: SourceOffset, survey: Survey, stored: Stored) -> Positions:
        return super()._settle(SourceOffset(), survey, stored)


class TrustsItsMemory(BatchPlanner):
    """The group's offset is looked at only for queues that have just been gained."""

    def _settle(self, start: SourceOffset, survey: Survey, stored: Stored) -> Positions:
        return super()._settle(start, survey, {**stored, **{q: at for q, at in self._positions.items() if q in stored}})


class RaisesNothing(SimulatedMember):
    """The broker is not raised to where a plan starts; first positions are written."""

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        stored = self.stored_offsets(wanted)
        super().raise_offsets({queue: wanted[queue] for queue, offset in stored.items() if offset is None})
        return set(wanted)


class KeepsFirstPositions(SimulatedMember):
    """First positions are not written to the broker, only remembered."""

    def __init__(self, membership: Membership, runner: SourceRunner) -> None:
        super().__init__(membership, runner)
        self._first: dict[MessageQueue, int] = {}

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        stored = super().stored_offsets(queues)
        return {queue: self._first.get(queue) if offset is None else offset for queue, offset in stored.items()}

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        stored = super().stored_offsets(wanted)
        first = {queue: wanted[queue] for queue, offset in stored.items() if offset is None}
        self._first |= first
        return first.keys() | super().raise_offsets({q: wanted[q] for q in wanted.keys() - first.keys()})


class StartsNewQueuesAtTheirEnd(BatchPlanner):
    """A queue that a topic gains begins at "latest"."""

    def _settle(self, start: SourceOffset, survey: Survey, stored: Stored) -> Positions:
        ends = {
            queue: survey.bounds[queue].max_offset if offset is None and queue not in start.queues else offset
            for queue, offset in stored.items()
        }
        return super()._settle(start, survey, ends)


class DecidesOnWhatAnswers(BatchPlanner):
    """Whether a topic is known is decided on what brokers happen to answer."""

    def _start_topics(self, start: SourceOffset, survey: Survey) -> None:
        super()._start_topics(start, replace(survey, is_complete=True))


# ------------------------------------------------------------------------------------------ the offset


class RewritesItself(BatchPlanner):
    """With nothing to plan the ranges of the last batch are taken out of the offset."""

    def _plan(self, start: SourceOffset, limit: int | None) -> SourceOffset:
        end = super()._plan(start, limit)
        return start.advanced({}) if end is start and start.queues else end


class ForgetsQueues(BatchPlanner):
    """Only queues that are read stay in the offset."""

    def _plan(self, start: SourceOffset, limit: int | None) -> SourceOffset:
        end = super()._plan(start, limit)
        read = {one.queue for one in end.ranges()}
        return start if end is start else SourceOffset({q: progress for q, progress in end.queues.items() if q in read})


class ReadsOnlyWhatItOwns(SourceRunner):
    """A logged range is read only while its queue is ours."""

    def partitions(self, end_text: str) -> list[QueueRange]:
        owned = {process_queue.queue for process_queue in self.membership.view.process_queues}
        return [one for one in super().partitions(end_text) if one.queue in owned]


# ------------------------------------------------------------------------------------------ ownership


class DecidesUnlisted(Membership):
    """A member that the group's list does not name counts itself in."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._rebalance_impl = _CountsItselfIn(self._group, self.client_id, strategy_of(self._options))


class _CountsItselfIn(RebalanceImpl):
    def decide(
        self, queues: Mapping[str, Sequence[MessageQueue]], client_ids: Sequence[str] | None
    ) -> RebalancePlan | None:
        return super().decide(queues, [*(client_ids or ()), self._client_id])


class CountsConnections(Membership):
    """An id that is listed twice is two members."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._rebalance_impl = _TakesIdsAsTheyAre(self._group, self.client_id, strategy_of(self._options))


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

    def _is_somebody_else(self, client_ids: list[str] | None) -> bool:
        return False


class PlansOutOfTurn(BatchPlanner):
    """In the middle of a plan somebody else may have the turn."""

    def _settle(self, start: SourceOffset, survey: Survey, stored: Stored) -> Positions:
        positions = super()._settle(start, survey, stored)
        turn: Any = self._member.turn()
        taken_at = turn.taken_at
        turn.__exit__(None, None, None)
        point(OUT_OF_TURN)
        turn.__enter__()
        turn.taken_at = taken_at
        return positions


class TakesWhatIsLeft(Membership):
    """Bears a plan of queues that are not its own any more."""

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        super().take({queue: one for queue, one in ranges.items() if queue in self._rebalance_impl.table})


# ------------------------------------------------------------------------------------------ locks


class ReleasesUnproven(Membership):
    """Orderly: a queue is given up while its batch runs."""

    def _is_settled(self, queue: MessageQueue) -> bool:
        return queue not in self._store.unconfirmed


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
        self.read_early |= self._inquiry.stored_offsets(queues)
        super()._gain(queues)

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.read_early.clear()
        super().take(ranges)


class PlansWithWhatWasReadEarly(SimulatedMember):
    """Goes with ReadsBeforeItLocks."""

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        assert isinstance(self.membership, ReadsBeforeItLocks)
        stored = super().stored_offsets(queues)
        return {queue: self.membership.read_early.get(queue, offset) for queue, offset in stored.items()}
