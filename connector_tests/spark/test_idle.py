"""What a query costs that has nothing to do: no batch, hardly a request, hardly any processor time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from connector_tests.support.request_count import RequestCount, counted_cluster
from connector_tests.support.streams import Stream, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full


@pytest.fixture
def proxied() -> Iterator[tuple[EmbeddedCluster, RequestCount]]:
    with counted_cluster() as found:
        yield found


def source_runner() -> psutil.Process:
    """The Python process that Spark started for the one running query."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a zombie is one, too
            if "python_streaming_source_runner" in " ".join(child.cmdline()):
                return child
    raise AssertionError("no source runner is running")


def logged_batches(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoint" / "offsets").iterdir() if path.name.isdigit())


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.mark.parametrize("idle_s", [20, pytest.param(60, marks=pytest.mark.long)])
def test_an_idle_query_starts_no_batch_and_costs_almost_nothing(
    spark: SparkSession, proxied: tuple[EmbeddedCluster, RequestCount], tmp_path: Path, idle_s: int
) -> None:
    cluster, requests = proxied
    topic = Topic(cluster, cluster.create_topic("idle", 4))
    stream = Stream(spark, cluster, "idle", "idle-group", tmp_path)
    with stream.running():
        sent = topic.send(10)
        eventually(lambda: stream.bodies() == sorted(sent), "the first rows")
        eventually(lambda: topic.lag("idle-group") == 0, "the commit")
        topic.close()
        time.sleep(2)  # the batch after the last message, which commits it
        requests.clear()
        runner, batches = source_runner(), logged_batches(tmp_path)
        before = processor_seconds(runner)
        time.sleep(idle_s)
        used = processor_seconds(runner) - before
        assert logged_batches(tmp_path) == batches
        assert sum(requests.by_code.values()) <= 2 * idle_s, requests.by_code
        eventually(lambda: requests.by_code["PULL_MESSAGE"] > 0, "a poll, else the count is no evidence")
        assert used <= 0.02 * idle_s, f"{used:.2f} s of processor time in {idle_s} s"
