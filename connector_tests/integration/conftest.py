from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.cli import arguments
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.options.connection import connection_options


@pytest.fixture(scope="module")
def cluster_with_proxy(grpc_library: None, clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    """For tests whose clients speak gRPC in this process."""
    with clusters.using(proxy=True) as one:
        yield one


@pytest.fixture
def messages(cluster: EmbeddedCluster, topic: str) -> Iterator[Topic]:
    """The test's topic, to send to and to ask about."""
    handle = Topic(cluster, topic)
    yield handle
    handle.close()


@pytest.fixture
def namesrv_addr(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands connect to the cluster without ``--namesrv``, and wait for servers that stand still."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv_addr)
    monkeypatch.setattr(arguments, "connection_options", lambda given: connection_options({**PATIENT, **given}))
