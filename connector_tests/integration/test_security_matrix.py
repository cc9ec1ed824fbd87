"""Queries with the rights that docs/security.md lists, on clusters with ACL, TLS, both or neither.

Spark's calls without Spark; ``spark/test_secured`` has a whole query on a cluster with both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

import rocketmq_spark
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.security_shapes import SECURITY_SHAPES, user_options
from connector_tests.support.source_calls import source_calls
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.model import retry_topic

pytestmark = pytest.mark.broker

SENT = 12
SCHEMA = (
    StructType()
    .add("topic", StringType())
    .add("brokerName", StringType())
    .add("msgId", StringType())
    .add("body", BinaryType())
    .add("commitLogOffset", LongType())
)
ONE_SECOND = 1

OptionsOf = Callable[..., dict[str, str]]


@pytest.fixture(scope="module", params=SECURITY_SHAPES)
def cluster(request: pytest.FixtureRequest, clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    with clusters.using(**request.param) as cluster:
        yield cluster


@pytest.fixture
def options(cluster: EmbeddedCluster, topic: str, group: str) -> OptionsOf:
    """Options of a query whose user has the rights in docs/security.md, and ``more``."""

    def make(*more: Right, **further: str) -> dict[str, str]:
        rights = [Right(f"Topic:{topic}", ("SUB", "GET")), Right(f"Group:{group}", ("SUB",)), *more]
        given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic, **PATIENT}
        return given | cluster.security_options | user_options(cluster, *rights) | further

    return make


def bodies(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["body"].decode() for row in rows)


def test_query_with_listed_rights_reads_commits_and_restarts(messages: Topic, options: OptionsOf, group: str) -> None:
    given = options(startingOffsets="earliest")
    for _ in range(2):
        sent = messages.send(SENT)
        with source_calls(given, SCHEMA) as source:
            assert bodies(source.next_batch()) == sorted(sent)
            assert source.next_batch() == []
        assert messages.lag(group) == 0


def test_orderly_query_from_a_time_locks_its_queues(messages: Topic, options: OptionsOf, group: str) -> None:
    sent = messages.send(SENT)
    with source_calls(options(consumeOrderly="true", startingTimestamp="1000"), SCHEMA) as source:
        assert bodies(source.next_batch()) == sorted(sent)
        assert messages.lockable(group) == set()
        assert source.next_batch() == []
    eventually(lambda: messages.lockable(group) == set(messages.queues), "all queues unlocked")


def test_row_sent_back_is_in_the_retry_topic(
    cluster: EmbeddedCluster, messages: Topic, options: OptionsOf, group: str
) -> None:
    messages.send(1)
    given = options(Right(f"Group:{group}", ("GET",)), startingOffsets="earliest", retryTopic="true")
    with source_calls(given, SCHEMA) as source:
        rows = source.next_batch()
        rocketmq_spark.send_back([Row(**row) for row in rows], given, delay_level=ONE_SECOND)
    with closing(Topic(cluster, retry_topic(group))) as retried:
        eventually(lambda: sum(held.max_offset for held in retried.bounds().values()) == 1, "a message sent back")
