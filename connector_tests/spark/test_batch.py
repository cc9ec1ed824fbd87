"""Batch reads: ``spark.read`` of topics, which knows no consumer group."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from connector_tests.support.streams import Topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

ReadOf = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, cluster: EmbeddedCluster, messages: Topic) -> ReadOf:
    """Loads the test's topic."""

    def load(**options: str) -> DataFrame:
        given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name} | options
        return spark.read.format("rocketmq").options(**given).load()

    return load


@pytest.fixture
def others(cluster: EmbeddedCluster) -> Iterator[Topic]:
    """A second topic."""
    topic = Topic(cluster, cluster.create_topic(unique_name("others"), 2))
    yield topic
    topic.close()


def bodies(frame: DataFrame) -> list[str]:
    return sorted(row.body for row in frame.selectExpr("CAST(body AS STRING) AS body").collect())


def test_read_of_two_topics_returns_every_message_once(messages: Topic, others: Topic, read: ReadOf) -> None:
    sent = messages.send(20) + others.send(10)
    frame = read(subscribe=f"{messages.name}, {others.name}")
    assert bodies(frame) == sorted(sent)
    assert {row.topic for row in frame.select("topic").collect()} == {messages.name, others.name}


def test_end_is_bound_once_for_all_actions_of_a_frame(messages: Topic, read: ReadOf) -> None:
    sent = messages.send(10)
    frame = read()
    assert frame.count() == 10
    messages.send(5)
    assert bodies(frame) == sorted(sent)
    assert frame.union(frame).count() == 20
    assert read().count() == 15, "each load() binds its own end"


def test_read_of_an_empty_topic_has_no_rows(read: ReadOf) -> None:
    assert read().count() == 0


def test_group_is_refused_without_credentials(read: ReadOf) -> None:
    with pytest.raises(AnalysisException, match=r"OPTION_REQUIRES_OPTION.*'consumerGroup' requires.*joins no group"):
        read(consumerGroup="g").count()
