from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queue, queues
from connector_tests.support.simulated_cluster import (
    OLD_VERSION,
    ClusterDoor,
    Reach,
    SimulatedBroker,
    SimulatedCluster,
    address_of,
)
from rocketmq_spark.consumer.local_offset_store import LocalFileOffsetStore, decode_offsets, encode_offsets
from rocketmq_spark.consumer.membership import NOT_KNOWN, Membership
from rocketmq_spark.consumer.survey import Survey
from rocketmq_spark.consumer.turn import Turn
from rocketmq_spark.errors import BrokerError, DataLossError, RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import ASKING
from rocketmq_spark.source.stream.available_now import AvailableNowTargets
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

A, B = queues(2)
ELSEWHERE = queue(0, broker_name="broker-b")
PATIENCE_MS = 60_000
ADDRESS = address_of("broker-a")
SILENT_BROKER = "broker-z"
EMPTY: Final[Mapping[MessageQueue, int]] = MappingProxyType({})


class Observed(Membership):
    """The real one, of which a test sees what a planner does with it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.surveys = 0
        self.taken: list[dict[MessageQueue, tuple[int, int]]] = []
        self.proven: dict[MessageQueue, int] = {}
        self.after_survey: Callable[[], None] = lambda: None

    def survey(self, known: Collection[MessageQueue] = ()) -> Survey:
        self.surveys += 1
        survey = super().survey(known)
        self.after_survey()
        return survey

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.taken.append(dict(ranges))
        super().take(ranges)

    def prove(
        self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int] = NOT_KNOWN
    ) -> None:
        self.proven = dict(end_offsets)
        super().prove(end_offsets, stored_to_ms)


class FileInMemory:
    """For a query that keeps its own offsets."""

    def __init__(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.content = encode_offsets(offsets)

    def read(self) -> tuple[bytes, None]:
        return self.content, None

    def write(self, content: bytes, *, keep_last: bool) -> None:
        self.content = content


class SteadyMember:
    """A member of a group in a simulated cluster, where everything is as a test says and nothing comes in between.

    What may come in between is tried out by the model of the join. ``resets``: what an operator has done and the member
    was told; ``marks``: what it was not told. ``not_owned``: queues that go to another member.
    """

    def __init__(
        self,
        bounds: Mapping[MessageQueue, QueueBounds],
        *,
        stored: Mapping[MessageQueue, int] = EMPTY,
        resets: Mapping[MessageQueue, int] = EMPTY,
        marks: Mapping[MessageQueue, int] = EMPTY,
        stored_after: Mapping[MessageQueue, int] = EMPTY,
        has_news: bool = False,
        **state: Any,
    ) -> None:
        self.clock = ManualClock()
        self.cluster = SimulatedCluster(sorted({SILENT_BROKER, *(one.broker_name for one in bounds)}), self.clock)
        self.cluster.create_topic("orders", Counter(one.broker_name for one in bounds) | Counter({SILENT_BROKER: 1}))
        self.has_news = has_news
        self.has_left = False
        self.waits = 0
        self.is_complete = True
        self._told = resets
        for one, of_queue in bounds.items():
            self.hold(one, of_queue, stored_after.get(one))
        for one, offset in stored.items():
            self._broker(one).offsets[one] = offset
        for one, offset in marks.items():
            self._broker(one).reset(one, offset)
        for name, value in state.items():
            setattr(self, name, value)

    def join(self, options: ReadOptions) -> None:
        self._file = FileInMemory(self.stored)
        is_broadcasting = options.message_model == "BROADCASTING"
        door, clock = ClusterDoor(self.cluster, "our connection"), self.clock
        keeper = LocalFileOffsetStore(self._file) if is_broadcasting else None
        self.observed = Observed(options, "me", door, clock, clock, started_ms=1, local_offsets=keeper)
        self._turn = Turn(self.observed, nullcontext())
        for one, offset in self._told.items():
            self.observed.resets.note(one, offset)

    # ---- for the planner

    def turn(self) -> AbstractContextManager[Membership]:
        return self._turn()

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.waits += 1
        assert self.waits < 1_000, "nothing will ever come of this"
        assert timeout_ms > 0
        assert isinstance(positions, Mapping)
        return self.has_news

    def hand_over(self) -> None:
        self.has_left = True

    # ---- what is so

    def hold(self, one: MessageQueue, bounds: QueueBounds, stored_after: int | None = None) -> None:
        """A queue has grown, or is another one. From ``stored_after`` on its messages are newer than all others."""
        at_ms, broker = bounds.last_store_timestamp_ms, self._broker(one)
        older = broker.stored_ms.get(one, [])[: bounds.max_offset]
        if stored_after is not None:
            older, at_ms = [min(at_ms, 1_000)] * stored_after, max(at_ms, 6_000)
        broker.stored_ms[one] = older + [at_ms] * (bounds.max_offset - len(older))
        broker.min_offsets[one] = bounds.min_offset
        self.cluster.show("orders", one.broker_name, max(held.queue_id for held in broker.stored_ms) + 1)

    def make_anew(self, one: MessageQueue, count: int, at_ms: int = 9_000) -> None:
        """Its topic is deleted, created again and filled."""
        self._broker(one).make_anew(one)
        self._broker(one).stored_ms[one] = [at_ms] * count

    def store_times(self, one: MessageQueue, *stored_ms: int) -> None:
        """Of all its messages."""
        self._broker(one).stored_ms[one] = list(stored_ms)

    def restart(self, lost_messages: int = 0) -> None:
        """The broker of A, which keeps the group's offsets."""
        self._broker(A).restart(lost_messages)

    @property
    def stored(self) -> dict[MessageQueue, int]:
        """The group's offsets."""
        return {one: at for broker in self.cluster.brokers.values() for one, at in broker.offsets.items()}

    @property
    def marks(self) -> dict[MessageQueue, int]:
        """Where an operator has reset queues to, and nobody was told."""
        return {one: at for broker in self.cluster.brokers.values() for one, at in broker.marks.items()}

    @property
    def in_file(self) -> dict[MessageQueue, int] | None:
        return decode_offsets(self._file.content)

    def store(self, one: MessageQueue, offset: int) -> None:
        self._broker(one).offsets[one] = offset

    def _broker(self, one: MessageQueue) -> SimulatedBroker:
        return self.cluster.brokers[one.broker_name]

    def _set_not_owned(self, queues: Collection[MessageQueue]) -> None:
        """The first queues go to "her", the last ones to "you": their names are before and after ours."""
        self.cluster.set_others(*{"her" if one == A else "you" for one in queues})

    not_owned = property(fset=_set_not_owned)

    def _set_away(self, queues: Collection[MessageQueue]) -> None:
        """Above what the route shows."""
        count = min((one.queue_id for one in queues), default=len(self.cluster.brokers["broker-a"].stored_ms))
        self.cluster.show("orders", "broker-a", count)

    away = property(fset=_set_away)

    def _set_version(self, version: int) -> None:
        for broker in self.cluster.brokers.values():
            broker.version = version

    version = property(fset=_set_version)

    def _set_silent(self, broker_names: Collection[str]) -> None:
        for name in self.cluster.brokers.keys() - {SILENT_BROKER}:
            self.cluster.brokers[name].reach = Reach.SILENT if name in broker_names else Reach.UP
        self.clock.advance(ASKING.longest_ms)

    silent = property(fset=_set_silent)

    def _set_not_confirming(self, queues: set[MessageQueue]) -> None:
        self.cluster.brokers["broker-a"].unanswered_writes = queues
        self.clock.advance(ASKING.longest_ms)

    not_confirming = property(fset=_set_not_confirming)

    def _set_not_searching(self, queues: set[MessageQueue]) -> None:
        self.cluster.brokers["broker-a"].unanswered_searches = queues
        self.clock.advance(ASKING.longest_ms)

    not_searching = property(fset=_set_not_searching)

    def _set_is_complete(self, is_complete: bool) -> None:
        """Else one more broker is in the route, and says nothing."""
        self.cluster.brokers[SILENT_BROKER].reach = Reach.AWAY if is_complete else Reach.SILENT

    is_complete = property(fset=_set_is_complete)


def options(**given: str) -> ReadOptions:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    start = {} if "startingTimestamp" in given else {"startingOffsets": "earliest"}
    return ReadOptions.parse({**required, **start, **given})


def holding(max_offset: int, min_offset: int = 0, stored_at_ms: int = 1_000) -> QueueBounds:
    return QueueBounds(min_offset, max_offset, stored_at_ms)


@dataclass
class Wish:
    """A graceful stop that is asked for, or not."""

    is_wanted: bool = False
    is_answered: bool = False

    def is_made(self) -> bool:
        return self.is_wanted

    def claim(self) -> bool:
        return self.is_wanted

    def answer(self) -> None:
        self.is_answered = True


def planner(member: SteadyMember, *, drain: Wish | None = None, **given: str) -> BatchPlanner:
    member.join(options(**given))
    return BatchPlanner(member, options(**given), drain or Wish(), member.clock)


def read(subject: BatchPlanner, start: SourceOffset, limit: int | None = None) -> tuple[SourceOffset, list[QueueRange]]:
    """One micro-batch: its end, and what it reads."""
    end = subject.latest_offset(start, limit)
    return end, list(end.ranges()) if end is not start else []


class KnownLater(SteadyMember):
    """At first something about the topic is not known; then time passes, and it is."""

    stored_before: dict[MessageQueue, int] | None = None

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.stored_before = self.stored
        self.silent = set()
        self.is_complete, self.not_searching, self.not_confirming = True, set(), set()
        return True


# ---------------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("stored", [20, 60])
def test_broadcasting_goes_on_at_the_checkpoint_whatever_the_file_says_and_corrects_it(stored: int) -> None:
    """Who restores an old checkpoint gets what came after it again."""
    member = SteadyMember({A: holding(100), B: holding(50)}, stored={A: stored, B: 10})
    subject = planner(member, messageModel="BROADCASTING", instanceName="one")
    _, ranges = read(subject, SourceOffset({A: QueueProgress(30, 40, 1_000)}))
    assert ranges == [QueueRange(A, 40, 100), QueueRange(B, 10, 50)]
    assert member.in_file == {A: 40, B: 10}


def test_broadcasting_says_where_the_file_goes_on_and_nothing_of_what_brokers_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = SteadyMember({A: holding(100), B: holding(50)}, stored={B: 10})
    subject = planner(member, messageModel="BROADCASTING", instanceName="one")
    with caplog.at_level(logging.INFO, "rocketmq_spark.source"):
        read(subject, SourceOffset())
        read(planner(member, messageModel="BROADCASTING", instanceName="one"), reached((A, 40)))
    (line,) = caplog.messages
    assert line.startswith("going on where this query's file is, of which the checkpoint knows nothing")


def test_a_topic_made_anew_is_recognised_though_it_has_outgrown_the_checkpoint() -> None:
    """Its message before our position was stored later than that position was planned."""
    member = SteadyMember({A: holding(100, stored_at_ms=9_000)}, stored={A: 40}, stored_after={A: 0})
    start = SourceOffset({A: QueueProgress(30, 40, 5_000)})
    with pytest.raises(DataLossError, match=r"brokers any more: \[0, 40\) .* created again"):
        planner(member).latest_offset(start, None)
    _, ranges = read(planner(member, failOnDataLoss="false"), start)
    assert ranges == [QueueRange(A, 0, 100)]
    assert member.stored == {A: 0}


def test_an_operators_reset_wins_over_checkpoint_and_group() -> None:
    member = SteadyMember({A: holding(100), B: holding(100)}, stored={A: 100, B: 100}, resets={A: 20})
    subject, start = planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000), B: QueueProgress(90, 100, 1_000)})
    end, ranges = read(subject, start)
    assert ranges == [QueueRange(A, 20, 100)]
    assert member.stored == {A: 20, B: 100}
    assert subject.latest_offset(end, None) is end


@pytest.mark.parametrize(("offset", "position"), [(2, 4), (4, 4), (10, 10), (500, 10)])
def test_a_reset_leads_to_what_the_queue_has(offset: int, position: int) -> None:
    held = holding(10, min_offset=4)
    member = SteadyMember({A: held}, stored={A: 7}, resets={A: offset})
    subject = planner(member)
    subject.latest_offset(SourceOffset({A: QueueProgress(7, 7, 1_000)}), 0)
    assert (subject.backlog.lag, member.stored) == ({A: 10 - position}, {A: position})


def test_a_reset_of_a_queue_of_another_member_is_left_to_that(caplog: pytest.LogCaptureFixture) -> None:
    member = SteadyMember(
        {A: holding(9), B: holding(9)}, stored={A: 9, B: 9}, resets={B: 3}, not_owned={B}, has_news=True
    )
    subject, start = planner(member), SourceOffset({A: QueueProgress(9, 9, 1_000), B: QueueProgress(9, 9, 1_000)})
    assert subject.latest_offset(start, None) is start
    assert member.stored == {A: 9, B: 9}
    member.not_owned = set()
    assert subject.latest_offset(start, None) is start
    assert "reset" not in caplog.text


def test_an_operators_reset_whose_mark_an_executor_has_taken_is_obeyed_by_a_running_query() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.hold(A, holding(14))
    end, _ = read(subject, end)
    member.store(A, 2)
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 2, 14)]
    assert member.stored == {A: 2}


def test_a_reset_that_is_pending_holds_up_no_graceful_stop() -> None:
    member, drain = SteadyMember({A: holding(10)}, has_news=True), Wish()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset(), limit=4)
    end, _ = read(subject, end, limit=4)
    member.store(A, 2)
    drain.is_wanted = True
    assert subject.latest_offset(end, None) is end
    assert (member.stored, drain.is_answered) == ({A: 2}, True)


def test_a_reset_of_a_queue_whose_broker_does_not_answer_is_obeyed_when_it_does() -> None:
    held = {A: holding(100), ELSEWHERE: holding(9)}
    member = KnownLater(held, stored={A: 100, ELSEWHERE: 9}, resets={A: 20, ELSEWHERE: 3})
    start = SourceOffset({A: QueueProgress(90, 100, 1_000), ELSEWHERE: QueueProgress(0, 9, 1_000)})
    subject = planner(member)
    member.silent, member.not_confirming = {"broker-b"}, {A}
    _, ranges = read(subject, start)
    assert member.stored_before == {A: 100, ELSEWHERE: 9}
    assert ranges == [QueueRange(A, 20, 100), QueueRange(ELSEWHERE, 3, 9)]


def test_a_mark_that_is_found_before_a_batch_is_read_again_is_obeyed_after_it() -> None:
    member = SteadyMember({A: holding(100)}, stored={A: 20}, marks={A: 20})
    subject, replayed = planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000), B: QueueProgress(5, 5)})
    subject.recover(replayed, [])
    assert member.marks == {}, "the pulls of the batch would have taken it, and nobody have been told"
    _, ranges = read(subject, replayed)
    assert ranges == [QueueRange(A, 20, 100)]


def test_a_batch_that_is_read_again_is_pulled_from_where_its_broker_was_surveyed() -> None:
    member = SteadyMember({A: holding(100)})
    subject = planner(member)
    member.observed.survey()
    subject.recover(SourceOffset({A: QueueProgress(90, 100, 1_000)}), [])
    assert subject.masters["broker-a"] == ADDRESS


def half_deleted() -> tuple[SteadyMember, SourceOffset, list[QueueRange]]:
    """A batch that is logged, of which retention has taken something of each queue since."""
    replayed = SourceOffset({A: QueueProgress(10, 30, 1_000), B: QueueProgress(0, 9, 1_000)})
    member = SteadyMember({A: holding(30, min_offset=20), B: holding(9, min_offset=5)}, stored={A: 10, B: 0})
    return member, replayed, list(replayed.ranges())


def test_what_was_deleted_of_a_batch_before_it_is_read_again_is_one_error() -> None:
    member, replayed, wanted = half_deleted()
    with pytest.raises(DataLossError, match=r" 15 offsets .* \[10, 20\) of orders@broker-a:0, \[0, 5\) of "):
        planner(member).recover(replayed, wanted)


def test_or_one_line_and_the_tasks_know_that_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    member, replayed, wanted = half_deleted()
    subject = planner(member, failOnDataLoss="false")
    assert [str(lost) for lost in subject.recover(replayed, wanted)] == [f"[10, 20) of {A}", f"[0, 5) of {B}"]
    assert sum("15 offsets are lost" in line for line in caplog.messages) == 1
    assert subject.losses.offsets == 15


def test_what_is_given_up_of_it_is_not_lost() -> None:
    member, replayed, wanted = half_deleted()
    with pytest.raises(DataLossError, match=rf" 5 offsets .*: \[0, 5\) of {B}: "):
        planner(member).recover(replayed, wanted[1:])


def test_a_reset_to_the_range_of_the_last_batch_moves_back_before_it_reads() -> None:
    """The end offset was equal to the start's, to the letter; Spark took that for 'no new data' and read nothing."""
    member = SteadyMember({A: holding(5)}, stored={A: 5}, resets={A: 0})
    subject, start = planner(member), SourceOffset({A: QueueProgress(0, 5, 1_000)})
    back, ranges = read(subject, start)
    assert back != start
    assert ranges == []
    again, ranges = read(subject, back)
    assert ranges == [QueueRange(A, 0, 5)]
    assert subject.latest_offset(again, None) is again


def test_what_was_stored_since_the_checkpoint_is_no_sign_of_another_topic() -> None:
    member = SteadyMember({A: holding(100, stored_at_ms=9_000)}, stored={A: 40}, stored_after={A: 40})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(30, 40, 5_000)}))
    assert ranges == [QueueRange(A, 40, 100)]


def test_what_is_planned_keeps_the_store_time_that_is_known_where_a_clock_was_put_back() -> None:
    member = SteadyMember({A: holding(20)}, stored={A: 10})
    member.store_times(A, *[5_000] * 10, *[2_000] * 10)
    end, _ = read(planner(member), SourceOffset({A: QueueProgress(5, 10, 5_000)}))
    assert end.queues == {A: QueueProgress(10, 20, 5_000)}


def test_a_commit_of_another_member_since_the_survey_is_no_sign_of_a_lost_queue() -> None:
    """The bounds were asked before the group's offset, and a ghost committed in between: its commit lay beyond
    them, and the planner took the topic for a new one of the same name."""
    member = SteadyMember({A: holding(100)}, stored={A: 95})
    subject = planner(member)

    def a_ghost_reads_on() -> None:
        member.hold(A, holding(110))
        member.store(A, 105)

    member.observed.after_survey = a_ghost_reads_on
    _, ranges = read(subject, SourceOffset({A: QueueProgress(90, 100, 1_000)}))
    assert ranges == [QueueRange(A, 105, 110)]


def test_the_first_batch_reads_from_the_first_positions_on() -> None:
    member = SteadyMember({A: holding(10, min_offset=4), B: holding(20)})
    _, ranges = read(planner(member), SourceOffset())
    assert ranges == [QueueRange(A, 4, 10), QueueRange(B, 0, 20)]
    assert member.stored == {A: 4, B: 0}
    assert member.observed.taken[-1] == {A: (4, 10), B: (0, 20)}


def test_latest_starts_at_the_end_and_says_so_in_the_first_offset() -> None:
    """Nothing else would remember it: what is stored before the next start of the query would be skipped."""
    member = SteadyMember({A: holding(10)})
    end, ranges = read(planner(member, startingOffsets="latest"), SourceOffset())
    assert ranges == []
    assert end.queues == {A: QueueProgress(10, 10, 1_000)}
    assert member.stored == {A: 10}


def test_a_time_starts_every_queue_with_its_first_message_since_then() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B}, stored_after={A: 7})
    _, ranges = read(planner(member, startingTimestamp="5000"), SourceOffset())
    assert ranges == [QueueRange(A, 7, 10)]
    assert member.stored == {A: 7, B: 20}


@pytest.mark.parametrize(
    "unknown",
    [{"is_complete": False}, {"not_searching": {B}}, {"not_confirming": {B}}],
    ids=lambda unknown: next(iter(unknown)),
)
def test_the_first_call_waits_until_it_is_settled_where_the_topic_begins(unknown: dict[str, Any]) -> None:
    """It used to answer an empty offset. Spark ran an empty batch with it, and what was sent after that batch was
    before the beginning."""
    member = KnownLater({A: holding(10), B: holding(20)}, stored_after={A: 7}, **unknown)  # B: none, its end
    _, ranges = read(planner(member, startingTimestamp="5000"), SourceOffset())
    assert member.stored_before is not None
    assert B not in member.stored_before
    assert ranges == [QueueRange(A, 7, 10)]
    assert member.stored == {A: 7, B: 20}


def test_a_first_call_that_waits_is_ended_by_a_graceful_stop() -> None:
    class Stopped(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            drain.is_wanted = True
            return False

    member, drain, start = Stopped({A: holding(10)}, is_complete=False), Wish(), SourceOffset()
    assert planner(member, drain=drain).latest_offset(start, None) is start
    assert (member.has_left, member.stored) == (True, {})


def test_a_first_call_without_a_queue_of_its_own_does_not_wait() -> None:
    member, start = SteadyMember({A: holding(10)}, not_owned={A}), SourceOffset()
    assert planner(member).latest_offset(start, None) is start
    assert member.stored == {A: 0}


def test_first_positions_are_written_for_queues_of_others_too() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B})
    read(planner(member, startingOffsets="latest"), SourceOffset())
    assert member.stored == {A: 10, B: 20}


def test_the_next_batch_reads_on_and_proves_the_one_before() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(15))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 15)]
    assert member.observed.proven == {A: 10}


def test_each_queue_is_proven_once_while_it_is_ours() -> None:
    """Where one has become another since, the offset says nothing of that. One that comes later is proven then."""
    member = SteadyMember({A: holding(10), B: holding(10)}, stored={A: 10, B: 10}, not_owned={B}, has_news=True)
    subject, start = planner(member), reached((A, 10), (B, 10))
    proven = []
    for others in ({B}, {B}, {B}, set(), set(), set()):
        member.not_owned, member.observed.proven = others, {}
        assert subject.latest_offset(start, None) is start
        proven.append(set(member.observed.proven))
    assert proven == [{A, B}, {A, B}, {B}, {B}, {B}, set()], "none is held before the first survey"


def test_a_planner_tells_where_queues_were_surveyed_and_how_many_proofs_came_late() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    assert (subject.masters, subject.late_proofs) == ({}, 0)
    end, _ = read(subject, SourceOffset())
    subject.latest_offset(end, None)
    assert (subject.masters["broker-a"], subject.late_proofs) == (ADDRESS, 0)


def test_without_anything_new_the_start_itself_is_answered() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    assert subject.latest_offset(end, None) is end


def test_an_idle_call_asks_nothing() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    subject.latest_offset(end, None)
    surveys = member.observed.surveys
    subject.latest_offset(end, None)
    assert member.observed.surveys == surveys
    member.has_news = True
    subject.latest_offset(end, None)
    assert member.observed.surveys == surveys + 1


def test_what_another_member_has_read_meanwhile_is_not_read_again() -> None:
    member = SteadyMember({A: holding(30)}, stored={A: 20})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(0, 10)}))
    assert ranges == [QueueRange(A, 20, 30)]


def test_the_broker_is_raised_to_where_the_checkpoint_is() -> None:
    member = SteadyMember({A: holding(30)}, stored={A: 5})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(0, 10)}))
    assert ranges == [QueueRange(A, 10, 30)]
    assert member.stored[A] >= 10


def test_a_queue_whose_offset_is_not_confirmed_is_not_planned() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, stored={A: 0, B: 0}, not_confirming={B})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(0, 5), B: QueueProgress(0, 5)}))
    assert ranges == [QueueRange(A, 5, 10)]


def test_queues_of_others_keep_their_last_position_in_the_offset() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, not_owned={B}, stored={B: 9})
    end, _ = read(planner(member), SourceOffset({B: QueueProgress(2, 7, 5)}))
    assert end.queues[B] == QueueProgress(7, 7, 5)


def test_a_queue_that_rests_keeps_the_store_time_of_its_position() -> None:
    """What has been stored since may be another queue's, and would hide that."""
    bounds = {one: holding(10, stored_at_ms=9_000) for one in (A, B)}
    start = SourceOffset(dict.fromkeys((A, B), QueueProgress(5, 5, 1_000)))
    end, ranges = read(planner(SteadyMember(bounds, stored_after={A: 5, B: 5})), start, limit=1)
    (planned,) = ranges
    (resting,) = {A, B} - {planned.queue}
    assert end.queues[resting] == QueueProgress(5, 5, 1_000)


def test_a_queue_that_rests_and_has_no_store_time_yet_gets_one() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, stored={A: 10, B: 4})
    end, ranges = read(planner(member), SourceOffset({A: QueueProgress(10, 10, 0), B: QueueProgress(4, 4, 1_000)}))
    assert ranges == [QueueRange(B, 4, 10)]
    assert end.queues[A] == QueueProgress(10, 10, 1_000)


def test_a_limit_below_one_offset_a_queue_serves_them_in_turn() -> None:
    member = SteadyMember({A: holding(1_000), B: holding(3)})
    subject = planner(member)
    first, first_ranges = read(subject, SourceOffset(), limit=1)
    _, second_ranges = read(subject, first, limit=1)
    assert (first_ranges, second_ranges) == ([QueueRange(A, 0, 1)], [QueueRange(B, 0, 1)])


def test_each_queue_has_its_turn_before_any_has_its_second() -> None:
    """However much waits in some of them."""
    three = queues(3)
    subject = planner(SteadyMember({one: holding(count) for one, count in zip(three, (1_000, 50, 9), strict=True)}))
    end, served = SourceOffset(), []
    for _ in range(6):
        end, (turn,) = read(subject, end, limit=1)
        served.append(turn.queue)
    assert served == [*three, *three]


def test_a_queue_that_was_lost_is_forgotten_and_looked_at_anew_when_it_comes_back() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.not_owned = {B}
    assert subject.latest_offset(end, None) is end
    assert subject.backlog.max_offsets == {A: 10}
    member.not_owned = set()
    member.hold(B, holding(30))
    member.store(B, 25)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 25, 30)]


def test_progress_shows_the_lag_behind_the_max_offsets() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B})
    subject = planner(member)
    read(subject, SourceOffset(), limit=4)
    assert (subject.backlog.max_offsets, subject.backlog.lag) == ({A: 10}, {A: 6})
    assert subject.backlog.waiting_ms(1_700) == {A: 700}


@pytest.mark.parametrize("trouble", [{"silent": {"broker-a"}}, {"away": {B}}])
def test_while_a_queue_of_ours_is_not_heard_of_nobody_knows_the_lag(trouble: dict[str, Any]) -> None:
    """It used to be 0, beside what was waited for."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    knew = subject.backlog.is_whole
    for name, state in trouble.items():
        setattr(member, name, state)
    subject.latest_offset(end, None)
    assert (knew, subject.backlog.is_whole) == (True, False)
    member.silent = member.away = set()
    subject.latest_offset(end, None)
    assert (subject.backlog.is_whole, subject.backlog.lag) == (True, {A: 0, B: 0})


def test_nobody_knows_the_lag_while_the_query_goes_on_without_queues() -> None:
    """It used to be that of the others: 0, whatever waits in those that are away."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, missingQueues="drop")
    end, _ = read(subject, SourceOffset())
    member.away = {B}
    subject.latest_offset(end, None)
    assert (subject.backlog.is_whole, subject.backlog.lag) == (False, {A: 0})
    member.away = set()
    subject.latest_offset(end, None)
    assert (subject.backlog.is_whole, subject.backlog.lag) == (True, {A: 0, B: 0})


def test_a_member_without_a_queue_has_no_lag_and_one_that_has_heard_nothing_does_not_know() -> None:
    member = SteadyMember({A: holding(10)}, not_owned={A}, has_news=True)
    subject = planner(member)
    knew = subject.backlog.is_whole
    read(subject, SourceOffset())
    assert (knew, subject.backlog.is_whole, subject.backlog.lag) == (False, True, {})
    member.silent = {"broker-a"}
    subject.latest_offset(SourceOffset(), None)
    assert not subject.backlog.is_whole


def test_the_lag_of_our_queues_is_known_though_others_are_not_heard_of() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.cluster.set_others("you")
    member.is_complete = False
    assert subject.latest_offset(end, None) is end
    assert not member.observed.survey().is_complete
    assert (subject.backlog.is_whole, subject.backlog.lag) == (True, {A: 0})


def test_bounds_that_no_queue_has_are_neither_a_loss_nor_nothing_new() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(0, min_offset=7))
    assert subject.latest_offset(end, None) is end
    assert (subject.losses.offsets, subject.backlog.is_whole) == (0, False)
    assert "IMPOSSIBLE_BOUNDS" in member.observed.publish().waits[0].cause


def test_a_graceful_stop_proves_the_last_batch_plans_nothing_new_and_leaves() -> None:
    member, drain = SteadyMember({A: holding(10)}), Wish()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(20))
    drain.is_wanted = True
    assert subject.latest_offset(end, None) is end
    assert member.observed.proven == {A: 10}
    assert (member.has_left, drain.is_answered) == (True, True)


def test_a_graceful_stop_that_waits_for_a_broker_asks_only_when_there_is_something_to_ask() -> None:
    """It used to survey five times a second."""
    member, drain = SteadyMember({A: holding(10)}), Wish()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    drain.is_wanted, member.not_confirming, surveys = True, {A}, member.observed.surveys
    for _ in range(5):
        assert subject.latest_offset(end, None) is end
    assert member.observed.surveys == surveys


def test_a_run_that_ends_by_itself_is_not_over_before_what_it_has_read_is_confirmed() -> None:
    member, drain = KnownLater({A: holding(10)}), Wish()
    subject = planner(member, drain=drain)
    subject.stop_at_what_is_there()
    end, _ = read(subject, SourceOffset())
    drain.is_wanted, member.not_confirming = True, {A}
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}


def test_a_graceful_stop_that_waits_for_a_broker_looks_for_no_losses_in_what_it_will_not_read() -> None:
    member, drain = SteadyMember({A: holding(10)}, has_news=True), Wish()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    drain.is_wanted, member.not_confirming = True, {A}
    member.hold(A, holding(20, min_offset=15))
    assert subject.latest_offset(end, None) is end


class WithdrawnAtLast(Wish):
    def claim(self) -> bool:
        self.is_wanted = False
        return False


def test_a_first_call_plans_when_the_wish_to_stop_it_gracefully_is_withdrawn() -> None:
    """An AvailableNow run would be over, with nothing."""
    subject = planner(SteadyMember({A: holding(10)}), drain=WithdrawnAtLast(is_wanted=True))
    subject.stop_at_what_is_there()
    assert read(subject, SourceOffset())[1] == [QueueRange(A, 0, 10)]


def test_a_query_goes_on_when_the_wish_to_stop_it_gracefully_is_withdrawn() -> None:
    member, drain = SteadyMember({A: holding(10)}), WithdrawnAtLast()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(20))
    drain.is_wanted = True
    assert subject.latest_offset(end, None) is end
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 20)]
    assert not member.has_left


# ---------------------------------------------------------------------------------------------------- losses


def test_what_retention_took_fails_the_query() -> None:
    member = SteadyMember({A: holding(30, min_offset=20)}, stored={A: 10})
    with pytest.raises(DataLossError, match=r"\[10, 20\) of orders@broker-a:0.*retention"):
        planner(member).latest_offset(SourceOffset(), None)


def test_what_retention_took_of_several_queues_is_one_error_with_all_of_them() -> None:
    """It used to name the first queue only."""
    member = SteadyMember({A: holding(30, min_offset=20), B: holding(9, min_offset=5)}, stored={A: 10, B: 0})
    with pytest.raises(DataLossError, match=r" 15 offsets .* \[10, 20\) of orders@broker-a:0, \[0, 5\) of "):
        planner(member).latest_offset(SourceOffset(), None)


def test_what_is_passed_over_is_one_line_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    member = SteadyMember({A: holding(30, min_offset=20), B: holding(9, min_offset=5)}, stored={A: 10, B: 0})
    subject = planner(member, failOnDataLoss="false")
    read(subject, SourceOffset())
    (line,) = (line for line in caplog.messages if "lost" in line)
    ranges = f"[10, 20) of {A}, [0, 5) of {B}: the broker deleted them (retention)"
    assert line == f"15 offsets are lost, what they held is in no output: {ranges}"
    assert (subject.losses.offsets, subject.losses.ranges) == (15, 2)


def test_what_retention_took_is_passed_over_and_logged_where_the_user_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = SteadyMember({A: holding(30, min_offset=20)}, stored={A: 10})
    _, ranges = read(planner(member, failOnDataLoss="false"), SourceOffset())
    assert ranges == [QueueRange(A, 20, 30)]
    assert member.stored == {A: 20}
    assert "[10, 20) of orders@broker-a:0" in caplog.text


def test_after_a_queue_lost_its_end_reading_goes_on_there_and_only_there() -> None:
    """A killed broker may lose messages and keep the group's offset. The group's 100 used to be found too large again
    with each new message, until the queue had grown so far: it was read from its beginning each time."""
    member = SteadyMember({A: holding(50, stored_at_ms=900)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    end, ranges = read(subject, SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert ranges == []
    assert end.queues[A].end_offset == 50, "else a restart finds the larger number again"
    assert member.stored == {A: 50}
    member.hold(A, holding(51, stored_at_ms=2_000))
    member.has_news = True
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 50, 51)]


def test_a_queue_that_was_made_anew_is_read_once_from_its_beginning() -> None:
    member = SteadyMember({A: holding(10, stored_at_ms=2_000)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    end, ranges = read(subject, SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert ranges == [QueueRange(A, 0, 10)]
    member.hold(A, holding(12, stored_at_ms=3_000))
    member.has_news = True
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]
    assert member.stored == {A: 10}


def test_a_queue_whose_offset_could_not_be_lowered_is_not_planned() -> None:
    class Stopped(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            wish.is_wanted = True
            return False

    wish = Wish()
    member = Stopped({A: holding(10, stored_at_ms=2_000)}, stored={A: 100}, not_confirming={A})
    start = SourceOffset({A: QueueProgress(0, 100, 1_000)})
    assert planner(member, drain=wish, failOnDataLoss="false").latest_offset(start, None) is start
    assert wish.is_answered


def test_a_queue_that_was_made_anew_stays_so_until_its_offset_could_be_lowered() -> None:
    """It used to count as verified all the same; the next plan went on at the old position, past new messages."""
    held = {A: holding(150, stored_at_ms=2_000)}
    member = KnownLater(held, stored_after={A: 0}, stored={A: 100}, not_confirming={A})
    _, ranges = read(planner(member, failOnDataLoss="false"), SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert member.stored_before == {A: 100}
    assert ranges == [QueueRange(A, 0, 150)]


# ------------------------------------------------------------------------------------ another queue of the same name


@pytest.mark.parametrize("count", [4, 10, 14])
def test_a_topic_made_anew_while_the_query_runs_is_read_from_its_first_message(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether or not it has outgrown our position by then. The first messages used to be skipped, without a word."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.make_anew(A, count)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, count)]
    assert member.stored == {A: 0}
    assert f"[0, 10) of {A}" in caplog.text
    assert "created again" in caplog.text


@pytest.mark.parametrize(("count", "told"), [(4, "begins anew"), (10, "begins anew"), (14, "created again")])
def test_on_rocketmq_4_a_topic_made_anew_while_the_query_runs_is_read_from_its_first_message(
    count: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps the group's offset of a topic that is deleted: 8 of 24 messages were once skipped, without a word. One
    that is not longer than before looks as after ``cleanExpiredCQ``, which loses nothing."""
    member = SteadyMember({A: holding(10)}, has_news=True, version=OLD_VERSION)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}
    member.make_anew(A, count)
    assert member.stored == {A: 10}
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, count)]
    assert member.stored == {A: 0}
    assert told in caplog.text


@pytest.mark.parametrize("count", [4, 14])
def test_broadcasting_a_topic_made_anew_while_the_query_runs_is_read_from_its_first_message(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The query's own file keeps the offset of a topic that is deleted: 8 of 24 messages were once skipped."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false", messageModel="BROADCASTING", instanceName="one")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.make_anew(A, count)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, count)]
    assert "created again" in caplog.text


@pytest.mark.parametrize("count", [4, 10, 14])
def test_a_topic_made_anew_while_the_query_runs_fails_it_where_that_is_wanted(count: int) -> None:
    """And nobody finds the old number at the broker, to take it for a place in the new topic."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.make_anew(A, count)
    with pytest.raises(DataLossError, match=r"\[0, 10\) .* created again"):
        subject.latest_offset(end, None)
    assert member.stored == {}


def test_what_was_confirmed_of_the_old_topic_keeps_no_proof_of_the_new_one_back() -> None:
    """Another member had begun the new one, so there was nothing to be lowered: the group stood at 0 until 10 was
    passed, and its next owner read all of it again."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.make_anew(A, 4)
    member.restart()
    member.store(A, 0)
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 4)]
    subject.latest_offset(end, None)
    assert member.stored == {A: 4}


def test_a_tail_that_was_lost_and_got_again_is_read_from_where_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    """An unclean fail-over. The group's offset is still there, and the queue is longer than before."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.restart(lost_messages=4)
    member.hold(A, holding(12, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 6, 12)]
    assert member.stored == {A: 6}
    assert f"[6, 10) of {A}" in caplog.text
    assert "lost the end" in caplog.text


def test_a_tail_that_was_lost_and_got_again_since_the_survey_is_read_from_where_it_begins() -> None:
    """The survey saw a queue without its end, so there was nothing to look at; and a moment later it was as long."""
    member = SteadyMember({A: holding(95)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    member.observed.after_survey = lambda: member.hold(A, holding(110, stored_at_ms=9_000))
    _, ranges = read(subject, SourceOffset({A: QueueProgress(90, 100, 1_000)}))
    assert ranges == [QueueRange(A, 95, 110)]


def test_a_topic_made_anew_begins_with_its_first_message_though_that_came_a_moment_later() -> None:
    member = SteadyMember({A: holding(14)}, stored={A: 10})
    member.store_times(A, 5_001, *[9_000] * 13)
    subject = planner(member, failOnDataLoss="false")
    _, ranges = read(subject, SourceOffset({A: QueueProgress(0, 10, 5_000)}))
    assert ranges == [QueueRange(A, 0, 14)]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_topic_made_anew_before_its_last_batch_was_proven_is_found_though_others_have_begun_it(is_away: bool) -> None:
    """Nothing but the proof shows it: the bounds have only grown, and the group has an offset. It may be away then."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.make_anew(B, 14)
    member.store(B, 3)
    if is_away:
        member.away = {B}
        assert subject.latest_offset(end, None) is end
        member.away = set()
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 0, 14)]


def test_a_queue_that_comes_back_from_another_member_is_looked_at_anew() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.not_owned = {B}
    assert subject.latest_offset(end, None) is end
    member.make_anew(B, 14)
    member.store(B, 12)
    member.not_owned = set()
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 0, 14)]


def test_a_broker_that_falls_silent_while_its_queue_is_looked_at_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = SteadyMember({A: holding(10), ELSEWHERE: holding(9)}, stored={A: 4, ELSEWHERE: 12})
    subject = planner(member, failOnDataLoss="false")
    keeper = member.observed.offsets.keeper
    ask = keeper.stored_offsets
    asked: list[set[MessageQueue]] = []

    def ask_at_last(those: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The first question is where the topic begins."""
        asked.append(set(those))
        answers = ask(asked[-1])
        if asked.count({A, ELSEWHERE}) == 2:
            member.cluster.brokers["broker-b"].reach = Reach.SILENT
        return answers

    monkeypatch.setattr(keeper, "stored_offsets", ask_at_last)
    _, ranges = read(subject, SourceOffset({A: QueueProgress(0, 4, 1_000), ELSEWHERE: QueueProgress(0, 12, 1_000)}))
    assert asked.count({A, ELSEWHERE}) == 2
    assert ranges == [QueueRange(A, 4, 10)]


def test_a_queue_that_could_not_be_looked_at_is_not_planned_beside_one_that_has_lost_its_end() -> None:
    member = SteadyMember({A: holding(95), ELSEWHERE: holding(14)}, stored={A: 100, ELSEWHERE: 9})
    subject = planner(member, failOnDataLoss="false")
    member.observed.after_survey = lambda: member.hold(A, holding(110, stored_at_ms=9_000))
    member.cluster.brokers["broker-b"].look_refusal = BrokerError(
        "BROKER_REFUSED", address="b:1", request="PULL_MESSAGE", code=1, code_name="SYSTEM_ERROR", remark="later"
    )
    start = SourceOffset({A: QueueProgress(90, 100, 1_000), ELSEWHERE: QueueProgress(0, 9, 1_000)})
    _, ranges = read(subject, start)
    assert ranges == [QueueRange(A, 95, 110)]


def test_a_tail_that_was_lost_and_is_shorter_than_before_is_read_from_where_it_begins() -> None:
    """It used to be taken for another topic, and read from its first message."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.restart(lost_messages=4)
    member.hold(A, holding(8, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 6, 8)]


def test_a_topic_made_anew_is_found_after_queues_were_away_or_silent() -> None:
    """Its offset need not have vanished: another member may have written one since."""
    for trouble in ({"away": {A}}, {"silent": {"broker-a"}}):
        member = SteadyMember({A: holding(10)}, has_news=True)
        subject = planner(member, failOnDataLoss="false")
        end, _ = read(subject, SourceOffset())
        for name, value in trouble.items():
            setattr(member, name, value)
            assert subject.latest_offset(end, None) is end
            setattr(member, name, set())
        member.make_anew(A, 14)
        member.store(A, 10)
        _, ranges = read(subject, end)
        assert ranges == [QueueRange(A, 0, 14)]


def test_queues_whose_broker_did_not_have_them_are_looked_for_again_without_any_news() -> None:
    """Brokers had exchanged addresses and were back where they were a moment later; the query stood still until the
    limit of 300 s, because nothing had changed since."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.away = {A}
    assert subject.latest_offset(end, None) is end
    member.away = set()
    member.hold(A, holding(14))
    member.has_news = False
    assert subject.latest_offset(end, None) is end
    member.clock.advance(ASKING.longest_ms)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 14)]


def test_a_queue_is_not_planned_before_it_is_known_whether_it_is_the_same() -> None:
    member = KnownLater({A: holding(20)}, stored={A: 10}, not_searching={A})
    subject, start = planner(member), SourceOffset({A: QueueProgress(0, 10, 1_000)})
    _, ranges = read(subject, start)
    assert member.stored_before == {A: 10}
    assert ranges == [QueueRange(A, 10, 20)]


def test_a_queue_is_not_planned_before_it_is_known_where_the_other_one_begins() -> None:
    class SearchesLater(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            return True

    member = SearchesLater({A: holding(10)})
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.make_anew(A, 4)
    member.not_searching = {A}
    assert subject.latest_offset(end, None) is end
    assert member.stored == {}
    member.not_searching = set()
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 4)]


@pytest.mark.parametrize(("is_other", "begin"), [(False, 10), (True, 6)])
def test_where_the_last_message_that_was_read_cannot_be_seen_a_search_tells(is_other: bool, begin: int) -> None:
    """Compaction takes single messages; nor may a queue wait for ever for what is not there."""
    member = SteadyMember({A: holding(20)}, stored={A: 10})
    member.store_times(A, *[1_000] * (6 if is_other else 10), *[9_000] * (14 if is_other else 10))
    member._broker(A).compacted.add((A, 9))
    start = SourceOffset({A: QueueProgress(0, 10, 1_000)})
    _, ranges = read(planner(member, failOnDataLoss="false"), start)
    assert ranges == [QueueRange(A, begin, 20)]


def test_a_broker_that_refuses_pulls_is_waited_for_and_then_named() -> None:
    class TimePasses(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            self.clock.advance(1_000)
            return super().wait_for_news(positions, timeout_ms)

    member = TimePasses({A: holding(20)}, stored={A: 10}, has_news=True)
    member.cluster.brokers["broker-a"].look_refusal = BrokerError(
        "BROKER_REFUSED", address=ADDRESS, request="PULL_MESSAGE", code=16, code_name="NO_PERMISSION", remark="no"
    )
    subject, start = planner(member, clusterTimeoutMs="60000"), SourceOffset({A: QueueProgress(0, 10, 1_000)})
    began_ms = member.clock()
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        subject.latest_offset(start, None)
    assert member.clock() - began_ms >= 60_000


def test_a_broker_that_was_killed_and_forgot_commits_is_no_other_one() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.restart()
    member.store(A, 4)
    member.hold(A, holding(12, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]


def test_offsets_that_an_operator_has_deleted_are_no_sign_of_another_topic() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member._broker(A).offsets.clear()
    member.hold(A, holding(12, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]
    assert member.stored == {A: 10}


@pytest.mark.parametrize("is_available_now", [False, True])
def test_an_offset_that_has_vanished_is_written_again_though_nothing_new_comes(is_available_now: bool) -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    if is_available_now:
        subject.stop_at_what_is_there()
    end, _ = read(subject, SourceOffset())
    member._broker(A).offsets.clear()
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}


def test_offsets_that_have_vanished_are_written_again_before_a_graceful_stop() -> None:
    member, drain = SteadyMember({A: holding(10)}, has_news=True), Wish()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset(), limit=4)
    end, _ = read(subject, end, limit=4)
    member._broker(A).offsets.clear()
    drain.is_wanted = True
    for _ in range(2):
        assert subject.latest_offset(end, None) is end
    assert (member.stored, drain.is_answered) == ({A: 8}, True)


@pytest.mark.parametrize("has_restarted", [False, True])
def test_what_retention_has_deleted_after_it_was_read_is_no_sign_of_another_topic(has_restarted: bool) -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    if has_restarted:
        member.restart()
    member.hold(A, holding(10, min_offset=10, stored_at_ms=0))
    assert subject.latest_offset(end, None) is end
    member.hold(A, holding(13, min_offset=10, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 13)]


def test_what_is_known_of_a_queue_outlives_retention() -> None:
    """It used to be forgotten with the last message, and the next start missed the first messages of a new topic."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(10, min_offset=10, stored_at_ms=0))
    member.hold(B, holding(12, stored_at_ms=2_000))
    end, _ = read(subject, end)
    assert end.queues[A] == QueueProgress(10, 10, 1_000)
    member.make_anew(A, 14)
    _, ranges = read(planner(member, failOnDataLoss="false"), end)
    assert ranges == [QueueRange(A, 0, 14)]


def test_a_queue_that_was_empty_when_it_was_met_is_known_from_another_of_its_name() -> None:
    """No broker tells a store time of it: the next start took the new topic's first messages for what retention had
    deleted."""
    member = SteadyMember({A: holding(10, min_offset=10, stored_at_ms=-1), B: holding(10)}, has_news=True)
    end, _ = read(planner(member, failOnDataLoss="false"), SourceOffset())
    assert end.queues[A][:2] == (10, 10)
    member.make_anew(A, 14)
    _, ranges = read(planner(member, failOnDataLoss="false"), end)
    assert ranges == [QueueRange(A, 0, 14)]


def test_a_queue_that_was_empty_when_it_was_met_is_the_same_when_it_has_grown() -> None:
    member = SteadyMember({A: holding(10, min_offset=10, stored_at_ms=-1), B: holding(10)}, has_news=True)
    end, _ = read(planner(member), SourceOffset())
    member.hold(A, holding(13, min_offset=10, stored_at_ms=9_000))
    end, ranges = read(planner(member), end)
    assert ranges == [QueueRange(A, 10, 13)]
    assert end.queues[A] == QueueProgress(10, 13, 9_000)


@pytest.mark.parametrize("is_new_start", [False, True])
def test_a_clock_that_was_put_back_is_no_sign_of_another_topic(is_new_start: bool) -> None:
    """It was, at each restart; or everything was read twice."""
    member = SteadyMember({A: holding(10, stored_at_ms=5_000)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    for count, stored_ms in (
        (15, [2_000] * 5),
        (18, [2_000] * 5 + [2_500] * 3),
        (20, [2_000] * 5 + [2_500] * 3 + [6_000] * 2),
    ):
        member.store_times(A, *[5_000] * 10, *stored_ms)
        subject = planner(member) if is_new_start else subject
        end, ranges = read(subject, end)
        assert [one.end_offset for one in ranges] == [count]


def test_a_backlog_in_which_a_clock_was_put_back_is_no_sign_of_another_topic() -> None:
    member = SteadyMember({A: holding(20)}, has_news=True)
    member.store_times(A, *[5_000] * 10, *[2_000] * 10)
    end, _ = read(planner(member), SourceOffset(), limit=5)
    _, ranges = read(planner(member), end)
    assert ranges == [QueueRange(A, 5, 20)]


def test_a_queue_that_was_emptied_after_it_had_been_read_begins_anew_without_a_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``mqadmin cleanExpiredCQ`` lets a queue begin at 0 again once retention has deleted all of it. The group's offset
    stays what it was."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.hold(A, holding(10, min_offset=10, stored_at_ms=0))
    assert subject.latest_offset(end, None) is end
    member.store_times(A)
    member.hold(A, holding(0))
    end, ranges = read(subject, end)
    assert (ranges, end.queues[A], member.stored) == ([], QueueProgress(0, 0, 1_000), {A: 0})
    assert "orders@broker-a:0 was emptied" in caplog.text
    member.hold(A, holding(3, stored_at_ms=9_000))
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 3)]


def test_a_queue_that_was_emptied_and_filled_again_begins_anew_without_a_loss() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.store_times(A, 9_000, 9_000)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 2)]


def test_a_queue_that_was_emptied_before_it_had_been_read_has_lost_something() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset(), limit=6)
    member.store_times(A)
    with pytest.raises(DataLossError, match=r"\[0, 6\)"):
        subject.latest_offset(end, None)


def test_a_loss_that_ends_the_query_leaves_the_group_s_offset_to_whoever_looks_into_it() -> None:
    member = SteadyMember({A: holding(10, stored_at_ms=9_000)}, stored={A: 40})
    with pytest.raises(DataLossError):
        planner(member).latest_offset(SourceOffset({A: QueueProgress(40, 40, 5_000)}), None)
    assert member.stored == {A: 40}


def test_a_queue_that_was_emptied_while_the_broker_was_away_may_have_lost_something() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.restart()
    member.store_times(A)
    with pytest.raises(DataLossError, match=r"\[0, 10\)"):
        subject.latest_offset(end, None)


# ---------------------------------------------------------------------------------------------------- missing queues


def test_queues_that_are_away_keep_their_position_and_are_read_on_from_there() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.away, member.has_news = {B}, True
    member.hold(A, holding(15))
    member.away = {B}
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 15)]
    assert end.queues[B] == QueueProgress(10, 10, 1_000)
    member.hold(B, holding(17))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 10, 17)]


def test_a_query_rests_while_all_that_it_has_read_may_be_dropped_whoever_else_is_silent() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, away={A, B}, is_complete=False)
    start = SourceOffset(dict.fromkeys((A, B), QueueProgress(10, 10, 1_000)))
    assert planner(member, missingQueues="drop").latest_offset(start, None) is start


def test_queues_that_stay_away_end_the_query_though_nothing_else_happens() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)})
    clock, subject = member.clock, planner(member, missingQueuesTimeoutMs="60000")
    end, _ = read(subject, SourceOffset())
    member.away = {B}
    assert subject.latest_offset(end, None) is end
    clock.advance(59_999)
    assert subject.latest_offset(end, None) is end
    clock.advance(1)
    with pytest.raises(
        RouteError, match=rf"QUEUES_MISSING.*60000 ms: orders@broker-a:1 at offset 10, last at {ADDRESS}"
    ):
        subject.latest_offset(end, None)


def test_queues_that_are_back_when_the_limit_is_reached_end_nothing() -> None:
    """The last survey knew them as away; nothing had been asked since."""

    class BackInTime(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            self.clock.advance(60_000)
            self.away = set()
            return super().wait_for_news(positions, timeout_ms)

    member, start = BackInTime({A: holding(10)}, stored={A: 10}, away={A}), reached((A, 10))
    assert planner(member, missingQueuesTimeoutMs="60000").latest_offset(start, None) is start
    assert member.waits == 1


def test_a_broker_that_was_silent_is_raised_to_where_we_are_when_it_is_back() -> None:
    """A killed broker forgets what was committed in its last seconds; while nothing new came, nobody told it again."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.silent = {"broker-a"}
    assert subject.latest_offset(end, None) is end
    member.silent = set()
    member.cluster.brokers["broker-a"].restart()
    member.store(A, 3)
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}


# ---------------------------------------------------------------------------------------------------- AvailableNow


def survey(*maxima: tuple[MessageQueue, int], is_complete: bool = True) -> Survey:
    return Survey(frozenset(), {one: holding(max_offset) for one, max_offset in maxima}, is_complete)


def reached(*ends: tuple[MessageQueue, int]) -> SourceOffset:
    return SourceOffset({one: QueueProgress(0, end) for one, end in ends})


def test_targets_are_what_the_first_complete_survey_says() -> None:
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey((A, 5), is_complete=False))
    assert targets.offsets == {}
    targets.fix(survey((A, 6), (B, 7)))
    targets.fix(survey((A, 99), (B, 99)))
    assert targets.offsets == {A: 6, B: 7}


def test_nothing_is_reached_before_targets_are_fixed() -> None:
    assert not AvailableNowTargets(0).are_reached(SourceOffset(), {}, now_ms=10**9)


def test_targets_are_reached_by_this_query_or_by_another_member() -> None:
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey((A, 6), (B, 7)))
    assert not targets.are_reached(reached((A, 6)), {B: 6}, now_ms=0)
    assert targets.are_reached(reached((A, 6)), {B: 7}, now_ms=0)


def test_a_target_that_its_queue_does_not_reach_any_more_is_none() -> None:
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey((A, 6), (B, 7)))
    targets.cut({A: QueueBounds(0, 9, 1), B: QueueBounds(0, 2, 1)})
    assert targets.offsets == {A: 6, B: 2}
    targets.cut({})
    assert targets.offsets == {A: 6, B: 2}


def test_no_queue_at_all_is_reached_at_once() -> None:
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey())
    assert targets.are_reached(SourceOffset(), {}, now_ms=0)


def test_the_wait_for_other_members_is_bounded_and_says_whose_it_was(caplog: pytest.LogCaptureFixture) -> None:
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey((A, 6), (B, 7)))
    assert not targets.are_reached(reached((A, 6)), {B: 0}, now_ms=1_000)
    assert not targets.are_reached(reached((A, 6)), {B: 0}, now_ms=1_000 + PATIENCE_MS - 1)
    assert targets.are_reached(reached((A, 6)), {B: 0}, now_ms=1_000 + PATIENCE_MS)
    assert caplog.messages == [f"ending before other members have read {B}"]


def test_all_queues_that_were_not_waited_for_longer_are_told(caplog: pytest.LogCaptureFixture) -> None:
    targets = AvailableNowTargets(0)
    targets.fix(survey((A, 6), (B, 7)))
    assert targets.are_reached(SourceOffset(), {}, now_ms=1_000)
    assert caplog.messages == [f"ending before other members have read {A}, {B}"]


@pytest.mark.parametrize(("checkpoint", "stored"), [(reached((A, 6)), {B: 3}), (reached((A, 6), (B, 3)), {})])
def test_the_wait_starts_anew_while_the_group_moves_on(
    checkpoint: SourceOffset, stored: dict[MessageQueue, int | None]
) -> None:
    """It used to count from the first call that found something missing, however much was read after that."""
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey((A, 6), (B, 7)))
    assert not targets.are_reached(reached((A, 5)), {}, now_ms=0)
    assert not targets.are_reached(checkpoint, stored, now_ms=PATIENCE_MS)
    assert not targets.are_reached(checkpoint, stored, now_ms=2 * PATIENCE_MS - 1)
    assert targets.are_reached(checkpoint, stored, now_ms=2 * PATIENCE_MS)


def test_the_wait_for_other_members_begins_anew_after_a_time_when_nobody_could_go_on() -> None:
    targets = AvailableNowTargets(PATIENCE_MS)
    targets.fix(survey((A, 6), (B, 7)))
    assert not targets.are_reached(reached((A, 6)), {B: 0}, now_ms=0)
    targets.wait(now_ms=PATIENCE_MS)
    assert not targets.are_reached(reached((A, 6)), {B: 0}, now_ms=2 * PATIENCE_MS - 1)
    assert targets.are_reached(reached((A, 6)), {B: 0}, now_ms=2 * PATIENCE_MS)


def test_available_now_reads_to_its_targets_and_ends() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    subject.stop_at_what_is_there()
    end, ranges = read(subject, SourceOffset(), limit=6)
    assert ranges == [QueueRange(A, 0, 6)]
    member.hold(A, holding(500))
    end, ranges = read(subject, end, limit=6)
    assert ranges == [QueueRange(A, 6, 10)]
    assert subject.latest_offset(end, 6) is end
    assert member.stored == {A: 10}, "the last call is a proof too"


def test_available_now_waits_for_other_members_within_limits() -> None:
    class Waiting(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            self.clock.advance(timeout_ms)
            return False

    member = Waiting({A: holding(10), B: holding(10)}, stored={A: 10, B: 4}, not_owned={B})
    clock, subject = member.clock, planner(member, clusterTimeoutMs=str(PATIENCE_MS))
    subject.stop_at_what_is_there()
    start = reached((A, 10))
    assert subject.latest_offset(start, None) is start
    assert PATIENCE_MS <= clock() <= PATIENCE_MS + 1_000


class AwayForAWhile(SteadyMember):
    """Queues that are away come back after ``clusterTimeoutMs`` and more; time passes while the query waits."""

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        if self.clock() < 2 * PATIENCE_MS:
            return False
        self.away = set()
        return True


def available_now(member: AwayForAWhile, **given: str) -> BatchPlanner:
    subject = planner(member, drain=None, clusterTimeoutMs=str(PATIENCE_MS), **given)
    subject.stop_at_what_is_there()
    return subject


def test_available_now_waits_for_queues_that_are_away_and_reads_them() -> None:
    """It would end without them, and say nothing."""
    member = AwayForAWhile({A: holding(10), B: holding(10)}, stored={A: 10, B: 4}, away={B})
    _, ranges = read(available_now(member), reached((A, 10), (B, 4)))
    assert ranges == [QueueRange(B, 4, 10)]


def test_available_now_does_not_end_while_queues_are_away_that_it_has_not_finished() -> None:
    member = AwayForAWhile({A: holding(10), B: holding(10)}, stored={A: 0, B: 0})
    subject = available_now(member)
    end, _ = read(subject, SourceOffset(), limit=8)
    member.away = {B}
    ranges = []
    for _ in range(3):
        end, more = read(subject, end, limit=8)
        ranges += more
    assert ranges == [QueueRange(A, 4, 10), QueueRange(B, 4, 10)]


def test_available_now_ends_without_queues_that_may_be_dropped() -> None:
    member = AwayForAWhile({A: holding(10), B: holding(10)}, stored={A: 4, B: 4}, away={B})
    subject = available_now(member, missingQueues="drop")
    end, ranges = read(subject, reached((A, 4), (B, 4)))
    assert ranges == [QueueRange(A, 4, 10)]
    assert subject.latest_offset(end, None) is end
    assert member.clock() == 0
    assert end.queues[B].end_offset == 4


def test_available_now_ends_though_the_last_batch_of_a_dropped_queue_cannot_be_committed_any_more() -> None:
    """Its topic was deleted while the batch was written, and the group's offset with it. The run never ended."""
    member = AwayForAWhile({A: holding(10)})
    subject = available_now(member, missingQueues="drop")
    end, _ = read(subject, SourceOffset())
    assert end.queues[A].end_offset == 10
    broker = member.cluster.brokers["broker-a"]
    broker.offsets.pop(A, None)
    broker.stored_ms.pop(A)
    member.cluster.name_server_error = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:9876")
    assert subject.latest_offset(end, None) is end


def test_available_now_ends_without_queues_that_are_dropped_on_the_way() -> None:
    member = AwayForAWhile({A: holding(10), B: holding(10)}, stored={A: 0, B: 0})
    subject = available_now(member, missingQueues="drop")
    end, _ = read(subject, SourceOffset(), limit=8)
    member.away = {B}
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 4, 10)]
    assert subject.latest_offset(end, None) is end
    assert member.clock() == 0


def test_available_now_reads_no_queue_that_came_later() -> None:
    member = SteadyMember({A: holding(10)})
    subject = planner(member)
    subject.stop_at_what_is_there()
    end, _ = read(subject, SourceOffset())
    member.hold(B, holding(10))
    assert subject.latest_offset(end, None) is end


class AwayInBetween(SteadyMember):
    """The last queue goes while the query waits for another member, and comes back."""

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        self.away = {queue(2)} if 30_000 <= self.clock() < 50_000 else set()
        return True


def test_available_now_is_patient_with_others_anew_when_queues_were_away() -> None:
    theirs, *others = queues(3)
    member = AwayInBetween(
        dict.fromkeys((theirs, *others), holding(10)),
        stored={theirs: 4, **dict.fromkeys(others, 10)},
        not_owned={theirs},
    )
    subject = planner(member, clusterTimeoutMs=str(PATIENCE_MS))
    subject.stop_at_what_is_there()
    start = reached(*((one, 10) for one in others))
    assert subject.latest_offset(start, None) is start
    assert 50_000 + PATIENCE_MS - 1_000 <= member.clock() <= 50_000 + PATIENCE_MS + 1_000
