"""Queries that share messages through a proxy with ACL and TLS, with the rights that they need and no others.

``integration/test_message_ports`` has the proxies with one of the two, or neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.security import Security


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(proxy=True, acl=True, tls=True)


MemberOf = Callable[..., Stream]


@pytest.fixture
def member(spark: SparkSession, cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path) -> MemberOf:
    """A query of a user who has the rights that docs/security.md lists."""
    rights = [Right(f"Topic:{topic}", ("SUB",)), Right(f"Group:{group}", ("SUB",))]
    is_guarded = cluster.security.credentials is not None
    keys = options_of(Security(cluster.create_user(unique_name("user"), *rights))) if is_guarded else {}

    def make(name: str = "query", **options: str) -> Stream:
        by_message = {"endpoints": cluster.endpoints, "loadBalance": "message"}
        return Stream(spark, cluster, topic, group, tmp_path / name, by_message | keys | options)

    return make


def test_a_query_reads_acknowledges_and_restarts(messages: Topic, member: MemberOf) -> None:
    reading, sent = member(), list[str]()
    for count in (25, 140, 7):
        sent += messages.send(count)
        reading.run_to_end()
        assert reading.bodies() == sorted(sent)
