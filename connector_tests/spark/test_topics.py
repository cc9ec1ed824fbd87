"""Several topics, and what becomes of a checkpoint when a query is restarted with others."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster


@pytest.fixture
def both(messages: Topic, others: Topic) -> str:
    return f"{messages.name}, {others.name}"


def test_several_topics_are_read_as_one(
    messages: Topic, others: Topic, both: str, stream: StreamOf, group: str
) -> None:
    sent = messages.send(20) + others.send(20)
    stream(subscribe=both).run_to_end()
    assert stream().bodies() == sorted(sent)
    assert {row.topic for row in stream().rows()} == {messages.name, others.name}
    assert messages.lag(group) + others.lag(group) == 0


def test_a_topic_that_is_added_at_a_restart_begins_where_the_options_define(
    messages: Topic, others: Topic, both: str, stream: StreamOf
) -> None:
    sent = messages.send(10)
    others.send(10)
    stream().run_to_end()
    sent += messages.send(5)
    latest = stream(subscribe=both, startingOffsets="latest")
    latest.run_to_end()
    assert latest.bodies() == sorted(sent)
    sent += others.send(5)
    latest.run_to_end()
    assert latest.bodies() == sorted(sent)


@pytest.mark.full
def test_a_topic_that_is_omitted_for_a_while_is_read_on_where_it_was(
    messages: Topic, others: Topic, both: str, stream: StreamOf
) -> None:
    sent = messages.send(10) + others.send(10)
    stream(subscribe=both).run_to_end()
    while_omitted = others.send(10)
    sent += messages.send(10)
    stream().run_to_end()
    assert stream().bodies() == sorted(sent)
    stream(subscribe=both).run_to_end()
    assert stream().bodies() == sorted(sent + while_omitted)


@pytest.mark.full
def test_two_sources_in_one_query_have_a_group_each(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, others: Topic, group: str, tmp_path: Path
) -> None:
    first, second = (
        Stream(spark, cluster, topic.name, f"{group}-{topic.name}", tmp_path) for topic in (messages, others)
    )
    united = first.load().union(second.load()).writeStream.format("parquet").trigger(availableNow=True)
    united = united.option("path", str(tmp_path / "out" / "batch=0"))
    united = united.option("checkpointLocation", str(tmp_path / "checkpoint"))
    sent: list[str] = []
    for _ in range(2):
        sent += messages.send(10) + others.send(10)
        assert united.start().awaitTermination(int(TIMEOUT_S))
        assert first.bodies() == sorted(sent)
    assert messages.lag(first.group) + others.lag(second.group) == 0
