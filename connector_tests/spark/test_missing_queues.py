"""A topic whose queues change while it is read: fewer, more, or none that may be read."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

SOON = {"rebalanceIntervalMs": "1000"}
UNTOUCHED_S = 2.0


def read_bodies(stream: Stream) -> list[str]:
    return sorted(body for _, _, body in stream.places_and_bodies())


def assert_stays_so(query: StreamingQuery, stream: Stream, bodies: list[str]) -> None:
    """For longer than a rebalance takes: the query runs, and reads nothing more."""
    until = time.monotonic() + UNTOUCHED_S
    while time.monotonic() < until:
        assert query.isActive
        assert read_bodies(stream) == sorted(bodies)
        time.sleep(0.1)


def test_a_topic_without_read_permission_is_read_on_exactly_once_it_is_readable_again(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    waiting = stream(**SOON)
    with waiting.running() as query:
        sent = messages.send(20)
        eventually(lambda: read_bodies(waiting) == sorted(sent), "the first rows")
        cluster.create_topic(messages.name, 4, perm=2)
        unread = messages.send_to_responding_broker(20)
        assert_stays_so(query, waiting, sent)
        cluster.create_topic(messages.name, 4, perm=6)
        eventually(lambda: read_bodies(waiting) == sorted(sent + unread), "the rows from then")
        eventually(lambda: messages.lag(group) == 0, "the commit")


def test_queues_that_a_topic_has_no_more_end_the_query_where_it_must_not_miss_any(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    strict = stream(missingQueues="fail", **SOON)
    with strict.running() as query:
        sent = messages.send(20)
        eventually(lambda: read_bodies(strict) == sorted(sent), "the first rows")
        cluster.create_topic(messages.name, 3)
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(int(TIMEOUT_S))
    reported = str(raised.value)
    assert "ROCKETMQ_QUEUES_UNAVAILABLE" in reported
    assert f"{messages.name}@broker-a:3 at offset 5, last broker address {cluster.broker_addr()}" in reported
    assert "broker-a:2" not in reported


def test_queues_that_may_be_dropped_are_read_on_when_they_are_back(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    sent = messages.send(20)
    dropping = stream(missingQueues="drop", **SOON)
    dropping.run_to_end()
    unread = messages.send(4)
    cluster.create_topic(messages.name, 3)
    dropping.run_to_end()
    of_last_queue = set(sent + unread) - set(read_bodies(dropping))
    assert len(of_last_queue) == 1
    cluster.create_topic(messages.name, 4)
    dropping.run_to_end()
    assert read_bodies(dropping) == sorted(sent + unread)


def test_deleted_topic_ends_no_query_that_may_miss_its_queues(
    cluster: EmbeddedCluster, messages: Topic, others: Topic, stream: StreamOf
) -> None:
    """Strict queries end; this one reads the other topic, across a restart too, and then the topic that came back."""
    topics = {"subscribe": f"{messages.name},{others.name}", "missingQueues": "drop", "failOnDataLoss": "false"}
    query = stream(**topics, **SOON)
    sent = messages.send(4) + others.send(8)
    with query.running():
        eventually(lambda: messages.lag(query.group) + others.lag(query.group) == 0, "the messages of both topics")
        cluster.delete_topic(others.name)
        sent += messages.send(4)
        eventually(lambda: query.bodies() == sorted(sent), "the messages of the other topic")
    sent += messages.send(4)
    query.run_to_end()
    assert query.bodies() == sorted(sent)
    with query.running():
        cluster.create_topic(others.name, 2)
        sent += others.send(6) + messages.send(4)
        eventually(lambda: query.bodies() == sorted(sent), "the messages of the topic that came back")


def test_no_message_of_queues_that_a_topic_gains_under_load_is_lost(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    messages.send(8)
    latest = stream(startingOffsets="latest")
    with latest.running():
        eventually(lambda: messages.lag(group) == 0, "the first positions")
        with steady_messages(messages) as sent:
            eventually(lambda: len(latest.places_and_bodies()) > 0, "the first rows")
            cluster.create_topic(messages.name, 8)
            with closing(Topic(cluster, messages.name)) as grown:
                grown.sent = 1_000_000  # bodies that the load does not have
                with steady_messages(grown) as sent_to_all:
                    eventually(lambda: has_read_from_all(latest, 8), "rows of all eight queues")
        everything = sorted(sent + sent_to_all)
        eventually(lambda: len(latest.places_and_bodies()) >= len(everything), "all rows")
    assert read_bodies(latest) == everything


def has_read_from_all(stream: Stream, count: int) -> bool:
    return len({queue for queue, _, _ in stream.places_and_bodies()}) == count
