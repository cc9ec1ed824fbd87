"""Streams with a pattern: topics that appear while the query runs, between two runs, and beside another member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

SOON: Final = {"rebalanceIntervalMs": "1000"}


class Topics:
    """Topics of one prefix, as a test creates them."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.prefix = unique_name("pattern")
        self.pattern = f"{self.prefix}-[0-9]"
        self._cluster = cluster
        self._open: list[Topic] = []

    def create(self, number: int, queue_count: int = 2) -> Topic:
        topic = Topic(self._cluster, self._cluster.create_topic(f"{self.prefix}-{number}", queue_count))
        self._open.append(topic)
        return topic

    def close(self) -> None:
        for topic in self._open:
            topic.close()


@pytest.fixture
def topics(cluster: EmbeddedCluster) -> Iterator[Topics]:
    one = Topics(cluster)
    yield one
    one.close()


def test_topic_that_appears_later_is_read_once_from_its_first_message(topics: Topics, stream: StreamOf) -> None:
    """``startingOffsets`` is for the topics of the beginning. A topic of another name is not read."""
    given = {"subscribePattern": topics.pattern, "startingOffsets": "latest", **SOON}
    first = topics.create(0)
    first.send(5)
    query = stream(**given)
    with query.running():
        eventually(lambda: first.lag(query.group) == 0, "the start positions")
        sent = first.send(5)
        second = topics.create(1)
        sent += second.send(7)
        eventually(lambda: first.lag(query.group) + second.lag(query.group) == 0, "the messages of both topics")
        assert query.bodies() == sorted(sent)
    third = topics.create(2)
    sent += third.send(9) + second.send(1)
    query.run_to_end()
    assert query.bodies() == sorted(sent)
    assert [topic.lag(query.group) for topic in (first, second, third)] == [0, 0, 0]


def test_pattern_that_matches_nothing_waits_and_reads_the_first_topic_from_its_beginning(
    topics: Topics, stream: StreamOf
) -> None:
    query = stream(subscribePattern=topics.pattern, startingOffsets="latest", **SOON)
    query.run_to_end()
    sent = topics.create(0).send(5)
    query.run_to_end()
    assert query.bodies() == sorted(sent)


def test_two_members_share_a_topic_that_appears_and_read_each_message_once(topics: Topics, stream: StreamOf) -> None:
    given = {"subscribePattern": topics.pattern, **SOON}
    first = topics.create(0)
    sent = first.send(5)
    members = [stream(name, **given) for name in ("one", "two")]
    group = members[0].group
    with members[0].running():
        eventually(lambda: first.lag(group) == 0, "the first messages")
        with members[1].running():
            eventually(lambda: first.is_shared(group, 2), "two members")
            second = topics.create(1)
            eventually(lambda: second.is_shared(group, 2), "two members of the topic that appeared")
            sent += second.send(20) + first.send(6)
            eventually(lambda: first.lag(group) + second.lag(group) == 0, "all messages")
            read = [member.bodies() for member in members]
            assert sorted(read[0] + read[1]) == sorted(sent)
            assert all({body for body in bodies if body.startswith(second.name)} for bodies in read)


def test_deleted_topic_ends_no_query_and_is_read_from_its_first_message_when_it_comes_back(
    cluster: EmbeddedCluster, topics: Topics, stream: StreamOf
) -> None:
    """The topic that comes back is another one: what the query had read of the first is a loss that is counted."""
    first, second = topics.create(0), topics.create(1, 1)
    sent = first.send(4) + second.send(6)
    query = stream(subscribePattern=topics.pattern, failOnDataLoss="false", **SOON)
    with query.running() as running:
        eventually(lambda: first.lag(query.group) + second.lag(query.group) == 0, "the messages of both topics")
        cluster.delete_topic(second.name)
        sent += first.send(4)
        eventually(lambda: query.bodies() == sorted(sent), "the messages of the other topic")
        eventually(lambda: second.name not in shown(running)["lagByQueue"], "a query without the deleted topic")
        cluster.create_topic(second.name, 1)
        sent += second.send(3)
        eventually(lambda: query.bodies() == sorted(sent), "the messages of the topic that came back")
        eventually(lambda: ranges_lost(running) == 1, "a loss")
    sent += first.send(1) + second.send(1)
    query.run_to_end()
    assert query.bodies() == sorted(sent)


def ranges_lost(query: StreamingQuery) -> int:
    """Of the topic that came back. What the loss is called depends on whether the query looks before a message is in
    the new topic."""
    lost = shown(query)["lost"]["byCondition"]
    return sum(lost[name]["ranges"] for name in ("TOPIC_RECREATED", "QUEUE_TRUNCATED"))


def shown(query: StreamingQuery) -> dict[str, Any]:
    (fields,) = rocketmq_spark.progress_of(query)
    return fields
