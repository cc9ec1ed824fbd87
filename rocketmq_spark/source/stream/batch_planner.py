"""BatchPlanner: the order of things inside ``latestOffset``. It asks the member, lets ``planning`` decide, and acts.

    1. commit what ``start`` proves, answers awaited;
    2. with something to plan: routes, members and bounds afresh, and rebalance;
    3. a topic that nobody has read: write the first positions of all its queues to the broker, answered;
    4. per queue the larger of checkpoint and broker, and raise the broker to it;
    5. plan.

docs/dev/offsets.md says what breaks when a step is left out or moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.ports import Survey
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.source.data_loss import LossCount, LostRange, deleted, report_losses, report_passed_over
from rocketmq_spark.source.stream.available_now import AvailableNowTargets
from rocketmq_spark.source.stream.incarnation import TrustedQueues, last_read, other_from, others, stored_later
from rocketmq_spark.source.stream.missing_queues import MissingQueues
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position, later_of, moved_back, plan_batch
from rocketmq_spark.source.stream.progress import Backlog
from rocketmq_spark.source.stream.settlement import (
    Findings,
    Settlement,
    reset_positions,
    settle,
    warn_of_emptied,
    warn_of_reset,
)
from rocketmq_spark.source.stream.start_positions import TopicStarts

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock


IDLE_WAIT_MS: Final = 200
"""How long an idle call waits for news; Spark would ask again every 12 ms. Not longer: the other sources of the query
wait for it, and so does a graceful stop."""

OTHERS_TURN_MS: Final = 2_000
"""How long a call of an ``availableNow`` run waits for other members. They may be other loads of the same query, and
Spark runs no batch of these until the call returns."""

IDLE_WAIT_QUEUES_PER_MS: Final = 4
"""With many queues a call costs more, in Spark too, which reads and compares the offset; so there are fewer calls."""


def idle_wait_ms(queue_count: int) -> int:
    """How long an idle call waits for news, with so many queues in the offset."""
    return max(IDLE_WAIT_MS, queue_count // IDLE_WAIT_QUEUES_PER_MS)


class Member(Protocol):
    """What a planner needs of ``consumer.member``."""

    def turn(self) -> AbstractContextManager[Membership]: ...

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool: ...

    def hand_over(self) -> None: ...


class Drain(Protocol):
    """Whether somebody wants this query to end without leaving anything unproven.

    ``claim``: whether somebody still does; then there is no way back. ``answer``: that is so now.
    """

    def is_made(self) -> bool: ...

    def claim(self) -> bool: ...

    def answer(self) -> None: ...


class BatchPlanner:
    """Plans the micro-batches of one query start. Used by one thread, the source runner's main thread."""

    def __init__(self, member: Member, options: ReadOptions, drain: Drain, clock: Clock) -> None:
        self._member = member
        self._options = options
        self._missing = MissingQueues(options)
        self._drain = drain
        self._clock = clock
        self.backlog = Backlog()
        self.losses = LossCount()
        """What was found to be lost since this start."""
        self._positions: dict[MessageQueue, int] = {}
        self._starts = TopicStarts(options)
        self._trusted = TrustedQueues(offsets_of_our_own=options.message_model == BROADCASTING)
        self._served: list[MessageQueue] = []
        self._compared: set[MessageQueue] = set()
        """Queues of which it is known whether the group has read further than the checkpoint."""
        self._survey_at_once = True
        self._has_seen_all = False
        self._proven: SourceOffset | None = None
        self._told: set[MessageQueue] = set()
        """Queues of which the proven offset has been told to the membership."""
        self._is_unconfirmed = False
        self._targets: AvailableNowTargets | None = None
        self.completed_after_rebalance = 0
        """Of the membership, as of the last proof."""
        self.masters: Mapping[str, BrokerAddress] = {}
        """Addresses by broker name: where the queues of the last plan were surveyed."""

    def stop_at_what_is_there(self) -> None:
        """AvailableNow: the first complete survey fixes where every queue of the topics ends, our own or not."""
        self._targets = AvailableNowTargets(self._options.cluster_timeout_ms)

    def latest_offset(self, start: SourceOffset, limit: int | None) -> SourceOffset:
        """The end of the next micro-batch; ``start`` itself when there is nothing to read. An ``availableNow`` run that
        waits for other members returns the end of a batch without rows, so that Spark goes on asking.

        ``start`` proves that everything below its ends is in the sink. An empty one, the first of all, is answered only
        when it is settled where the topics begin. ``limit``: offsets in all, None for no limit.
        Raises DataLossError[DATA_LOSS.OFFSETS_UNAVAILABLE] (with ``failOnDataLoss``), what ``Membership.survey`` does,
        and RouteError[QUEUES_UNAVAILABLE.TIMEOUT | QUEUES_UNAVAILABLE.FAIL] for queues that have been away too long.
        """
        self._prove(start)
        wait_ms = idle_wait_ms(len(start.queues))
        began_ms = self._clock()
        while True:
            if self._drain.is_made():
                if self._has_handed_over(start):
                    return start
            elif self._must_survey(wait_ms):
                with self._member.turn() as membership:
                    end = self._plan(membership, start, limit)
                if end is not start:
                    return end
            if self._may_rest(start):
                return start
            if _awaits_others(self._targets) and self._clock() - began_ms >= OTHERS_TURN_MS:
                return start.after_waiting()

    def _prove(self, start: SourceOffset) -> None:
        """Once for each queue, while it is ours: where one has become another since, ``start`` says nothing of that.
        What the brokers have not confirmed is told again."""
        if start is not self._proven:
            self._proven, self._told = start, set()
        if len(self._told) == len(start.queues) and not self._is_unconfirmed:
            return
        with self._member.turn() as membership:
            untold = start.queues.keys() - self._told
            proven = {queue: start.queues[queue] for queue in untold}
            membership.prove(
                {queue: progress.end_offset for queue, progress in proven.items()},
                {queue: progress.last_store_timestamp_ms for queue, progress in proven.items()},
            )
            self._told |= untold & {held.queue for held in membership.process_queues}
            self._is_unconfirmed = bool(membership.offsets.unconfirmed)
            self.completed_after_rebalance = membership.completed_after_rebalance
            self.losses.add_told(membership.told_lost)

    def _must_survey(self, wait_ms: int) -> bool:
        """Whether there may be something to plan. If nothing is known of that, wait a little for news."""
        if self._survey_at_once or self._missing.is_due(self._clock()):
            return True
        return self._member.wait_for_news(self._positions, wait_ms)

    def _may_rest(self, start: SourceOffset) -> bool:
        """Whether to end idle. At first all brokers must have responded: ``Trigger.Once`` makes no second call."""
        if self._targets is not None:
            return self._has_ended(start, self._targets)
        if not self._has_seen_all:
            return False
        return bool(start.queues) or self._starts.topics.issuperset(self._options.read_topics)

    def _has_ended(self, start: SourceOffset, targets: AvailableNowTargets) -> bool:
        targets.give_up(self._missing.dropped)
        if self._missing.waited_for or (self._starts.is_to_move(start) and self._starts.has_queues):
            targets.wait(self._clock())
            return False
        self._prove(start)
        with self._member.turn() as membership:
            targets.cut(membership.servers.bounds())
            stored = membership.offsets.keeper.stored_offsets(targets.offsets)
            return targets.are_reached(start, stored, self._clock()) and membership.offsets.persist()

    def _has_handed_over(self, start: SourceOffset) -> bool:
        """Leave the group once the brokers have confirmed what is proven, or the next owners read it again. Until then
        plan nothing; the survey that follows on news raises what is silent for its limit."""
        with self._member.turn() as membership:
            is_confirmed = membership.offsets.persist()
        if is_confirmed:
            if not self._drain.claim():
                return False
            self._member.hand_over()
            self._drain.answer()
            return True
        if self._member.wait_for_news({}, IDLE_WAIT_MS):
            with self._member.turn() as membership:
                survey = membership.survey(start.queues)
                doubtful = membership.offsets.doubtful & survey.bounds.keys()
                self._settle(membership, start, survey, self._stored(membership, doubtful))
        return False

    def recover(self, end: SourceOffset, wanted: Sequence[QueueRange]) -> tuple[LostRange, ...]:
        """The batch that ends here is about to be read again, ``wanted`` of it, before any plan. Its pulls would be
        told of operators' resets, and nobody after them. And tasks would each tell what has been deleted of it since:
        so that is reported here, and returned. Raises DataLossError (with ``failOnDataLoss``)."""
        with self._member.turn() as membership:
            membership.resets.look_for([one.queue for one in end.ranges()])
            self.masters = membership.masters
            lost = deleted(wanted, membership.servers.bounds())
        self._report(lost)
        return lost

    # ------------------------------------------------------------------------------------------ one plan

    def _plan(self, membership: Membership, start: SourceOffset, limit: int | None) -> SourceOffset:
        survey = membership.survey(start.queues)
        self.masters = membership.masters
        self._missing.see(survey.away, start, self._clock())
        membership.wait_for_queues(self._missing.waits)
        for queue in self._missing.dropped & membership.offsets.doubtful:
            # Its topic is gone, and the group's offset with it: there is no place for what is proven.
            membership.offsets.forget(queue)
        self._trusted.surveyed(survey, self._positions)
        if self._targets is not None and not self._missing.waited_for:
            self._targets.fix(survey)
        self._starts.look(membership, start, survey)
        candidates = self._candidates(membership, start, survey)
        survey, positions = self._settle(membership, start, survey, self._stored(membership, candidates))
        self._note_unsettled(start, survey, set(candidates) - positions.keys())
        positions = {queue: position for queue, position in positions.items() if queue in survey.owned}
        targets = None if self._targets is None else self._targets.offsets
        planned = plan_batch(
            positions, survey.bounds, limit=limit, targets=targets, served=self._served, checkpoint=start
        )
        if start.advanced(planned) == start:
            # The very ranges of the last batch, after a reset. To Spark an equal offset is no batch: move back first.
            planned = {}
        membership.take({queue: (plan.begin_offset, plan.end_offset) for queue, plan in planned.items()})
        self._remember(survey, positions, planned)
        lower = moved_back(positions, {queue: progress.end_offset for queue, progress in start.queues.items()})
        self._survey_at_once = bool(planned or lower)
        if not self._survey_at_once and (start.queues or not self._positions):
            return start
        return start.advanced(self._at_rest(start, survey) | planned)

    def _note_unsettled(self, start: SourceOffset, survey: Survey, queues: Collection[MessageQueue]) -> None:
        """Of these a broker did not confirm where they go on. They are not watched meanwhile: what has come since is
        known, and they are due again after the broker's pause."""
        self._positions = {queue: at for queue, at in self._positions.items() if queue not in queues}
        is_known = survey.is_complete or (bool(start.queues) and start.queues.keys() <= survey.away.keys())
        self._has_seen_all |= is_known and not queues and not self._missing.waited_for

    def _candidates(self, membership: Membership, start: SourceOffset, survey: Survey) -> list[MessageQueue]:
        """Our queues that have grown, that we have just gained or that may be other ones, if it is known where they
        begin. And those that go as soon as it is known whether they are still the same."""
        if self._starts.is_to_move(start):
            return []
        return [
            queue
            for queue in sorted(survey.owned, key=MessageQueue.sort_key)
            if queue in survey.bounds
            and (queue in start.queues or queue.topic in self._starts.topics)
            and (
                self._positions.get(queue) != survey.bounds[queue].max_offset
                or queue not in self._trusted
                or queue in membership.offsets.doubtful
            )
        ] + sorted(membership.offsets.doubtful & survey.leaving & survey.bounds.keys(), key=MessageQueue.sort_key)

    def _settle(
        self, membership: Membership, start: SourceOffset, survey: Survey, stored: Mapping[MessageQueue, int | None]
    ) -> tuple[Survey, dict[MessageQueue, Position]]:
        """Positions of ``stored``'s queues, with the broker raised to them, or lowered where a queue does not reach so
        far any more; those that it did not confirm are left out. The survey is as new as they need it."""
        findings = self._look_at(membership, start, survey, stored)
        survey = replace(survey, bounds=findings.bounds)
        settlement = settle(start, findings, is_broadcasting=self._options.message_model == BROADCASTING)
        confirmed = self._carry_out(membership, settlement)
        self._trusted.trust(confirmed, survey)
        settled = {queue: position for queue, position in settlement.positions.items() if queue in confirmed}
        # What an operator has said before the group is moved does not count.
        resets = {} if self._starts.is_to_move(start) else self._obey_resets(membership, survey)
        return survey, settled | resets

    def _look_at(
        self, membership: Membership, start: SourceOffset, survey: Survey, stored: Mapping[MessageQueue, int | None]
    ) -> Findings:
        """What is to be known of ``stored``'s queues; left out are those of which that is not known now."""
        offsets, servers, bounds = membership.offsets, membership.servers, survey.bounds
        doubtful = frozenset(offsets.doubtful)
        self._trusted.doubt(
            queue for queue, at in stored.items() if at is None or queue in doubtful or not offsets.has_confirmed(queue)
        )
        untrusted = [queue for queue in stored if queue not in self._trusted]
        to_see = last_read(untrusted, start, bounds)
        seen = servers.stored_at(to_see)
        later = stored_later(seen, start)
        if later or any(at is not None and at > bounds[queue].max_offset for queue, at in stored.items()):
            # Another member may have read on since the survey; bounds that are asked for now cannot be older.
            bounds = servers.bounds()
            grown = last_read([one for one in untrusted if one in bounds and one not in to_see], start, bounds)
            to_see |= grown
            seen |= servers.stored_at(grown)
            later = stored_later(seen, start)
        known = [queue for queue in stored if queue in bounds and (queue in seen or queue not in to_see)]
        emptied = {queue for queue in self._trusted.emptied if stored.get(queue) is not None}
        after_ms = others([queue for queue in known if queue not in emptied], later, start, bounds)
        begin = servers.search_offsets({queue: ms + 1 for queue, ms in after_ms.items()})
        other = {
            queue: other_from(begin[queue], start.queues[queue]) if queue in begin else None
            for queue in known
            if queue in begin or queue not in after_ms
        }
        return Findings(bounds, {queue: stored[queue] for queue in other}, other, doubtful, emptied)

    def _carry_out(self, membership: Membership, settlement: Settlement) -> set[MessageQueue]:
        """Queues whose positions the broker has confirmed. Raises DataLossError (with ``failOnDataLoss``)."""
        for queue in settlement.emptied:
            warn_of_emptied(queue)
        self._report(settlement.lost)
        self._report_passed_over(settlement)
        for queue in settlement.forget:
            membership.offsets.forget(queue)
        unsettled = settlement.lower_to.keys() - membership.offsets.lower_to(settlement.lower_to)
        wanted = {queue: offset for queue, offset in settlement.raise_to.items() if queue not in unsettled}
        return membership.offsets.raise_to(wanted)

    def _report_passed_over(self, settlement: Settlement) -> None:
        """Once for each queue since the start: what moves between members afterwards is every group's daily work."""
        ranges = [one for one in settlement.passed_over if one.queue not in self._compared]
        self._compared |= settlement.positions.keys()
        report_passed_over(self._options.consumer_group, ranges)

    def _report(self, lost: Collection[LostRange]) -> None:
        report_losses(lost, is_failure=self._options.fail_on_data_loss)
        self.losses.add(lost)

    def _stored(self, membership: Membership, candidates: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offsets, in the order of ``candidates``."""
        stored = membership.offsets.keeper.stored_offsets(candidates)
        return {queue: stored[queue] for queue in candidates if queue in stored}

    def _obey_resets(self, membership: Membership, survey: Survey) -> dict[MessageQueue, Position]:
        """Positions that an operator has set, and the broker has confirmed."""
        resets = reset_positions(membership.pending_resets(), survey)
        obeyed = membership.offsets.lower_to(resets)
        for queue in obeyed:
            membership.resets.forget(queue)
            warn_of_reset(queue, self._positions.get(queue), resets[queue])
        return {queue: Position(resets[queue]) for queue in obeyed}

    def _remember(
        self, survey: Survey, positions: Mapping[MessageQueue, Position], planned: Mapping[MessageQueue, QueueProgress]
    ) -> None:
        self._served = [queue for queue in self._served if queue not in planned] + list(planned)
        self._positions |= {queue: position.offset for queue, position in positions.items()}
        self._positions |= {queue: progress.end_offset for queue, progress in planned.items()}
        # A broker that was silent may have forgotten offsets: its queues are looked at anew when it is back.
        seen = survey.owned & survey.bounds.keys()
        self._positions = {queue: at for queue, at in self._positions.items() if queue in seen}
        self.backlog.surveyed(self._positions, survey.bounds, is_whole=self._has_all(survey))

    def _has_all(self, survey: Survey) -> bool:
        """Whether it is known of every queue that is ours where it is. Who owns none may not have been told."""
        is_heard = survey.owned <= self._positions.keys() and not self._missing.is_any_away
        return is_heard and (bool(survey.owned) or survey.is_complete)

    def _at_rest(self, start: SourceOffset, survey: Survey) -> dict[MessageQueue, QueueProgress]:
        """A queue that is where it was keeps its store time too: what has been stored since may be another queue's."""
        moved = {
            queue: at
            for queue, at in self._positions.items()
            if queue in survey.bounds and not _is_known(start.queues.get(queue), at)
        }
        return {
            queue: QueueProgress(at, at, later_of(start.queues.get(queue), survey.bounds[queue]))
            for queue, at in moved.items()
        }


def _awaits_others(targets: AvailableNowTargets | None) -> bool:
    return targets is not None and targets.awaits_others


def _is_known(progress: QueueProgress | None, position: int) -> bool:
    return progress is not None and progress.end_offset == position and progress.last_store_timestamp_ms > 0
