"""The metrics of a query that runs, beside what RocketMQ's own tool and ``rocketmq-spark lag`` show of its group."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.spark.test_operators_view import Gate, diff_total
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.cli.lag import query_lag
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.metrics.metric_table import PREFIX
from rocketmq_spark.metrics.prometheus import PrometheusListener
from rocketmq_spark.spark_version import HAS_READ_LIMITS

pytestmark = pytest.mark.full

IDLE_EVENTS: Final = "spark.sql.streaming.noDataProgressEventInterval"
BATCH: Final = 12
SENT: Final = 38
HELD_BATCH: Final = 2


@pytest.fixture
def metrics(spark: SparkSession) -> Iterator[CollectorRegistry]:
    """Of all queries of the session."""
    registry = CollectorRegistry()
    listener = PrometheusListener(spark, registry)
    spark.streams.addListener(listener)
    spark.conf.set(IDLE_EVENTS, "500")
    yield registry
    spark.conf.unset(IDLE_EVENTS)
    spark.streams.removeListener(listener)


def values(metrics: CollectorRegistry, name: str) -> list[float]:
    """Return the values of a metric: of one query, or of each of its queues."""
    samples = (sample for family in metrics.collect() for sample in family.samples)
    return [sample.value for sample in samples if sample.name == PREFIX + name]


def lag_by_queue(metrics: CollectorRegistry) -> dict[int, float]:
    samples = (sample for family in metrics.collect() for sample in family.samples)
    return {int(one.labels["queue"]): one.value for one in samples if one.name == f"{PREFIX}queue_lag_messages"}


def test_figures_are_those_of_the_operators_tools_while_a_query_runs(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str, metrics: CollectorRegistry
) -> None:
    """When a batch waits to be written, the batches before it are committed, and their progress is sent."""
    messages.send(SENT)
    gate, batches, measured = Gate(), count(), stream(maxOffsetsPerTrigger=str(BATCH))
    measured.before_each_batch = lambda: gate.pass_by() if next(batches) == HELD_BATCH else None
    gate.close()
    with measured.running():
        gate.await_batch()
        eventually(lambda: values(metrics, "rows_total") == [HELD_BATCH * BATCH], "the events of two batches")
        assert_as_the_tools_show(cluster, messages.name, group, metrics, lag=SENT - HELD_BATCH * BATCH)
        gate.open()
        eventually(lambda: values(metrics, "rows_total") == [SENT], "the events of all batches")
        eventually(lambda: messages.lag(group) == 0, "all committed")
        assert_as_the_tools_show(cluster, messages.name, group, metrics, lag=0)
        (seen,) = values(metrics, "last_progress_timestamp_seconds")
        eventually(lambda: values(metrics, "last_progress_timestamp_seconds") > [seen], "progress without new messages")
        assert (values(metrics, "rows_total"), values(metrics, "up")) == ([SENT], [1])
        assert values(metrics, "outages") == ([0] if HAS_READ_LIMITS else [])
    eventually(lambda: values(metrics, "up") == [], "no metrics of a query that was stopped")


def assert_as_the_tools_show(
    cluster: EmbeddedCluster, topic: str, group: str, metrics: CollectorRegistry, *, lag: int
) -> None:
    assert values(metrics, "lag_messages") == [lag]
    assert diff_total(cluster.mqadmin("consumerProgress", "-g", group)) == lag
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        rows = query_lag(client, [group], [topic]).rows
    assert lag_by_queue(metrics) == ({row.queue_id: row.lag for row in rows} if HAS_READ_LIMITS else {})
    assert sum(row.lag for row in rows) == lag
