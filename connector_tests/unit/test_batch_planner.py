from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queue, queues
from rocketmq_spark.consumer.offset_store import raising
from rocketmq_spark.consumer.ports import Survey
from rocketmq_spark.errors import DataLossError, RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.available_now import AvailableNowTargets
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

A, B = queues(2)
PATIENCE_MS = 60_000
ADDRESS = "10.0.0.1:10911"


@dataclass
class SteadyMember:
    """A member in a cluster where everything answers: the group's offsets and the bounds are what a test says.

    The real one is tried out against a whole simulated cluster, and against a real broker.
    """

    bounds: dict[MessageQueue, QueueBounds]
    later_bounds: dict[MessageQueue, QueueBounds] = field(default_factory=dict)
    first_stored_after: dict[MessageQueue, int] = field(default_factory=dict)
    stored: dict[MessageQueue, int] = field(default_factory=dict)
    resets: dict[MessageQueue, int] = field(default_factory=dict)
    marks: dict[MessageQueue, int] = field(default_factory=dict)
    not_owned: set[MessageQueue] = field(default_factory=set)
    away: set[MessageQueue] = field(default_factory=set)
    silent: set[MessageQueue] = field(default_factory=set)
    not_confirming: set[MessageQueue] = field(default_factory=set)
    not_searching: set[MessageQueue] = field(default_factory=set)
    is_complete: bool = True
    surveys: int = 0
    taken: list[dict[MessageQueue, tuple[int, int]]] = field(default_factory=list)
    proven: dict[MessageQueue, int] = field(default_factory=dict)
    has_news: bool = False
    has_left: bool = False

    def turn(self) -> AbstractContextManager[object]:
        return nullcontext()

    def survey(self, known: Collection[MessageQueue] = ()) -> Survey:
        self.surveys += 1
        served = {one: bounds for one, bounds in self.bounds.items() if one not in self.away | self.silent}
        away = {one: ADDRESS for one in known if one in self.away}
        return Survey(frozenset(served.keys() - self.not_owned | self.silent), served, self.is_complete, away)

    def ask_bounds(self) -> dict[MessageQueue, QueueBounds]:
        return {**self.bounds, **self.later_bounds}

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        answering = timestamps_ms.keys() - self.not_searching
        return {one: self.first_stored_after.get(one, self.bounds[one].max_offset) for one in answering}

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        return {one: self.stored.get(one) for one in queues}

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        writes = raising(wanted, self.stored_offsets(wanted))
        return (wanted.keys() - writes.keys()) | self._write(writes)

    def lower_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        return self._write(wanted)

    def _write(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        written = offsets.keys() - self.not_confirming
        self.stored |= {one: offsets[one] for one in written}
        return written

    def look_for_resets(self, queues: Iterable[MessageQueue]) -> None:
        self.resets |= {one: self.marks[one] for one in queues if one in self.marks}

    def take_resets(self) -> dict[MessageQueue, int]:
        resets, self.resets = self.resets, {}
        return resets

    def keep_resets(self, resets: Mapping[MessageQueue, int]) -> None:
        self.resets |= resets

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.taken.append(dict(ranges))

    def prove(self, end_offsets: Mapping[MessageQueue, int]) -> None:
        self.proven = dict(end_offsets)
        self.raise_offsets(end_offsets)

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        return self.has_news

    def persist(self) -> bool:
        return True

    def hand_over(self) -> None:
        self.has_left = True


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

    def answer(self) -> None:
        self.is_answered = True


def planner(
    member: SteadyMember, clock: ManualClock | None = None, drain: Wish | None = None, **given: str
) -> BatchPlanner:
    return BatchPlanner(member, options(**given), drain or Wish(), clock or ManualClock())


def read(subject: BatchPlanner, start: SourceOffset, limit: int | None = None) -> tuple[SourceOffset, list[QueueRange]]:
    """One micro-batch: its end, and what it reads."""
    end = subject.latest_offset(start, limit)
    return end, list(end.ranges()) if end is not start else []


# ---------------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("stored", [20, 60])
def test_broadcasting_goes_on_at_the_checkpoint_whatever_the_file_says_and_corrects_it(stored: int) -> None:
    """Who restores an old checkpoint gets what came after it again."""
    member = SteadyMember({A: holding(100), B: holding(50)}, stored={A: stored, B: 10})
    subject = planner(member, messageModel="BROADCASTING", instanceName="one")
    _, ranges = read(subject, SourceOffset({A: QueueProgress(30, 40, 1_000)}))
    assert ranges == [QueueRange(A, 40, 100), QueueRange(B, 10, 50)]
    assert member.stored == {A: 40, B: 10}


def test_a_topic_made_anew_is_recognised_though_it_has_outgrown_the_checkpoint() -> None:
    """Its message before our position was stored later than that position was planned."""
    member = SteadyMember({A: holding(100, stored_at_ms=9_000)}, stored={A: 40}, first_stored_after={A: 0})
    start = SourceOffset({A: QueueProgress(30, 40, 5_000)})
    with pytest.raises(DataLossError, match=r"Messages \[0, 40\) .* created again"):
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


def test_a_reset_of_a_queue_whose_broker_does_not_answer_is_obeyed_when_it_does() -> None:
    member = SteadyMember({A: holding(100), B: holding(9)}, stored={A: 100, B: 9}, resets={A: 20, B: 3}, has_news=True)
    subject, start = planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000), B: QueueProgress(0, 9, 1_000)})
    away, member.not_confirming = member.bounds.pop(B), {A}
    assert subject.latest_offset(start, None) is start
    member.bounds[B], member.not_confirming = away, set()
    _, ranges = read(subject, start)
    assert ranges == [QueueRange(A, 20, 100), QueueRange(B, 3, 9)]


def test_a_mark_that_is_found_before_a_batch_is_read_again_is_obeyed_after_it() -> None:
    member = SteadyMember({A: holding(100)}, stored={A: 20}, marks={A: 20})
    subject, replayed = planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000), B: QueueProgress(5, 5)})
    subject.recover(replayed)
    _, ranges = read(subject, replayed)
    assert ranges == [QueueRange(A, 20, 100)]


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
    member = SteadyMember({A: holding(100, stored_at_ms=9_000)}, stored={A: 40}, first_stored_after={A: 40})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(30, 40, 5_000)}))
    assert ranges == [QueueRange(A, 40, 100)]


def test_a_commit_of_another_member_since_the_survey_is_no_sign_of_a_lost_queue() -> None:
    """The bounds were asked before the group's offset, and a ghost committed in between: its commit lay beyond
    them, and the planner took the topic for a new one of the same name."""
    member = SteadyMember({A: holding(100)}, later_bounds={A: holding(110)}, stored={A: 105})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(90, 100, 1_000)}))
    assert ranges == [QueueRange(A, 105, 110)]


def test_the_first_batch_reads_from_the_first_positions_on() -> None:
    member = SteadyMember({A: holding(10, min_offset=4), B: holding(20)})
    _, ranges = read(planner(member), SourceOffset())
    assert ranges == [QueueRange(A, 4, 10), QueueRange(B, 0, 20)]
    assert member.stored == {A: 4, B: 0}
    assert member.taken[-1] == {A: (4, 10), B: (0, 20)}


def test_latest_starts_at_the_end_and_says_so_in_the_first_offset() -> None:
    """Nothing else would remember it: what is stored before the next start of the query would be skipped."""
    member = SteadyMember({A: holding(10)})
    end, ranges = read(planner(member, startingOffsets="latest"), SourceOffset())
    assert ranges == []
    assert end.queues == {A: QueueProgress(10, 10, 1_000)}
    assert member.stored == {A: 10}


def test_a_time_starts_every_queue_with_its_first_message_since_then() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B}, first_stored_after={A: 7})
    _, ranges = read(planner(member, startingTimestamp="5000"), SourceOffset())
    assert ranges == [QueueRange(A, 7, 10)]
    assert member.stored == {A: 7, B: 20}


@dataclass
class KnownLater(SteadyMember):
    """At first something about the topic is not known; then time passes, and it is."""

    stored_before: dict[MessageQueue, int] | None = None

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.stored_before = dict(self.stored)
        self.is_complete, self.not_searching, self.not_confirming = True, set(), set()
        return True


@pytest.mark.parametrize(
    "unknown",
    [{"is_complete": False}, {"not_searching": {B}}, {"not_confirming": {B}}],
    ids=lambda unknown: next(iter(unknown)),
)
def test_the_first_call_waits_until_it_is_settled_where_the_topic_begins(unknown: dict[str, Any]) -> None:
    """It used to answer an empty offset. Spark ran an empty batch with it, and what was sent after that batch was
    before the beginning."""
    member = KnownLater({A: holding(10), B: holding(20)}, first_stored_after={A: 7}, **unknown)  # B: none, its end
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
    member.bounds[A] = holding(15)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 15)]
    assert member.proven == {A: 10}


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
    surveys = member.surveys
    subject.latest_offset(end, None)
    assert member.surveys == surveys
    member.has_news = True
    subject.latest_offset(end, None)
    assert member.surveys == surveys + 1


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


def test_a_limit_below_one_offset_a_queue_serves_them_in_turn() -> None:
    member = SteadyMember({A: holding(1_000), B: holding(3)})
    subject = planner(member)
    first, first_ranges = read(subject, SourceOffset(), limit=1)
    _, second_ranges = read(subject, first, limit=1)
    assert (first_ranges, second_ranges) == ([QueueRange(A, 0, 1)], [QueueRange(B, 0, 1)])


def test_each_queue_has_its_turn_before_any_has_its_second() -> None:
    three = queues(3)
    subject = planner(SteadyMember({one: holding(1_000) for one in three}))
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
    assert subject.max_offsets == {A: 10}
    member.not_owned, member.stored[B], member.bounds[B] = set(), 25, holding(30)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 25, 30)]


def test_progress_shows_the_lag_behind_the_max_offsets() -> None:
    member = SteadyMember({A: holding(10), B: holding(20)}, not_owned={B})
    subject = planner(member)
    read(subject, SourceOffset(), limit=4)
    assert (subject.max_offsets, subject.lag) == ({A: 10}, {A: 6})
    assert subject.waiting_ms(1_700) == {A: 700}


def test_a_graceful_stop_proves_the_last_batch_plans_nothing_new_and_leaves() -> None:
    member, drain = SteadyMember({A: holding(10)}), Wish()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset())
    member.bounds[A], drain.is_wanted = holding(20), True
    assert subject.latest_offset(end, None) is end
    assert member.proven == {A: 10}
    assert (member.has_left, drain.is_answered) == (True, True)


# ---------------------------------------------------------------------------------------------------- losses


def test_what_retention_took_fails_the_query() -> None:
    member = SteadyMember({A: holding(30, min_offset=20)}, stored={A: 10})
    with pytest.raises(DataLossError, match=r"\[10, 20\) of orders@broker-a:0.*retention"):
        planner(member).latest_offset(SourceOffset(), None)


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
    member.bounds[A], member.has_news = holding(51, stored_at_ms=2_000), True
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 50, 51)]


def test_a_queue_that_was_made_anew_is_read_once_from_its_beginning() -> None:
    member = SteadyMember({A: holding(10, stored_at_ms=2_000)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    end, ranges = read(subject, SourceOffset({A: QueueProgress(0, 100, 1_000)}))
    assert ranges == [QueueRange(A, 0, 10)]
    member.bounds[A], member.has_news = holding(12, stored_at_ms=3_000), True
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]
    assert member.stored == {A: 10}


def test_a_queue_whose_offset_could_not_be_lowered_is_not_planned() -> None:
    member = SteadyMember({A: holding(10, stored_at_ms=2_000)}, stored={A: 100}, not_confirming={A})
    start = SourceOffset({A: QueueProgress(0, 100, 1_000)})
    assert planner(member, failOnDataLoss="false").latest_offset(start, None) is start


def test_a_queue_that_was_made_anew_stays_so_until_its_offset_could_be_lowered() -> None:
    """It used to count as verified all the same; the next plan went on at the old position, past new messages."""
    bounds = {A: holding(150, stored_at_ms=2_000)}
    member = SteadyMember(bounds, first_stored_after={A: 0}, stored={A: 100}, not_confirming={A})
    subject = planner(member, failOnDataLoss="false")
    start = SourceOffset({A: QueueProgress(0, 100, 1_000)})
    assert subject.latest_offset(start, None) is start
    member.not_confirming, member.has_news = set(), True
    _, ranges = read(subject, start)
    assert ranges == [QueueRange(A, 0, 150)]


# ---------------------------------------------------------------------------------------------------- missing queues


def test_queues_that_are_away_keep_their_position_and_are_read_on_from_there() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)})
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.away, member.has_news, member.bounds[A] = {B}, True, holding(15)
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 15)]
    assert end.queues[B] == QueueProgress(10, 10, 1_000)
    member.away, member.bounds[B] = set(), holding(17)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 10, 17)]


def test_queues_that_stay_away_end_the_query_though_nothing_else_happens() -> None:
    clock, member = ManualClock(), SteadyMember({A: holding(10), B: holding(10)})
    subject = planner(member, clock, missingQueuesTimeoutMs="60000")
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
    clock, member = ManualClock(), SteadyMember({A: holding(10)}, stored={A: 10}, away={A})
    subject, start = planner(member, clock, missingQueuesTimeoutMs="60000"), reached((A, 10))
    assert subject.latest_offset(start, None) is start
    clock.advance(60_000)
    member.away = set()
    assert subject.latest_offset(start, None) is start


class ConfirmedMember(SteadyMember):
    """What is proven was confirmed before, so that ``prove`` has nothing to tell."""

    def prove(self, end_offsets: Mapping[MessageQueue, int]) -> None:
        self.proven = dict(end_offsets)


def test_a_broker_that_was_silent_is_raised_to_where_we_are_when_it_is_back() -> None:
    """A killed broker forgets what was committed in its last seconds; while nothing new came, nobody told it again."""
    member = ConfirmedMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.silent = {A}
    assert subject.latest_offset(end, None) is end
    member.silent, member.stored = set(), {A: 3}
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
    assert str(B) in caplog.text
    assert str(A) not in caplog.text


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
    member.bounds[A] = holding(500)
    end, ranges = read(subject, end, limit=6)
    assert ranges == [QueueRange(A, 6, 10)]
    assert subject.latest_offset(end, 6) is end
    assert member.stored == {A: 10}, "the last call is a proof too"


def test_available_now_waits_for_other_members_within_limits() -> None:
    clock = ManualClock()

    class Waiting(SteadyMember):
        def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            clock.advance(timeout_ms)
            return False

    member = Waiting({A: holding(10), B: holding(10)}, stored={A: 10, B: 4}, not_owned={B})
    subject = planner(member, clock, clusterTimeoutMs=str(PATIENCE_MS))
    subject.stop_at_what_is_there()
    start = reached((A, 10))
    assert subject.latest_offset(start, None) is start
    assert PATIENCE_MS <= clock() <= PATIENCE_MS + 1_000


class AwayForAWhile(SteadyMember):
    """Queues that are away come back after ``clusterTimeoutMs`` and more; time passes while the query waits."""

    clock = ManualClock()

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        if self.clock() < 2 * PATIENCE_MS:
            return False
        self.away = set()
        return True


def available_now(member: AwayForAWhile, **given: str) -> BatchPlanner:
    member.clock = ManualClock()
    subject = planner(member, member.clock, None, clusterTimeoutMs=str(PATIENCE_MS), **given)
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
    member.bounds[queue(5)] = holding(10)
    assert subject.latest_offset(end, None) is end
