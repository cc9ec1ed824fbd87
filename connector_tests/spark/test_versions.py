"""The core stories on all the versions of RocketMQ that are supported: ``make test-versions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from connector_tests.support.core_scenarios import (
    test_a_java_member_and_a_query_share_the_queues as test_a_java_member_and_a_query_share_the_queues,
)
from connector_tests.support.core_scenarios import (
    test_a_killed_broker_costs_nothing as test_a_killed_broker_costs_nothing,
)
from connector_tests.support.core_scenarios import (
    test_a_recreated_topic_between_two_plans as test_a_recreated_topic_between_two_plans,
)
from connector_tests.support.core_scenarios import (
    test_a_recreated_topic_is_noticed as test_a_recreated_topic_is_noticed,
)
from connector_tests.support.core_scenarios import (
    test_a_tag_filter_reads_the_tag_and_moves_past_the_rest as test_a_tag_filter_reads_the_tag_and_moves_past_the_rest,
)
from connector_tests.support.core_scenarios import (
    test_a_time_finds_the_first_message_stored_then as test_a_time_finds_the_first_message_stored_then,
)
from connector_tests.support.core_scenarios import (
    test_batch_read_is_bound_once_for_all_actions as test_batch_read_is_bound_once_for_all_actions,
)
from connector_tests.support.core_scenarios import (
    test_start_and_restarts_read_each_message_once as test_start_and_restarts_read_each_message_once,
)
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import VERSIONS

pytestmark = pytest.mark.versions


class Brokers(NamedTuple):
    """A version of RocketMQ and what it keeps its queues in."""

    version: str
    store_type: str = "default"

    def __str__(self) -> str:
        return f"{self.version} {self.store_type}"


ALL = [*map(Brokers, VERSIONS), Brokers("5.5.0", "defaultRocksDB")]


@pytest.fixture(scope="module", params=ALL, ids=str)
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """Of one version after the other."""
    settings = {"storeType": request.param.store_type}
    with EmbeddedCluster(version=request.param.version, broker_config=settings, separate_jvms=True) as cluster:
        yield cluster
