"""Fixtures for modules whose queries know nothing but a proxy's remoting port; what tests send goes to the brokers."""

from __future__ import annotations

import pytest

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Stream
from rocketmq_spark.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """With a JVM for each server alone, which stories kill."""
    return clusters.get(separate_jvms=True, proxy=True)


@pytest.fixture
def stream(stream: StreamOf, cluster: EmbeddedCluster) -> StreamOf:
    """Makes queries that know the proxy only."""

    def make(name: str = "query", schema: str | None = None, **options: str) -> Stream:
        return stream(name, schema, namesrvAddr=cluster.proxy_addr, **options)

    return make
