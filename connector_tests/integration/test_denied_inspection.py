"""The lag that users with few permissions see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.cli.lag import query_lag
from rocketmq_spark.cli.lag_report import LagReport
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.acl import Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.security import Security

pytestmark = pytest.mark.broker

LagAs = Callable[..., LagReport]


@pytest.fixture
def guarded(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(acl=True)


@pytest.fixture
def lag_as(guarded: EmbeddedCluster, group: str) -> Iterator[LagAs]:
    """The lag of a group that has read one of two messages of a queue, and none of another, as a user with rights."""
    with (
        closing(Topic(guarded, guarded.create_topic(unique_name("watched"), 2))) as messages,
        closing(ConnectionPool(PATIENT_MS, security=guarded.security)) as pool,
    ):
        messages.send(4)
        broker = AdminBroker(BrokerAddress(guarded.broker_addr()), pool, PATIENT_MS)
        broker.ensure_group(group)
        broker.update_offset(group, messages.queues[0], 1)

        def query(*rights: Right) -> LagReport:
            user = guarded.create_user(unique_name("user"), *rights)
            with cluster_at(guarded.namesrv_addr, options_of(Security(user))) as client:
                return query_lag(client, [group], [messages.name])

        yield query


def test_permission_get_shows_the_lag_without_ages(lag_as: LagAs) -> None:
    report = lag_as(Right("Topic:*", ("GET",)), Right("Group:*", ("GET",)))
    assert [(row.committed_offset, row.lag, row.lag_ms) for row in report.rows] == [(1, 1, None), (None, 2, None)]
    assert report.unavailable == {}


def test_permission_sub_shows_ages_too(lag_as: LagAs) -> None:
    report = lag_as(Right("Topic:*", ("GET", "SUB")), Right("Group:*", ("GET", "SUB")))
    assert [(row.committed_offset, row.lag) for row in report.rows] == [(1, 1), (None, 2)]
    assert all(row.lag_ms is not None for row in report.rows)


def test_missing_permission_is_named(lag_as: LagAs, group: str) -> None:
    report = lag_as(Right("Topic:*", ("GET",)))
    assert report.rows == []
    (error,) = report.unavailable.values()
    assert error.startswith("[ROCKETMQ_GROUP_DENIED]")
    assert f"lacks a permission on group '{group}'" in error
