"""A batch of shared messages is the same rows however it is read, and no other client's while it runs: over gRPC what
``test_message_granularity`` reports of brokers, and over both when the workers that read it are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector_tests.spark import test_message_granularity as over_brokers
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.process_tree import written_bodies
from connector_tests.support.run_to_end_job import DYING, run_to_end
from connector_tests.support.streams import Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

test_a_batch_that_is_read_twice_has_the_same_rows = over_brokers.test_a_batch_that_is_read_twice_has_the_same_rows
test_a_batch_longer_than_the_invisibility_is_claimed_by_no_other_receiver = (
    over_brokers.test_a_batch_longer_than_the_invisibility_is_claimed_by_no_other_receiver
)

SETTINGS = {"spark.master": "local[2,4]"}


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(proxy=True)


@pytest.fixture
def stream(stream: StreamOf, cluster: EmbeddedCluster) -> StreamOf:
    """Makes queries that ask the proxy."""

    def make(name: str = "query", schema: str | None = None, **options: str) -> Stream:
        return stream(name, schema, endpoints=cluster.endpoints, **options)

    return make


@pytest.mark.parametrize("over", ["namesrvAddr", "endpoints"])
def test_when_workers_are_killed_their_tasks_have_the_same_rows_again(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path, over: str
) -> None:
    sent = messages.send(40)
    server = {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest"}
    if over == "endpoints":
        server = {"endpoints": cluster.endpoints}
    options = {"consumerGroup": group, "subscribe": messages.name, "loadBalance": "message", **server}
    outcome = run_to_end(tmp_path / "job", SETTINGS, options | {"maxRecordsPerPartition": "10"}, DYING)
    assert outcome.error == ""
    assert "Python worker exited unexpectedly" in outcome.log
    assert sorted(written_bodies(tmp_path / "job")) == sorted(sent)
