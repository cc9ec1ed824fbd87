"""A state machine over a simulated group: whatever may happen to its members and brokers, in any order.

A rule is one thing that happens. What must not come of it is the witness's business, which speaks as soon as something
is certain, and once more when everything has been repaired and is quiet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from connector_tests.support.delivery_checker import DeliveryChecker, MessageDeliveryChecker
from connector_tests.support.simulated_cluster import OLD_VERSION, Fate, Reach
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import (
    IDLE,
    LOG_OFFSETS,
    READ,
    SPARK_POINTS,
    Parts,
    SimulatedQuery,
    SourceRunner,
)
from connector_tests.support.strand import ENDLESS
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION

SEEDS: Final = 12

REQUEST_POINTS: Final = tuple(
    f"request {name}" for name in ("route", "heartbeat", "consumer ids", "bounds", "read offsets", "write offsets")
)
LOCK_POINTS: Final = ("request lock", "request unlock")
RESPONSE_POINTS: Final = REQUEST_POINTS[1:] + LOCK_POINTS
ALL_POINTS: Final = SPARK_POINTS + REQUEST_POINTS + LOCK_POINTS
LAYOUTS: Final[tuple[Mapping[str, Mapping[str, int]], ...]] = (
    {"t": {"a": 2}},
    {"t": {"a": 2, "b": 1}},
    {"t": {"a": 1, "b": 0}},
    {"t": {"a": 1}, "u": {"b": 2}},
)

T = TypeVar("T")

NUMBERS: Final = st.integers(0, 2)
POINTS: Final = st.sampled_from(SPARK_POINTS) | st.sampled_from(ALL_POINTS)
STEPS: Final = st.sampled_from((1, 2, 3, 5, 8, ENDLESS))
SHORT_MS: Final = st.sampled_from((0, 1_000, 6_000, 21_000))
LONG_MS: Final = st.sampled_from((35_000, 65_000, 125_000))
MOST_QUEUES: Final = 5
COMMIT: Final = ("request hint", "request write offsets")


class HealthyGroup(RuleBasedStateMachine):
    """Two or three queries of one group join and leave gracefully, and nobody stands still. Single answers may be lost.

    Parameters
    ----------
    parts : what the queries are made of
    seen : counts what has happened, over all runs
    """

    checker: type[DeliveryChecker] = DeliveryChecker
    options: Mapping[str, str] = {}
    starts: tuple[str, ...] = ("earliest", "latest")
    fewest_queries = 2
    most_queries = 3
    broker_version = CLIENT_VERSION

    def __init__(self, parts: Parts, event_counts: Counter[str]) -> None:
        super().__init__()
        self.parts = parts
        self.event_counts = event_counts
        self.group = SimulatedGroup(LAYOUTS[0])

    @initialize(
        layout=st.sampled_from(LAYOUTS),
        starting_offset=NUMBERS,
        is_orderly=st.booleans(),
        query_count=st.integers(1, 3),
        keep_their_names=st.booleans(),
        limit=st.sampled_from(("", "3")),
    )
    def create_group(
        self,
        layout: Mapping[str, Mapping[str, int]],
        starting_offset: int,
        is_orderly: bool,
        query_count: int,
        keep_their_names: bool,
        limit: str,
    ) -> None:
        options = {"consumeOrderly": str(is_orderly).lower(), **self.options}
        options |= {"maxOffsetsPerTrigger": limit} if limit else {}
        starts = _one_of(self.starts, starting_offset)
        self.group = SimulatedGroup(
            layout, starting_offsets=starts, parts=self.parts, options=options, checker=self.checker
        )
        for broker in self.group.cluster.brokers.values():
            broker.version = self.broker_version
        self.is_orderly = is_orderly
        for name in "ABC"[: min(max(query_count, self.fewest_queries), self.most_queries)]:
            self.group.query(name, **({"instanceName": name} if keep_their_names else {}))
        for number in range(len(self.group.cluster.queues())):
            self.produce(number, 4)
        self.start(0, available_now=False, point=LOG_OFFSETS)

    # ------------------------------------------------------------------------------------------ members

    @precondition(lambda self: self.startable())
    @rule(number=NUMBERS, available_now=st.sampled_from((False, False, True)), point=POINTS)
    def start(self, number: int, available_now: bool, point: str) -> None:
        query = _one_of(self.startable(), number)
        self.event_counts["started beside its orphan"] += any(run.query is query for run in self.group.alive())
        self.event_counts["started with a batch to replay"] += query.checkpoint.uncommitted is not None
        self.group.start(query, available_now=available_now).resume(stops=(point, IDLE))

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, point=POINTS)
    def run_to(self, number: int, point: str) -> None:
        self.runner(number).resume(stops=(point, IDLE))

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, queue=NUMBERS)
    def start_batch(self, number: int, queue: int) -> None:
        self.produce(queue, 3)
        self.runner(number).resume(stops=(READ, IDLE))

    @precondition(lambda self: self.group.alive() and self.startable())
    @rule(number=NUMBERS, queue=NUMBERS, other=NUMBERS)
    def reassign_during_batch(self, number: int, queue: int, other: int) -> None:
        """Another one joins in the middle of it, and everybody notices."""
        runner = self.runner(number)
        self.start_batch(number, queue)
        self.start(other, available_now=False, point=IDLE)
        self.pass_time(21_000)
        if runner.is_alive:
            runner.resume(stops=(IDLE,))

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, steps=STEPS)
    def resume(self, number: int, steps: int) -> None:
        self.runner(number).resume(steps)

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, work=st.integers(0, 4), steps=STEPS)
    def start_timed_work(self, number: int, work: int, steps: int) -> None:
        """A timer fires, or a broker has told of a new list of members."""
        runner = self.runner(number)
        runner.start_timed_work(_one_of(runner.timed_work(), work))
        runner.resume_timed_work(steps)

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, steps=STEPS)
    def resume_timed_work(self, number: int, steps: int) -> None:
        self.runner(number).resume_timed_work(steps)

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS)
    def drain(self, number: int) -> None:
        """``rocketmq_spark.stop(query)``."""
        self.event_counts["stopped gracefully"] += 1
        self.runner(number).drain.is_wanted = True

    # ------------------------------------------------------------------------------------------ brokers and time

    @rule(number=st.integers(0, 5), count=st.integers(1, 6))
    def produce(self, number: int, count: int) -> None:
        self.group.cluster.produce(_one_of(self.group.cluster.queues(), number), count)

    @precondition(lambda self: self.group.cluster.is_whole and len(self.group.cluster.queues()) < MOST_QUEUES)
    @rule(number=NUMBERS, broker=NUMBERS)
    def grow(self, number: int, broker: int) -> None:
        self.event_counts["a new queue"] += 1
        topic = _one_of(self.group.cluster.topics(), number)
        self.group.cluster.grow(topic, _one_of(list(self.group.cluster.brokers), broker), 1)

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, fate=st.sampled_from(Fate), point=st.sampled_from(RESPONSE_POINTS))
    def lose_response(self, number: int, fate: Fate, point: str) -> None:
        """Of a request that Spark has made it send; what is timed is sent again by its timer."""
        runner = self.runner(number)
        runner.resume(stops=(point, IDLE))
        if runner.is_alive and runner.spark.at.startswith(point):
            self.event_counts[f"a request is {fate.value}"] += 1
            runner.client.fates.append(fate)
            runner.resume(1)

    @rule(ms=SHORT_MS)
    def pass_time(self, ms: int) -> None:
        for runner in self.group.alive():
            _release_group_lock(runner)
        self.group.pass_time(ms)

    @invariant()
    def write_after_read(self) -> None:
        """Brokers compare nothing: who stands still in between, while the next owner of a queue reads and commits,
        lowers the group's offset. No order of requests prevents that."""
        for runner in self.group.alive():
            while runner.timer is not None and runner.timer.at.startswith(COMMIT):
                runner.resume_timed_work(1)
            while runner.spark.at.startswith(COMMIT):
                runner.resume(1)

    # ------------------------------------------------------------------------------------------ the end

    def teardown(self) -> None:
        try:
            if not self.group.is_broken:
                self.group.run_until_idle()
                self.check_at_rest()
            self.event_counts["proven late"] += self.completed_after_rebalance()
            self.event_counts += self.group.checker.event_counts
        finally:
            self.group.close()

    def check_at_rest(self) -> None:
        """What holds beside what the witness says."""
        if self.is_orderly:
            self.group.checker.check_nothing_twice()
            assert self.completed_after_rebalance() == 0

    def completed_after_rebalance(self) -> int:
        """Of all starts of queries."""
        return sum(runner.planner.completed_after_rebalance for runner in self.group.runners)

    # ------------------------------------------------------------------------------------------ who

    def runner(self, number: int) -> SourceRunner:
        return _one_of(self.group.alive(), number)

    def startable(self) -> list[SimulatedQuery]:
        return [query for query in self.group.queries if query.is_startable]


class FailingGroup(HealthyGroup):
    """The same, and anything may break: processes at any point, brokers, single answers; notices come late or never."""

    # ------------------------------------------------------------------------------------------ members go away

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, point=POINTS)
    def kill(self, number: int, point: str) -> None:
        """SIGKILL of everything."""
        self._end_at(number, point, "killed", SourceRunner.kill)

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, point=POINTS)
    def terminate(self, number: int, point: str) -> None:
        """``query.stop()``."""
        self._end_at(number, point, "stopped", SourceRunner.terminate)

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, point=POINTS)
    def lose_jvm(self, number: int, point: str) -> None:
        """SIGKILL of the JVM alone."""
        self._end_at(number, point, "orphaned", SourceRunner.lose_jvm)

    def _end_at(self, number: int, point: str, how: str, end: Callable[[SourceRunner], None]) -> None:
        """What is produced gives it a way to the point."""
        runner = self.runner(number)
        self.produce(number, 2)
        runner.resume(stops=(point, IDLE))
        if runner.is_alive:
            self.event_counts[how] += 1
            end(runner)

    @precondition(lambda self: self.exited_runners())
    @rule(number=NUMBERS)
    def notice(self, number: int) -> None:
        """The brokers notice that a member is gone."""
        self.group.cluster.lose_connections(_one_of(self.exited_runners(), number))

    # ------------------------------------------------------------------------------------------ brokers and time

    @precondition(lambda self: self.group.cluster.is_up)
    @rule(number=NUMBERS, reach=st.sampled_from((Reach.UNRESPONSIVE, Reach.UNAVAILABLE)))
    def lose_broker(self, number: int, reach: Reach) -> None:
        cluster = self.group.cluster
        broker = _one_of(list(cluster.brokers.values()), number)
        broker.reach = reach if cluster.shows_without(broker.name) else Reach.UNRESPONSIVE
        self.event_counts[f"a broker is {broker.reach.value}"] += 1

    @precondition(lambda self: self.group.alive())
    @rule(number=NUMBERS, broker=NUMBERS)
    def cut_off(self, number: int, broker: int) -> None:
        """One member alone does not reach a broker any more, and the broker drops its connection."""
        runner = self.runner(number)
        cut_off_broker = _one_of(list(self.group.cluster.brokers.values()), broker)
        runner.client.cut_off.add(cut_off_broker.name)
        cut_off_broker.connections.pop(runner, None)
        self.event_counts["cut off from a broker"] += 1

    @precondition(lambda self: not self.group.is_whole)
    @rule()
    def repair_brokers(self) -> None:
        self.group.repair()

    @rule(number=NUMBERS)
    def restart_broker(self, number: int) -> None:
        """It keeps messages and offsets."""
        self.event_counts["a broker was restarted"] += 1
        _one_of(list(self.group.cluster.brokers.values()), number).restart()

    @precondition(lambda self: len(self.group.cluster.brokers) > 1)
    @rule(is_published=st.booleans())
    def exchange_addresses(self, is_published: bool) -> None:
        """Two brokers come back each at the other's address, as pods do, and the name server may know it later."""
        self.event_counts["brokers exchanged addresses"] += 1
        one, other = self.group.cluster.brokers
        self.group.cluster.exchange_addresses(one, other, is_published=is_published)

    @rule(number=NUMBERS)
    def retain(self, number: int) -> None:
        """Retention deletes what has been read."""
        _one_of(list(self.group.cluster.brokers.values()), number).retain()

    @rule(ms=SHORT_MS)
    def pass_time(self, ms: int) -> None:
        """Those who are in the middle of something stand still."""
        self.group.pass_time(ms)

    @rule(ms=LONG_MS)
    def sleep(self, ms: int) -> None:
        """The machine sleeps, and everybody with it."""
        self.group.clock.advance(ms)

    def check_at_rest(self) -> None:
        """Nothing beside what the witness says."""

    def exited_runners(self) -> list[SourceRunner]:
        return [runner for runner in self.group.runners if not runner.is_alive]


class ChangingGroup(FailingGroup):
    """The same, and topics are deleted and made anew, while the queries are to go on without what is lost.

    A broker that loses the end of a queue keeps the group's offset, so only who has read that queue can tell: that is
    for a query alone.
    """

    checker: type[DeliveryChecker] = MessageDeliveryChecker
    options: Mapping[str, str] = {"failOnDataLoss": "false"}
    starts: tuple[str, ...] = ("earliest",)
    fewest_queries = 1

    @rule(number=NUMBERS, count=st.integers(0, 12))
    def recreate(self, number: int, count: int) -> None:
        topic = _one_of(self.group.cluster.topics(), number)
        self.group.cluster.recreate(topic)
        self.event_counts["a topic was made anew"] += 1
        self._fill(topic, count)

    @precondition(lambda self: len(self.group.queries) == 1)
    @rule(number=NUMBERS, lost_count=st.integers(1, 6), count=st.integers(0, 12))
    def lose_tail(self, number: int, lost_count: int, count: int) -> None:
        broker = _one_of(list(self.group.cluster.brokers.values()), number)
        broker.restart(lost_count)
        self.event_counts["a tail was lost"] += 1
        for topic in self.group.cluster.topics():
            self._fill(topic, count)

    def _fill(self, topic: str, count: int) -> None:
        for queue in self.group.cluster.queues():
            if queue.topic == topic and count:
                self.group.cluster.produce(queue, count)


class ChangingOldGroup(ChangingGroup):
    """The same with brokers of RocketMQ 4, which keep the group's offsets of a deleted topic too: again only who has
    read the queues can tell."""

    broker_version = OLD_VERSION

    @precondition(lambda self: len(self.group.queries) == 1)
    @rule(number=NUMBERS, count=st.integers(0, 12))
    def recreate(self, number: int, count: int) -> None:
        super().recreate(number, count)


def interleave(
    machine: type[HealthyGroup], how: settings, parts: Parts | None = None, seed_number: int | None = None
) -> Counter[str]:
    """Run as many interleavings as ``how`` defines; return what has happened in them, and how often."""
    event_counts: Counter[str] = Counter()
    factory: Any = partial(machine, parts or Parts(), event_counts)
    run_state_machine_as_test(factory if seed_number is None else seed(seed_number)(factory), settings=how)
    return event_counts


def interleave_until(kinds: Collection[str], machine: type[HealthyGroup], how: settings) -> set[str]:
    """Run as many interleavings as ``how`` defines, by other seeds again until all ``kinds`` of events have happened,
    at most ``SEEDS`` times; return those that have not. By one seed something rare may not happen, depending on the
    modules that are loaded: Hypothesis draws from their constants, also with ``derandomize``."""
    missing = set(kinds)
    for seed_number in range(SEEDS):
        missing -= interleave(machine, how, seed_number=seed_number).keys()
        if not missing:
            break
    return missing


def _one_of(choices: Sequence[T], number: int) -> T:
    return choices[number % len(choices)]


def _release_group_lock(runner: SourceRunner) -> None:
    runner.resume_timed_work()
    while not runner.member.lock.is_free:
        runner.resume(1)
