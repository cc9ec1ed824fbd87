"""The core stories of queries to whom a proxy stands for the whole cluster."""

from __future__ import annotations

import pytest

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
from connector_tests.support.through_a_proxy import cluster as cluster
from connector_tests.support.through_a_proxy import stream as stream

pytestmark = pytest.mark.full
