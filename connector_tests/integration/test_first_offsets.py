"""Of the first offsets of a group and topic that come at once, a broker confirms some and loses them.

A thing of chance, hence the many groups: 9, 8 and none of 2,000 in three runs. ``unit/test_membership`` shows it in
short.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(600)]

GROUPS = 2_000
MOST_GROUPS = 10_000
"""As long as the broker has lost none, what the member does states nothing."""
QUEUES = 8
TIMEOUT_MS = int(5_000 * TIMEOUT_FACTOR)
OFFSET = 7


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(TIMEOUT_MS)
    yield pool
    pool.close()


def test_a_member_checks_again_and_no_first_offset_is_lost(cluster: EmbeddedCluster, pool: ConnectionPool) -> None:
    remote = ClusterClient((cluster.namesrv_addr,), pool, TIMEOUT_MS)
    topic = unique_name("orders")
    cluster.create_topic(topic, QUEUES)
    (broker_name,) = cluster.broker_names
    to_write = {MessageQueue(topic, broker_name, queue_id): OFFSET for queue_id in range(QUEUES)}
    lost_by_broker = lost_by_member = 0
    broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)
    for tried in range(MOST_GROUPS):
        if tried >= GROUPS and lost_by_broker:
            break
        reported, raised = unique_name("told"), unique_name("raised")
        broker.ensure_group(reported)
        assert broker.submit_update_offsets(reported, to_write).result() == {}
        member = member_of(raised, topic, cluster, remote)
        assert member.offsets.raise_to(to_write) == to_write.keys()
        member.leave()
        lost_by_broker += broker.query_offsets(reported, to_write) != to_write
        lost_by_member += broker.query_offsets(raised, to_write) != to_write
    assert lost_by_broker > 0, "the broker has got better: nobody need look again"
    assert lost_by_member == 0


def member_of(group: str, topic: str, cluster: EmbeddedCluster, remote: ClusterClient) -> Membership:
    """One that has joined its group."""
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic}
    member = Membership(ReadOptions.parse(given), "me", remote, monotonic_ms, monotonic_ms, started_ms=1)
    member.refresh_metadata()
    return member
