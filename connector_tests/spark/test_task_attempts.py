"""What Spark tries again: a limit is the query's, whatever its number of attempts; and what an operator gives up. And a
batch of shared messages is the same rows when the workers that read it are killed, over brokers and over gRPC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connector_tests.support.cluster_pool import ClusterPool, RestingCluster
from connector_tests.support.fault_proxy import FaultProxy
from connector_tests.support.process_tree import written_bodies
from connector_tests.support.pull_gate import shut_gate
from connector_tests.support.run_to_end_job import DYING, RunsToEnd, runs_to_end
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

PROXY_HOST = "127.0.0.2"
WARNING = "OFFSETS_SKIPPED: "
LIMIT_S = 30
BROKER_TIMEOUT_S = 2.0
SLACK_S = 120 * TIMEOUT_FACTOR
"""To start a query and four tasks on a busy machine. Four limits are longer."""


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


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunsToEnd]:
    """A Spark whose tasks have four attempts."""
    with runs_to_end(tmp_path_factory.mktemp("attempts"), **{"spark.master": "local[2,4]"}) as runs:
        yield runs


def test_an_unreadable_batch_fails_within_one_limit_and_is_skipped_by_name(
    cluster: EmbeddedCluster,
    proxy: FaultProxy,
    attempts: RunsToEnd,
    messages: Topic,
    group: str,
    tmp_path: Path,
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
        failed = attempts.run(folder, options)
        assert "ROCKETMQ_CLUSTER_TIMEOUT" in failed.error
        assert LIMIT_S <= failed.seconds <= LIMIT_S + SLACK_S
        named = re.search(r"messages are then lost: (\S+)", failed.error)
        assert named is not None
        eventually(lambda: messages.members(group) == [], "the member has left")
    skipped = attempts.run(folder, options | {"skipRanges": named[1]})
    assert written_bodies(folder) == []
    assert skipped.error == ""
    eventually(lambda: re.search(rf"{WARNING}.*\n", attempts.log) is not None, "the warning")
    (warning,) = [line for line in attempts.log.splitlines() if WARNING in line]
    assert re.match(rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN rocketmq_spark \[group={group} ", warning), "as all lines are"
    assert f": Skipping {sent} offsets as configured by " in warning
    assert warning.endswith(f": {named[1]}")
    assert messages.lag(group) == 0
    assert attempts.log.count(WARNING) == 1
    more = messages.send_batches(10)
    assert attempts.run(folder, options | {"skipRanges": named[1]}).error == ""
    assert sorted(written_bodies(folder)) == sorted(more)


@pytest.mark.parametrize("over", ["namesrvAddr", "endpoints"])
def test_when_workers_are_killed_their_tasks_have_the_same_rows_again(
    clusters: ClusterPool, attempts: RunsToEnd, group: str, tmp_path: Path, over: str
) -> None:
    with_proxy = clusters.get(proxy=True)
    with closing(Topic(with_proxy, with_proxy.create_topic(unique_name("killed")))) as messages:
        sent = messages.send(40)
    server = {"namesrvAddr": with_proxy.namesrv_addr, "startingOffsets": "earliest"}
    if over == "endpoints":
        server = {"endpoints": with_proxy.endpoints}
    options = {"consumerGroup": group, "subscribe": messages.name, "loadBalance": "message", **server}
    outcome = attempts.run(tmp_path / "job", options | {"maxRecordsPerPartition": "10"}, DYING)
    assert outcome.error == ""
    assert "Python worker exited unexpectedly" in attempts.log
    assert sorted(written_bodies(tmp_path / "job")) == sorted(sent)
