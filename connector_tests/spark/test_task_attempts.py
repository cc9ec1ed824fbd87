"""What Spark tries again: a limit is the query's, whatever its number of attempts; and what an operator gives up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.fault_proxy import FaultProxy
from connector_tests.support.process_tree import written_bodies
from connector_tests.support.pull_gate import shut_gate
from connector_tests.support.run_to_end_job import run_to_end
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

PROXY_HOST = "127.0.0.2"
LIMIT_S = 30
BROKER_TIMEOUT_S = 2.0
SLACK_S = 120 * TIMEOUT_FACTOR
"""To start a query and four tasks on a busy machine. Four limits are longer."""

SETTINGS = {"spark.master": "local[2,4]"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Instead of the session's: its broker is behind a proxy."""
    with RestingCluster(advertised_host=PROXY_HOST) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def proxy(cluster: EmbeddedCluster) -> Iterator[FaultProxy]:
    port = int(cluster.broker_addr().rpartition(":")[2])
    with FaultProxy(cluster.broker_addr(), PROXY_HOST, port) as proxy:
        yield proxy


def test_an_unreadable_batch_fails_within_one_limit_and_is_skipped_by_name(
    cluster: EmbeddedCluster, proxy: FaultProxy, messages: Topic, group: str, tmp_path: Path
) -> None:
    sent = len(messages.send_batches(1_000))
    folder = tmp_path / "job"
    options = {
        "namesrvAddr": cluster.namesrv_addr,
        "subscribe": messages.name,
        "consumerGroup": group,
        "startingOffsets": "earliest",
        "clusterTimeoutMs": str(1_000 * LIMIT_S),
        "brokerTimeoutMs": str(int(1_000 * BROKER_TIMEOUT_S)),
    }
    with shut_gate(proxy):
        failed = run_to_end(folder, SETTINGS, options)
        assert "ROCKETMQ_CLUSTER_TIMEOUT" in failed.error
        assert LIMIT_S <= failed.seconds <= LIMIT_S + SLACK_S
        named = re.search(r"messages are then lost: (\S+)", failed.error)
        assert named is not None
        eventually(lambda: messages.members(group) == [], "the member has left")
    skipped = run_to_end(folder, SETTINGS, options | {"skipRanges": named[1]})
    assert written_bodies(folder) == []
    assert skipped.error == ""
    (warning,) = [line for line in skipped.log.splitlines() if "OFFSETS_SKIPPED: " in line]
    assert re.match(rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN rocketmq_spark \[group={group} ", warning), "as all lines are"
    assert f": Skipping {sent} offsets as configured by " in warning
    assert warning.endswith(f": {named[1]}")
    assert messages.lag(group) == 0
    more = messages.send_batches(10)
    assert run_to_end(folder, SETTINGS, options | {"skipRanges": named[1]}).error == ""
    assert sorted(written_bodies(folder)) == sorted(more)
