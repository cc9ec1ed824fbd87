"""Locks at several brokers, some of which are silent or refuse, and for how long they are trusted."""

from __future__ import annotations

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queues
from connector_tests.support.simulated_cluster import Reach, SimulatedCluster, SimulatedClusterClient
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.queue_locks import LOCK_VALID_MS, QueueLocks
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.options import ReadOptions

A0, A1 = queues(2, broker_name="a")
B0, B1 = queues(2, broker_name="b")
ALL = (A0, A1, B0, B1)
OPTIONS = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})


@pytest.fixture
def cluster() -> SimulatedCluster:
    cluster = SimulatedCluster("ab", ManualClock())
    cluster.create_topic("orders", {"a": 2, "b": 2})
    return cluster


@pytest.fixture
def locks(cluster: SimulatedCluster) -> QueueLocks:
    client = SimulatedClusterClient(cluster, "us")
    servers = OutageAwareClient(
        OPTIONS,
        client,
        SubscribedTopics(OPTIONS),
        OutageTracker(SubscribedTopics(OPTIONS), client.routes, cluster.clock),
    )
    servers.topic_routes.refresh()
    return QueueLocks("g", "me", servers, cluster.clock)


def holders(cluster: SimulatedCluster) -> dict[object, str]:
    return {queue: owner for broker in cluster.brokers.values() for queue, (owner, _) in broker.locks.items()}


def test_each_broker_locks_its_own(cluster: SimulatedCluster, locks: QueueLocks) -> None:
    assert locks.lock(ALL) == set()
    assert holders(cluster) == dict.fromkeys(ALL, "me")
    assert all(locks.is_held(queue) for queue in ALL)
    assert {locks.locked_ms(queue) for queue in ALL} == {cluster.clock()}


def test_what_brokers_refuse_is_reported_for_each_of_them(cluster: SimulatedCluster, locks: QueueLocks) -> None:
    for queue in (A1, B0):
        cluster.brokers[queue.broker_name].locks[queue] = ("you", cluster.clock())
    assert locks.lock(ALL) == {A1, B0}
    assert [locks.is_held(queue) for queue in ALL] == [True, False, False, True]
    assert (locks.locked_ms(A1), locks.locked_ms(A0)) == (None, cluster.clock())


def test_unresponsive_brokers_change_nothing(cluster: SimulatedCluster, locks: QueueLocks) -> None:
    cluster.brokers["b"].reach = Reach.UNRESPONSIVE
    assert locks.lock(ALL) == set()
    assert [locks.is_held(queue) for queue in ALL] == [True, True, False, False]


def test_a_lock_is_trusted_for_so_long_and_is_renewed_when_it_is_requested_again(
    cluster: SimulatedCluster, locks: QueueLocks
) -> None:
    locks.lock([A0, A1])
    cluster.clock.advance(LOCK_VALID_MS - 1)
    assert locks.is_held(A0)
    locks.lock([A0])
    cluster.clock.advance(1)
    assert [locks.is_held(queue) for queue in (A0, A1)] == [True, False]


def test_what_is_unlocked_is_free_at_each_broker_until_it_is_forgotten_it_is_assumed_to_be_held(
    cluster: SimulatedCluster, locks: QueueLocks
) -> None:
    locks.lock(ALL)
    locks.unlock([A0, B0])
    assert holders(cluster) == {A1: "me", B1: "me"}
    locks.discard([A0, B0])
    assert [locks.is_held(queue) for queue in ALL] == [False, True, False, True]
    locks.discard([A0])
