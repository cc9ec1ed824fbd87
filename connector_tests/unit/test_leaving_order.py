"""The order in which a member leaves, as docs/dev/processes-threads-locks.md writes it down."""

from __future__ import annotations

import threading
from typing import NamedTuple

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import SimulatedCluster, SimulatedClusterClient
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.cluster_client import ClusterClient

ORDERLY = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "consumeOrderly": "true"}


class Noted(NamedTuple):
    """A request, and what was so by then."""

    name: str
    does_timed_work: bool
    is_connected: bool
    stored: int | None


class NotedHandler(SimulatedClusterClient):
    """Notes what is requested by whoever lets the member leave."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "us")
        self.noted: list[Noted] = []
        self.leaving: Member | None = None

    def arrive(self, name: str) -> None:
        super().arrive(name)
        if self.leaving is not None and threading.current_thread() is threading.main_thread():
            member, stored = self.leaving, self.cluster.group_offset(self.cluster.queues()[0])
            is_connected = not member._pool._is_closed
            self.noted.append(Noted(name.removesuffix(" broker-a"), member._thread.is_alive(), is_connected, stored))


def test_a_member_leaves_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster(["broker-a"], ManualClock(1_000_000))
    cluster.create_topic("orders", {"broker-a": 2})
    proven, unproven = cluster.queues()
    client, broker = NotedHandler(cluster), cluster.brokers["broker-a"]
    monkeypatch.setattr(ClusterClient, "of", lambda *_: client)
    monkeypatch.setattr(Member, "_work_until_stopped", lambda member: member._stopping.wait())
    member = Member(ReadOptions.parse(ORDERLY), clock=cluster.clock)
    member.start()
    with member.group_lock() as lent:
        lent.refresh_metadata()
        lent.mark_in_flight({proven: (0, 10), unproven: (0, 10)})
        broker.unacknowledged_writes = {proven}
        lent.mark_completed({proven: 10}, {})
        broker.unacknowledged_writes = set()
    cluster.clock.advance(6_000)
    client.leaving = member
    assert broker.locks.keys() == {proven, unproven}
    member.stop()
    requests = [one.name for one in client.noted]
    assert requests == ["read offsets", "write offsets", "read offsets", "unlock", "unregister"]
    assert not any(one.does_timed_work for one in client.noted)
    assert all(one.is_connected for one in client.noted)
    assert [one.stored for one in client.noted] == [None, None, 10, 10, 10]
    assert broker.locks.keys() == {unproven}, "its range is read to the end; nobody else may begin before"
    assert member._pool._is_closed
    assert broker.connections == {}


def test_stop_closes_connections_if_leaving_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster(["broker-a"], ManualClock(1_000_000))
    cluster.create_topic("orders", {"broker-a": 1})
    (queue,), broker = cluster.queues(), cluster.brokers["broker-a"]
    monkeypatch.setattr(ClusterClient, "of", lambda *_: SimulatedClusterClient(cluster, "us"))
    monkeypatch.setattr(Member, "_work_until_stopped", lambda member: member._stopping.wait())
    member = Member(ReadOptions.parse(ORDERLY), clock=cluster.clock)
    member.start()
    with member.group_lock() as membership:
        membership.refresh_metadata()
        membership.mark_in_flight({queue: (0, 10)})
        broker.unacknowledged_writes = {queue}
        membership.mark_completed({queue: 10}, {})
    cluster.clock.advance(6_000)
    broker.refusal = BrokerError("TOPIC_DENIED", address="a:1", request="PULL", code=16, remark="no", topic="orders")
    with pytest.raises(BrokerError, match="TOPIC_DENIED"):
        member.stop()
    assert member._pool._is_closed
