"""A streaming query in memory: checkpoint, sink, and the order in which PySpark calls a source.

What is simulated is Spark and the shell around the member (``Member``, ``SourceRun``: threads, timers, signals). What
decides and asks is the product's own ``Membership``, lent by its own ``GroupLock``, and ``BatchPlanner``. A start of
the query is a ``SourceRunner``: a strand for Spark's stream execution and its source runner, and one for the member's
timed work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, cast

from connector_tests.support.delivery_checker import DeliveryChecker
from connector_tests.support.simulated_cluster import Reach, SimulatedCluster, SimulatedClusterClient
from connector_tests.support.strand import ENDLESS, Killed, Strand, current, point
from rocketmq_spark.consumer.cluster_api import Link
from rocketmq_spark.consumer.group_lock import GroupLock
from rocketmq_spark.consumer.member import list_topics
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.checkpoint_changes import planned_with
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.offsets import OffsetReader, SourceOffset
from rocketmq_spark.source.stream.progress import ProgressReporter, outages_of

LATEST_OFFSET: Final = "latestOffset"
LOG_OFFSETS: Final = "offsets/N"
READ: Final = "the batch"
WRITE: Final = "the sink's write"
LOG_COMMITS: Final = "commits/N"
IDLE: Final = "idle"
SPARK_POINTS: Final = (LATEST_OFFSET, LOG_OFFSETS, READ, WRITE, LOG_COMMITS, IDLE)
"""Where a run may be stopped beside its requests; standing there means that it has not been done."""


class Stopped(BaseException):
    """SIGTERM, or the JVM is gone: the source runner unwinds and leaves the group."""


@dataclass(frozen=True)
class Parts:
    """What a query is made of. Tests put in parts that leave a rule out."""

    membership: type[Membership] = Membership
    planner: type[BatchPlanner] = BatchPlanner
    member: type[SimulatedMember] = field(default_factory=lambda: SimulatedMember)
    runner: type[SourceRunner] = field(default_factory=lambda: SourceRunner)


@dataclass
class Checkpoint:
    """``offsets/N`` and ``commits/N``, as Spark keeps them; an offset is its text."""

    offsets: list[str] = field(default_factory=list)
    commits: set[int] = field(default_factory=set)

    @property
    def last(self) -> str:
        return self.offsets[-1] if self.offsets else json.dumps(SourceOffset().to_json())

    @property
    def uncommitted(self) -> int | None:
        """The batch that a restart replays."""
        last = len(self.offsets) - 1
        return last if last >= 0 and last not in self.commits else None


class SimulatedQuery:
    """A query that may be started again and again from its checkpoint."""

    def __init__(
        self, name: str, options: ReadOptions, cluster: SimulatedCluster, checker: DeliveryChecker, parts: Parts
    ) -> None:
        self.name = name
        self.options = options
        self.cluster = cluster
        self.checker = checker
        self.parts = parts
        self.checkpoint = Checkpoint()
        self.run: SourceRunner | None = None
        self._starts = 0

    def start(self, *, available_now: bool = False, once: bool = False) -> SourceRunner:
        """With ``instanceName`` the client id is always the same; else each start has its own."""
        self._starts += 1
        client_id = self.options.instance_name or f"{self.name}-{self._starts}"
        self.run = self.parts.runner(self, client_id, available_now=available_now, once=once)
        return self.run

    @property
    def is_startable(self) -> bool:
        """Whether it is not running; an orphan of an earlier start may be."""
        return self.run is None or not self.run.is_alive or self.run.is_terminating

    def __repr__(self) -> str:
        return self.name


class StrandLock:
    """A lock that one strand may take several times."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.acquired_at = 0
        self._cluster = cluster
        self._holder: Strand | None = None
        self._depth = 0

    @property
    def is_free(self) -> bool:
        return self._depth == 0

    def __enter__(self) -> None:
        while self._depth and self._holder is not current():
            point("the turn", is_blocked=True)
        if not self._depth:
            self._holder = current()
            self._cluster.now += 1
            self.acquired_at = self._cluster.now
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1


class Lent:
    """In place of a membership or one of its parts: the same, but for what is given ``instead``."""

    def __init__(self, original: object, **instead: object) -> None:
        self._original = original
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        return self._instead[name] if name in self._instead else getattr(self._original, name)


class SimulatedMember:
    """``Member`` without threads: its timed work and news come by hand."""

    def __init__(self, membership: Membership, runner: SourceRunner) -> None:
        self.runner = runner
        self.lock = StrandLock(runner.query.cluster)
        self._turn = GroupLock(membership, self.lock)
        self._seen_changes = 0

    @contextmanager
    def group_lock(self) -> Iterator[Membership]:
        with self._turn() as membership:
            yield cast(Membership, self.lend(membership))

    def lend(self, membership: Membership) -> Lent:
        """What a planner gets: a witness sees what it does."""

        def mark_in_flight(ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
            membership.mark_in_flight(ranges)
            self.runner.query.checker.on_planned(self.runner, self.lock.acquired_at)

        def mark_completed(end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]) -> None:
            since_ms = self.runner.query.cluster.clock()
            membership.mark_completed(end_offsets, stored_to_ms)
            self.runner.query.checker.on_completed(self.runner, end_offsets, since_ms)

        return Lent(membership, mark_in_flight=mark_in_flight, mark_completed=mark_completed)

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        point(IDLE)
        is_new = self._is_something_new(positions)
        self._seen_changes = self._turn.published.changes
        return is_new

    def _is_something_new(self, positions: Mapping[MessageQueue, int]) -> bool:
        cluster, published = self.runner.query.cluster, self._turn.published
        has_changed = any(
            cluster.max_offset(queue) != position
            and cluster.brokers[queue.broker_name].reach is Reach.UP
            and queue.broker_name not in self.runner.client.cut_off
            for queue, position in positions.items()
        )
        return has_changed or published.changes != self._seen_changes or published.is_due(cluster.clock())

    def has_lost_connection(self, links: Iterable[Link | None]) -> bool:
        return any(link is not None and self.runner.client.connection_number(link[0]) != link[1] for link in links)

    def leave_group(self) -> None:
        self.runner.leave()


class DrainSwitch:
    """A ``Drain`` without a folder."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.is_answered = False

    def check_request(self) -> bool:
        return self.is_wanted

    def claim(self) -> bool:
        return self.is_wanted

    def finish(self) -> None:
        self.is_answered = True


class SourceRunner:
    """One start of a query. ``spark`` is its main strand, ``timer`` the member's timed work while there is any."""

    def __init__(self, query: SimulatedQuery, client_id: str, *, available_now: bool, once: bool = False) -> None:
        self.query = query
        self.client = SimulatedClusterClient(query.cluster, owner=self)
        self.client.before_each = self._rebalance_if_changed
        self.drain = DrainSwitch()
        self.error: RocketMQError | None = None
        self._available_now = available_now
        self._once = once
        self._offsets = OffsetReader()
        self._progress = ProgressReporter()
        self._is_jvm_dead = False
        self._has_joined = False
        self._has_left = False
        self._is_graceful = False
        clock = query.cluster.clock
        self.client_id = client_id
        self.membership = query.parts.membership(
            query.options, client_id, self.client, clock, clock, started_ms=clock()
        )
        self.member = query.parts.member(self.membership, self)
        self.planner = query.parts.planner(self.member, query.options, self.drain, clock)
        if available_now:
            self.planner.stop_at_current_end()
        self.spark = Strand(self._execute)
        self.timer: Strand | None = None

    def __repr__(self) -> str:
        return f"{self.client_id} of {self.query}"

    # ------------------------------------------------------------------------------------------ from outside

    @property
    def is_alive(self) -> bool:
        return not self.spark.is_done

    @property
    def crash(self) -> BaseException | None:
        """Return the error of a strand that Spark would not get; None without one."""
        return self.spark.error or (self.timer.error if self.timer is not None else None)

    @property
    def is_terminating(self) -> bool:
        """Whether its JVM has ended, so that it only leaves the group and ends."""
        return self._is_jvm_dead

    def timed_work(self) -> list[Callable[[], None]]:
        """As ``Member._work_until_stopped``."""
        member = self.membership
        in_turn: list[Callable[[], object]] = [member.rebalance, member.offsets.persist]
        if self.query.options.topic_pattern is not None:
            in_turn.insert(0, partial(list_topics, member))
        if self.query.options.consume_orderly:
            in_turn += [member.renew_locks, member.retry_locks]
        return [self._send_heartbeats, *map(self.in_turn, in_turn)]

    def is_healthy(self, broker_name: str, since_ms: int) -> bool:
        is_up = self.query.cluster.brokers[broker_name].reach is Reach.UP
        is_up = is_up and broker_name not in self.client.cut_off
        return (
            is_up and self.client.has_route_to(broker_name) and not self.client.has_failed_since(broker_name, since_ms)
        )

    def resume(self, points: int = ENDLESS, stops: Collection[str] = (IDLE,)) -> None:
        """Let Spark continue. Where it needs the group lock that timed work holds, let that work end first."""
        while self.spark.run(points, stops) and self.spark.at == "the turn":
            self.resume_timed_work()

    def start_timed_work(self, work: Callable[[], None]) -> None:
        """As ``Member._do``; nothing while earlier timed work is not done, before joining and after
        leaving."""
        if self.timer is None and self.is_alive and self._has_joined and not self._has_left:
            self.timer = Strand(work)

    def run_timed_work(self) -> None:
        """Do the work of all timers, one after another."""
        for work in self.timed_work():
            self.resume_timed_work()
            self.start_timed_work(work)
        self.resume_timed_work()

    def resume_timed_work(self, points: int = ENDLESS) -> None:
        """Let timed work continue, if there is any. Where it needs the group lock that Spark holds, it only waits."""
        if self.timer is not None and not self.timer.run(points):
            self.timer = None

    def kill(self) -> None:
        """SIGKILL of everything. Its connections stay until the brokers notice."""
        for strand in (self.timer, self.spark):
            if strand is not None:
                strand.unwind(Killed())
                strand.run()
        self.timer = None
        self.query.checker.ended(self, by_crash=True)

    def terminate(self) -> None:
        """``query.stop()``: SIGTERM. What it has to do to leave is left to ``resume``."""
        self._is_jvm_dead = True
        if not self._has_left:
            self.spark.unwind(Stopped())

    def lose_jvm(self) -> None:
        """SIGKILL of the JVM alone: the source runner ends when it next turns to it."""
        self._is_jvm_dead = True

    # ------------------------------------------------------------------------------------------ Spark

    def _execute(self) -> None:
        try:
            self._micro_batches()
            self._is_graceful = True
        except RocketMQError as error:
            self.error = error
        except Stopped:
            pass
        self.leave()
        self.query.checker.ended(self, by_crash=not self._is_graceful)

    def _micro_batches(self) -> None:
        checkpoint = self.query.checkpoint
        if checkpoint.uncommitted is not None:
            self._run_batch(checkpoint.uncommitted)
        while not self.drain.is_answered:
            self._at(LATEST_OFFSET)
            start = checkpoint.last
            end = self.latest_offset(start)
            if end != start or not checkpoint.offsets:
                self._at(LOG_OFFSETS)
                self._log(end)
                self._run_batch(len(checkpoint.offsets) - 1)
            elif self._available_now:
                return
            if self._once:
                return

    def latest_offset(self, start_text: str) -> str:
        """As ``RocketMQStreamReader.latestOffset``; the member joins with the first call."""
        self._has_joined = True
        start = self._offsets.read(json.loads(start_text))
        end = self.planner.latest_offset(start, self.query.options.max_offsets_per_trigger)
        self._rebalance_if_changed()
        if end is start:
            return start_text
        return json.dumps(self._offsets.write(replace(end, planned_with=planned_with(self.query.options, "a name"))))

    def progress(self) -> dict[str, Any]:
        """As ``RocketMQStreamReader.reportLatestOffset``, through Spark's text."""
        planner, now_ms = self.planner, self.query.cluster.clock()
        control = Control("here", self.client_id)
        outages = outages_of(self.membership.log_and_snapshot().outages, now_ms, now_ms)
        report = self._progress.report(
            planner.backlog,
            planner.completed_after_rebalance,
            planner.losses,
            outages,
            client_id=self.client_id,
            control=control,
            now_ms=now_ms,
        )
        shown: dict[str, Any] = json.loads(json.dumps(report))
        return shown

    def partitions(self, end_text: str) -> list[QueueRange]:
        """As ``RocketMQStreamReader.partitions``."""
        return list(self._offsets.read(json.loads(end_text)).ranges())

    def _log(self, end: str) -> None:
        checkpoint = self.query.checkpoint
        checkpoint.offsets.append(end)
        self.query.checker.logged(self, len(checkpoint.offsets) - 1, SourceOffset.from_json(json.loads(end)))

    def _run_batch(self, batch_id: int) -> None:
        ranges = self.partitions(self.query.checkpoint.offsets[batch_id])
        self._at(READ)
        self._at(WRITE)
        self.query.checker.written(self.query, batch_id, ranges)
        self._at(LOG_COMMITS)
        self.query.checkpoint.commits.add(batch_id)

    def _at(self, name: str) -> None:
        point(name)
        if self._is_jvm_dead:
            raise Stopped

    # ------------------------------------------------------------------------------------------ the source runner

    def leave(self) -> None:
        """As ``Member.leave_group``."""
        if self._has_left or not self._has_joined:
            return
        self._has_left = True
        while self.timer is not None:
            point("the turn", is_blocked=True)
        with self.member.group_lock(), suppress(RocketMQError):
            self.membership.leave()

    def _send_heartbeats(self) -> None:
        """As ``Member._send_heartbeats``."""
        with self.member.group_lock():
            heartbeats = self.membership.members.next_heartbeats()
        acknowledged = heartbeats.send(self.client)
        with self.member.group_lock():
            self.membership.members.record_acknowledged(heartbeats, acknowledged)

    def in_turn(self, work: Callable[[], object]) -> Callable[[], None]:
        return partial(self._do_in_turn, work)

    def _do_in_turn(self, work: Callable[[], object]) -> None:
        with self.member.group_lock(), suppress(RocketMQError):
            work()
        self._rebalance_if_changed()

    def _rebalance_if_changed(self) -> None:
        self.query.checker.on_refreshed(self, self.membership.process_queues, since=self.member.lock.acquired_at)
