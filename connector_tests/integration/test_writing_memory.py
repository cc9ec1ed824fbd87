"""A task that writes many rows holds few of them at a time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = [pytest.mark.broker, pytest.mark.full]

BOUND_KIB = 256 * 1024
GROWTH_KIB = 16 * 1024
"""Between a third of the rows and all of them."""


def assert_flat(cluster: EmbeddedCluster, rows: int) -> None:
    topic = cluster.create_topic(unique_name("flat"))
    command = [sys.executable, "-m", "connector_tests.support.writing_memory", cluster.namesrv_addr, topic, str(rows)]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert printed["rows"] == rows
    assert printed["end_kib"] <= BOUND_KIB, printed
    assert printed["end_kib"] - printed["third_kib"] <= GROWTH_KIB, printed


def test_the_memory_of_a_task_that_writes_is_flat(cluster: EmbeddedCluster) -> None:
    assert_flat(cluster, 300_000)


@pytest.mark.long
def test_the_memory_of_a_task_that_writes_five_million_rows_is_flat() -> None:
    """On a broker of its own, whose store is gone afterwards."""
    with EmbeddedCluster() as own:
        assert_flat(own, 5_000_000)
