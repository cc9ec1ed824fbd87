"""The core stories in short on the oldest version of RocketMQ that is supported; all of them: ``test_versions``."""

from __future__ import annotations

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.core_scenarios import (
    test_a_recreated_topic_between_two_plans as test_a_recreated_topic_between_two_plans,
)
from connector_tests.support.core_scenarios import (
    test_a_time_finds_the_first_message_stored_then as test_a_time_finds_the_first_message_stored_then,
)
from connector_tests.support.core_scenarios import (
    test_start_and_restarts_read_each_message_once as test_start_and_restarts_read_each_message_once,
)
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import VERSIONS

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """RocketMQ 4."""
    return clusters.get(version=VERSIONS[0])
