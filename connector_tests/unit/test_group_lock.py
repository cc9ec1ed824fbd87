"""Nobody uses a membership without its turn: there is no other way to it, and what others read is a copy."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import (
    Reach,
    SimulatedBrokerClient,
    SimulatedCluster,
    SimulatedClusterClient,
)
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.consumer import member as member_module
from rocketmq_spark.consumer.group_lock import GroupLock
from rocketmq_spark.consumer.group_members import GroupMembers
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_committer import OffsetCommitter
from rocketmq_spark.consumer.offset_resets import OffsetResets
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.consumer.queue_locks import QueueLocks
from rocketmq_spark.consumer.rebalance import RebalanceImpl
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.tail_watch import PullCallback
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult, PullStatus

QUEUES = tuple(MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4))
OF_THE_GROUP_LOCK = (
    Membership,
    GroupMembers,
    OffsetCommitter,
    OutageTracker,
    ProcessQueue,
    QueueLocks,
    RebalanceImpl,
    OffsetResets,
    OutageAwareClient,
)
OPTIONS = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})


def cluster_of_one() -> SimulatedCluster:
    cluster = SimulatedCluster(["broker-a"], ManualClock(1_000_000))
    cluster.create_topic("orders", {"broker-a": len(QUEUES)})
    return cluster


def membership(cluster: SimulatedCluster) -> Membership:
    return Membership(OPTIONS, "me", SimulatedClusterClient(cluster, "us"), cluster.clock, cluster.clock, started_ms=1)


# ---------------------------------------------------------------------------------------------------- the only way


def reachable(root: object) -> Iterator[object]:
    """All that attributes, items and bound methods lead to."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | str | bytes | int):
            continue
        seen.add(id(one))
        yield one
        waiting += parts_of(one)


def parts_of(one: object) -> list[object]:
    if isinstance(one, Mapping):
        return [*one.keys(), *one.values()]
    if isinstance(one, tuple | list | set | frozenset):
        return list(one)
    if inspect.ismethod(one):
        return [one.__self__]
    if isinstance(one, partial):
        return [one.func, *one.args, *one.keywords.values()]
    slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
    return [*getattr(one, "__dict__", {}).values(), *(getattr(one, name, None) for name in slots)]


def test_no_attribute_of_a_member_or_its_group_lock_leads_to_the_membership() -> None:
    found = list(reachable(Member(OPTIONS)))
    assert any(isinstance(one, GroupLock) for one in found)
    assert [one for one in found if isinstance(one, OF_THE_GROUP_LOCK)] == []


def test_what_is_published_leads_to_nothing_that_a_holder_of_the_group_lock_changes() -> None:
    group_lock = GroupLock(membership(cluster_of_one()), threading.RLock())
    with group_lock() as lent:
        lent.refresh_metadata()
        lent.mark_in_flight({QUEUES[0]: (0, 10)})
    assert [one for one in reachable(group_lock.published) if isinstance(one, OF_THE_GROUP_LOCK)] == []


# ---------------------------------------------------------------------------------------------------- what is published


def test_what_is_published_is_exchanged_as_a_whole_when_the_group_lock_is_released() -> None:
    group_lock = GroupLock(membership(cluster_of_one()), threading.RLock())
    before = group_lock.published
    with group_lock() as lent:
        lent.refresh_metadata()
        lent.mark_in_flight({QUEUES[0]: (0, 10)})
        assert group_lock.published is before
    after = group_lock.published
    assert after.changes > before.changes
    assert after.masters == {"broker-a": BrokerAddress("broker-a:10911")}
    assert before.view.process_queues == {}
    assert after.view.process_queues.keys() == set(QUEUES)
    assert after.view.process_queues[QUEUES[0]].cached_count == 10
    with group_lock() as lent:
        lent.mark_completed({QUEUES[0]: 10}, {})
    assert after.view.process_queues[QUEUES[0]].cached_count == 10
    assert group_lock.published.view.process_queues[QUEUES[0]].cached_count == 0


def test_a_thread_that_fails_under_the_group_lock_publishes_what_it_has_done() -> None:
    group_lock = GroupLock(membership(cluster_of_one()), threading.RLock())
    with pytest.raises(ZeroDivisionError), group_lock() as lent:
        lent.refresh_metadata()
        _ = 1 // 0
    assert group_lock.published.view.process_queues.keys() == set(QUEUES)


def test_an_unresponsive_broker_is_not_polled_and_due_when_it_may_be_called_again() -> None:
    cluster = cluster_of_one()
    group_lock = GroupLock(membership(cluster), threading.RLock())
    with group_lock() as lent:
        lent.refresh_metadata()
    assert not group_lock.published.is_due(10**12)
    cluster.brokers["broker-a"].reach = Reach.UNRESPONSIVE
    with group_lock() as lent:
        lent.refresh_metadata()
    assert group_lock.published.masters == {}
    assert [group_lock.published.is_due(cluster.clock() + ms) for ms in (0, 249, 250)] == [False, False, True]


def test_what_ended_the_timed_work_is_raised_by_the_next_refresh() -> None:
    group_lock = GroupLock(membership(cluster_of_one()), threading.RLock())
    with group_lock() as lent:
        lent.crash = ZeroDivisionError("the thread")
    with pytest.raises(ZeroDivisionError, match="the thread"), group_lock() as lent:
        lent.refresh_metadata()


# ---------------------------------------------------------------------------------------------------- threads


class Watchdog:
    """Who is inside a method of a membership, and who came in meanwhile."""

    def __init__(self) -> None:
        self.inside: Counter[int] = Counter()
        self.calls = 0
        self.users: set[threading.Thread] = set()
        self.intrusions: Counter[str] = Counter()

    def used(self, name: str) -> None:
        others = [thread for thread, depth in tuple(self.inside.items()) if depth and thread != threading.get_ident()]
        self.users.add(threading.current_thread())
        self.intrusions.update([name] if others else [])

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            thread = threading.get_ident()
            self.inside[thread] += 1
            self.calls += 1
            try:
                return method(*given, **named)
            finally:
                self.inside[thread] -= 1

        return call


def watched(watchdog: Watchdog) -> type[Membership]:
    """A membership that notices who uses it, at every attribute."""

    class Watched(Membership):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            watchdog.used(name)
            return watchdog.around(found) if inspect.ismethod(found) else found

    return Watched


class Doorway:
    """The lock of a turn, that knows how many stand before it. ``guests``: how many threads will come, in all."""

    def __init__(self, guests: int) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._guests = guests
        self._waiting = 0

    def __enter__(self) -> None:
        self._change(waiting=1)
        self._lock.acquire()
        self._change(waiting=-1)

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def leave(self) -> None:
        """One guest comes no more."""
        self._change(guests=-1)

    def wait_until_required(self) -> None:
        """Until somebody stands before it, or nobody will."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._waiting or self._guests == 1, timeout=WAIT_S)

    def _change(self, *, waiting: int = 0, guests: int = 0) -> None:
        with self._changed:
            self._waiting += waiting
            self._guests += guests
            self._changed.notify_all()


def many_group_locks(group_lock: GroupLock, doorway: Doorway | None = None, count: int = 20) -> None:
    for _ in range(count):
        with group_lock() as lent:
            lent.refresh_metadata()
            lent.mark_completed({QUEUES[0]: 0}, {})
    if doorway is not None:
        doorway.leave()


def test_one_thread_at_a_time_uses_a_membership() -> None:
    """Each of its requests is made while another thread wants the turn."""
    cluster, watchdog, doorway = cluster_of_one(), Watchdog(), Doorway(guests=4)
    client = SimulatedClusterClient(cluster, "us")
    lent = watched(watchdog)(OPTIONS, "me", client, cluster.clock, cluster.clock, started_ms=1)
    group_lock = GroupLock(lent, doorway)
    client.before_each = doorway.wait_until_required
    threads = [threading.Thread(target=many_group_locks, args=(group_lock, doorway)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(watchdog.users) == 5, "four, and the one that made it"
    assert watchdog.intrusions == {}


def test_the_watchdog_sees_threads_without_the_group_lock() -> None:
    cluster, watchdog = cluster_of_one(), Watchdog()
    client, is_inside, may_resume = SimulatedClusterClient(cluster, "us"), threading.Event(), threading.Event()
    lent = watched(watchdog)(OPTIONS, "me", client, cluster.clock, cluster.clock, started_ms=1)
    group_lock = GroupLock(lent, threading.RLock())

    def wait_inside() -> None:
        is_inside.set()
        may_resume.wait(WAIT_S)

    client.before_each = wait_inside
    thread = threading.Thread(target=many_group_locks, args=(group_lock, None, 1))
    thread.start()
    assert is_inside.wait(WAIT_S)
    assert lent.crash is None
    may_resume.set()
    thread.join()
    assert watchdog.intrusions == {"crash": 1}


class AskingBroker:
    """Asks and notifies a member, as a reader thread does, in the middle of ``count`` of the member's requests."""

    def __init__(self, member: Member, count: int) -> None:
        self._member = member
        self._count = count
        self._is_requested = threading.Semaphore(0)
        self._has_called = threading.Semaphore(0)
        self.is_over = threading.Event()
        self.reported: list[RemotingCommand | None] = []

    def run(self) -> None:
        for _ in range(self._count):
            assert self._is_requested.acquire(timeout=WAIT_S)
            self.reported.append(self._member._on_request(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO)))
            self._member._on_request(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
            self._has_called.release()
        self.is_over.set()
        self._has_called.release()  # for a request that came in between

    def in_a_request(self) -> None:
        if not self.is_over.is_set():
            self._is_requested.release()
            assert self._has_called.acquire(timeout=WAIT_S)


class PollingHandler(SimulatedClusterClient):
    """A long poll is answered at once: an operator has reset the queue."""

    def broker(self, address: BrokerAddress) -> SimulatedBrokerClient:
        return PolledHandler(self, self.cluster.broker_at(address))


class PolledHandler(SimulatedBrokerClient):
    def long_poll(
        self, group: str, queue: MessageQueue, offset: int, suspend_ms: int, on_response: PullCallback
    ) -> None:
        on_response(PullResult(PullStatus.NO_NEW_MSG, OFFSET_RESET, 3, 0, 10, memoryview(b"")))


def test_a_running_member_its_planner_and_its_brokers_never_meet_in_the_membership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, watchdog = cluster_of_one(), Watchdog()
    client = PollingHandler(cluster, "us")
    monkeypatch.setattr(member_module, "Membership", watched(watchdog))
    monkeypatch.setattr(ClusterClient, "of", lambda *_: client)
    member = Member(OPTIONS)
    asking = AskingBroker(member, count=200)
    client.before_each = asking.in_a_request
    broker = threading.Thread(target=asking.run)
    broker.start()
    member.start()
    resets: dict[MessageQueue, int] = {}
    while not asking.is_over.is_set() or len(resets) < len(QUEUES) or len(watchdog.users) < 2:
        with member.group_lock() as lent:
            lent.refresh_metadata()
            resets |= lent.prune_resets()
        member.wait_for_change(dict.fromkeys(QUEUES, 0), timeout_ms=1)
    broker.join()
    member.stop()
    assert watchdog.intrusions == {}
    assert len(watchdog.users) == 2, "the planner's thread and the member's own"
    assert watchdog.calls > 100
    assert resets == dict.fromkeys(QUEUES, 3)
    assert len(asking.reported) == 200
    assert None not in asking.reported


def test_what_a_broker_has_not_confirmed_is_sent_again_after_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """``persistOffsetIntervalMs``, with a clock by hand: not a moment sooner."""
    clock = ManualClock(1_000_000)
    call_counter: Counter[int] = Counter()
    woken = threading.Event()

    def persist(_: OffsetCommitter) -> bool:
        call_counter[clock()] += 1
        woken.set()
        return True

    monkeypatch.setattr(OffsetCommitter, "persist", persist)
    monkeypatch.setattr(ClusterClient, "of", lambda *_: SimulatedClusterClient(cluster_of_one(), "us"))
    member = Member(replace(OPTIONS, persist_offset_interval_ms=700), clock=clock)
    member.start()
    for passed_ms, is_due in ((0, True), (699, False), (1, True), (700, True)):
        clock.advance(passed_ms)
        member._woken.set()
        assert woken.wait(WAIT_S if is_due else 0.3) is is_due
        woken.clear()
    member.stop()
    assert [at - 1_000_000 for at in call_counter][:3] == [0, 700, 1_400]


class Passing(threading.Event):
    """In place of the event that a member's thread waits for: time passes instead, step by step, and then it stops."""

    def __init__(self, clock: ManualClock, member: Member, steps: list[tuple[int, bool]]) -> None:
        super().__init__()
        self._clock = clock
        self._member = member
        self._steps = steps

    def wait(self, timeout: float | None = None) -> bool:
        if not self._steps:
            self._member._stopping.set()
            return False
        passed_ms, is_notified = self._steps.pop(0)
        self._clock.advance(passed_ms)
        if is_notified:
            self._member._on_request(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
        return is_notified


def test_the_group_is_probed_again_after_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """``rebalanceIntervalMs``: not a moment sooner, unless a broker reports of a change; from then on it counts
    again."""
    clock, probed = ManualClock(1_000_000), list[int]()

    class Looking(Membership):
        def rebalance(self) -> bool:
            probed.append(clock() - 1_000_000)
            return False

    monkeypatch.setattr(member_module, "Membership", Looking)
    monkeypatch.setattr(ClusterClient, "of", lambda *_: SimulatedClusterClient(cluster_of_one(), "us"))
    member = Member(replace(OPTIONS, rebalance_interval_ms=3_000), clock=clock)
    member._woken = Passing(clock, member, [(2_999, False), (1, False), (100, True), (2_999, False), (1, False)])
    member._work_until_stopped()
    assert probed == [0, 3_000, 3_100, 6_100]


def test_timed_work_that_fails_is_warned_of_when_it_fails_again_and_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, warned_s = ManualClock(1_000_000), list[int]()
    monkeypatch.setattr(ClusterClient, "of", lambda *_: SimulatedClusterClient(cluster_of_one(), "us"))
    member = Member(OPTIONS, clock=clock)

    def fail(_membership: Membership) -> None:
        raise RouteError("MASTER_UNAVAILABLE", broker="broker-a", topic="orders")

    for now_s in range(0, 601, 20):
        member._run_timed_work("Rebalance", 20_000, fail)
        warned_s += [now_s] if caplog.messages else []
        assert all(
            line.startswith("SCHEDULED_WORK_FAILED: Rebalance failed; retrying in 20 s: [") for line in caplog.messages
        )
        caplog.clear()
        clock.advance(20_000)
    assert warned_s == [20, 40, 80, 140, 260, 500]


def test_a_broker_gets_a_response_while_another_thread_holds_the_group_lock() -> None:
    """Who holds it may be waiting for the very thread that answers."""
    member, reported = Member(OPTIONS), list[RemotingCommand | None]()
    with member.group_lock():
        asking = threading.Thread(
            target=lambda: reported.append(member._on_request(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO)))
        )
        asking.start()
        asking.join(timeout=WAIT_S)
        assert len(reported) == 1


def test_a_member_that_leaves_does_not_wait_for_a_group_lock_that_a_signal_has_left_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGTERM may come when a turn is taken and its block not entered: nobody ends it before the process does."""
    cluster = cluster_of_one()
    monkeypatch.setattr(member_module, "LAST_WORK_MS", 50)
    monkeypatch.setattr(ClusterClient, "of", lambda *_: SimulatedClusterClient(cluster, "us"))
    member = Member(OPTIONS)
    has_left, may_end = threading.Event(), threading.Event()

    def be_unwound() -> None:
        left_open = member.group_lock()
        left_open.__enter__()
        member.start()
        member.stop()
        has_left.set()
        may_end.wait(WAIT_S)
        left_open.__exit__(None, None, None)

    main = threading.Thread(target=be_unwound, daemon=True)
    main.start()
    assert has_left.wait(WAIT_S)
    requests = cluster.now
    may_end.set()
    main.join()
    member._thread.join(WAIT_S)
    assert not member._thread.is_alive()
    assert cluster.now == requests, "who has left does no more timed work"
