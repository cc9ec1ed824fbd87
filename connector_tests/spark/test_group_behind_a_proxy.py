"""A group that shares queues through a proxy's remoting port, where it requests keys and where it does not: restarts,
a Java member beside a query, and a proxy that is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.core_scenarios import (
    test_start_and_restarts_read_each_message_once as test_start_and_restarts_read_each_message_once,
)
from connector_tests.support.java_group import java_group
from connector_tests.support.streams import Topic, eventually, owned_queues
from connector_tests.support.through_a_proxy import stream as stream
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = pytest.mark.full

TRIGGER = "300 milliseconds"
REBALANCE_INTERVAL_MS = 2_000
TIMEOUT_MS = PATIENT_MS
OUTAGE_S = 8.0
"""Longer than a request of the query waits for its answer."""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "ACL"])
def cluster(request: pytest.FixtureRequest, clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    with clusters.using(separate_jvms=True, proxy=True, acl=request.param) as cluster:
        yield cluster


def members(cluster: EmbeddedCluster, topic: str, group: str) -> list[str]:
    """Client ids, by the proxy: brokers know of nobody behind it."""
    with closing(ConnectionPool(TIMEOUT_MS, security=cluster.security)) as pool:
        route = NameServers((cluster.proxy_addr,), pool, TIMEOUT_MS).query_topic_route(topic)
        address = route.master_address("broker-a")
        assert address is not None
        return AdminBroker(address, pool, TIMEOUT_MS).submit_consumer_ids(group).result()


def test_a_java_member_and_a_query_share_the_queues_behind_it(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    """What is sent when both have settled comes once, some of it to each; who stays has all when the other has left."""
    query = stream(rebalanceIntervalMs=str(REBALANCE_INTERVAL_MS))
    with java_group(REBALANCE_INTERVAL_MS) as java, query.running(processingTime=TRIGGER) as our_query:
        eventually(lambda: len(members(cluster, messages.name, group)) == 1, "the query in the group")
        keys = cluster.security.credentials
        member = java.push(cluster.proxy_addr, group, messages.name, "java", keys)
        eventually(lambda: len(members(cluster, messages.name, group)) == 2, "both in the group")
        eventually(lambda: len(owned_queues(our_query)) == 2, "half of the queues are the query's")
        time.sleep(3 * REBALANCE_INTERVAL_MS / 1000)
        sent = messages.send(40)
        eventually(lambda: len(query.places()) + len(member.bodies()) >= len(sent), "all of them")
        assert sorted(query.bodies() + member.bodies()) == sorted(sent)
        assert query.places() and member.bodies()
        member.leave()
        sent = messages.send(20)
        eventually(lambda: set(sent) <= set(query.bodies()), "the query alone")


def test_a_killed_proxy_costs_nothing(cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str) -> None:
    query = stream()
    with query.running(processingTime=TRIGGER):
        sent = messages.send(40)
        eventually(lambda: query.bodies() == sorted(sent), "those before")
        cluster.kill_proxy()
        sent += messages.send(40)
        time.sleep(OUTAGE_S)
        assert len(query.places()) == 40
        cluster.start_proxy()
        sent += messages.send(40)
        eventually(lambda: len(query.places()) >= len(sent), "those since then")
        assert query.bodies() == sorted(sent)
        eventually(lambda: messages.lag(group) == 0, "all committed")
