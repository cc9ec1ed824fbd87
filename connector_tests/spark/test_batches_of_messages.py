"""A batch of shared messages is the same rows however it is read, and no other client's while it runs: over gRPC what
``test_message_granularity`` reports of brokers. When the workers that read it are killed: ``test_task_attempts``."""

from __future__ import annotations

import pytest

from connector_tests.spark import test_message_granularity as over_brokers
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Stream
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

test_a_batch_that_is_read_twice_has_the_same_rows = over_brokers.test_a_batch_that_is_read_twice_has_the_same_rows
test_a_batch_longer_than_the_invisibility_is_claimed_by_no_other_receiver = (
    over_brokers.test_a_batch_longer_than_the_invisibility_is_claimed_by_no_other_receiver
)


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(proxy=True)


@pytest.fixture
def stream(stream: StreamOf, cluster: EmbeddedCluster) -> StreamOf:
    """Makes queries that ask the proxy."""

    def make(name: str = "query", schema: str | None = None, **options: str) -> Stream:
        return stream(name, schema, endpoints=cluster.endpoints, **options)

    return make
