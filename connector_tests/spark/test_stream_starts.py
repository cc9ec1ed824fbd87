"""Where a stream starts: each way to define it, of a topic and of assigned queues, and that a restart stays there.

All ways are sources of one query, each with a topic and a group of its own, but where topics grow.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.several_sources import SeveralSources
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

QUEUE_COUNT = 4
BEFORE, SINCE = 4, 4
"""One message in each queue before the time of the test, and one since then."""

Start = Callable[[str, int], dict[str, str]]
Topics = Mapping[str, Topic]
"""By start."""

Places = dict[str, list[tuple[int, int]]]
"""(queue, offset) of messages, sorted, by start."""

OptionsOf = Callable[[str, str], dict[str, str]]
"""Of a start and its topic's name."""

SourcesOf = Callable[[Topics, OptionsOf], list[Stream]]


def by_queue(topic: str, values: list[int]) -> str:
    return json.dumps({topic: {"broker-a": {str(number): value for number, value in enumerate(values)}}})


STARTS: dict[str, tuple[Start, list[int]]] = {
    "latest": (lambda topic, at_ms: {"startingOffsets": "latest"}, [2, 2, 2, 2]),
    "earliest": (lambda topic, at_ms: {"startingOffsets": "earliest"}, [0, 0, 0, 0]),
    "offsets": (lambda topic, at_ms: {"startingOffsets": by_queue(topic, [-2, -1, 0, 1])}, [0, 2, 0, 1]),
    "a topic's word": (lambda topic, at_ms: {"startingOffsets": json.dumps({topic: "latest"})}, [2, 2, 2, 2]),
    "a time": (lambda topic, at_ms: {"startingTimestamp": str(at_ms)}, [1, 1, 1, 1]),
    "a topic's time": (
        lambda topic, at_ms: {"startingOffsetsByTimestamp": json.dumps({topic: at_ms})},
        [1, 1, 1, 1],
    ),
    "times": (
        lambda topic, at_ms: {"startingOffsetsByTimestamp": by_queue(topic, [at_ms, at_ms - 60_000] * 2)},
        [1, 0, 1, 0],
    ),
}
"""Options, of a topic and the time between its messages; and the offsets where the queues start."""


@contextmanager
def new_topics(cluster: EmbeddedCluster, starts: Iterable[str]) -> Iterator[dict[str, Topic]]:
    """A topic for each start."""
    with ExitStack() as opened:
        names = {start: cluster.create_topic(unique_name(start), QUEUE_COUNT) for start in starts}
        yield {start: opened.enter_context(closing(Topic(cluster, name))) for start, name in names.items()}


def send(topics: Topics, count: int) -> None:
    """Send ``count`` messages to each."""
    for topic in topics.values():
        topic.send(count)


def last_stored_ms(topics: Topics) -> int:
    return max(held.last_store_timestamp_ms for topic in topics.values() for held in topic.bounds().values())


@pytest.fixture
def topics(cluster: EmbeddedCluster) -> Iterator[dict[str, Topic]]:
    """One for each of ``STARTS``."""
    with new_topics(cluster, STARTS) as made:
        yield made


def send_before_and_since(topics: Topics) -> int:
    """Send two messages to each queue; returns a time between them, in milliseconds."""
    send(topics, BEFORE)
    later_ms = last_stored_ms(topics) + 1
    eventually(lambda: time.time() * 1000 > later_ms, "a later millisecond")
    send(topics, SINCE)
    assert {held.max_offset for topic in topics.values() for held in topic.bounds().values()} == {2}
    return later_ms


@pytest.fixture
def between_ms(topics: Topics) -> int:
    """The time between the first and the second message of each queue."""
    return send_before_and_since(topics)


@pytest.fixture
def sources(spark: SparkSession, cluster: EmbeddedCluster, group: str, tmp_path: Path) -> SourcesOf:
    """Makes a source of each topic, in a group of its own."""

    def make(topics: Topics, options_of: OptionsOf) -> list[Stream]:
        return [
            Stream(
                spark,
                cluster,
                one.name,
                f"{group}_{number}",
                tmp_path / str(number),
                {**PATIENT, **options_of(start, one.name)},
            )
            for number, (start, one) in enumerate(topics.items())
        ]

    return make


def expected(topics: Topics) -> Places:
    """What is to be read: from the offsets of ``STARTS`` on; of a queue without an offset, all that it has."""
    return {start: places_since(topic, STARTS[start][1]) for start, topic in topics.items()}


def places_since(topic: Topic, offsets: list[int]) -> list[tuple[int, int]]:
    starts = dict(enumerate(offsets))
    return sorted(
        (queue.queue_id, offset)
        for queue, held in topic.bounds().items()
        for offset in range(starts.get(queue.queue_id, 0), held.max_offset)
    )


def read(query: Stream, topics: Topics) -> Places:
    """What the query has written."""
    starts = {topic.name: start for start, topic in topics.items()}
    found: Places = {start: [] for start in topics}
    for queue, offset, _ in query.places_and_bodies():
        found[starts[queue.topic]].append((queue.queue_id, offset))
    return {start: sorted(places) for start, places in found.items()}


@pytest.mark.parametrize("start", STARTS)
def test_topic_is_read_from_its_start_and_new_queues_from_theirs(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, start: str
) -> None:
    options, offsets = STARTS[start]
    between_ms = send_before_and_since({start: messages})
    query = stream(rebalanceIntervalMs="1000", **options(messages.name, between_ms))
    query.run_to_end()
    assert sorted(query.places()) == places_since(messages, offsets)
    query.run_to_end()
    messages.send(QUEUE_COUNT)
    with query.running():
        eventually(lambda: sorted(query.places()) == places_since(messages, offsets), "what came while it was stopped")
        cluster.create_topic(messages.name, QUEUE_COUNT + 2)
        with closing(Topic(cluster, messages.name)) as grown:
            grown.send(QUEUE_COUNT + 2)
            eventually(lambda: sorted(query.places()) == places_since(grown, offsets), "messages of six queues")
            assert len({queue_id for queue_id, _ in query.places()}) == QUEUE_COUNT + 2


@pytest.mark.timeout(900)
def test_assigned_queues_are_read_from_their_start(
    topics: Topics, sources: SourcesOf, between_ms: int, tmp_path: Path
) -> None:
    def options_of(start: str, topic: str) -> dict[str, str]:
        assigned = json.dumps({topic: {"broker-a": list(range(QUEUE_COUNT))}})
        return {"assign": assigned, "failOnDataLoss": "false", **STARTS[start][0](topic, between_ms)}

    assert_read_from_its_start_and_resumed(SeveralSources.of(sources(topics, options_of), tmp_path), topics)


@pytest.mark.timeout(900)
def test_topics_of_a_pattern_are_read_from_their_start(
    topics: Topics, sources: SourcesOf, between_ms: int, tmp_path: Path
) -> None:
    def options_of(start: str, topic: str) -> dict[str, str]:
        return {"subscribePattern": f"{re.escape(topic)}|no-topic-.*", **STARTS[start][0](topic, between_ms)}

    assert_read_from_its_start_and_resumed(SeveralSources.of(sources(topics, options_of), tmp_path), topics)


def assert_read_from_its_start_and_resumed(query: Stream, topics: Topics) -> None:
    """In one run what there is, and in the next what came in between."""
    query.run_to_end()
    assert read(query, topics) == expected(topics)
    send(topics, QUEUE_COUNT)
    query.run_to_end()
    assert read(query, topics) == expected(topics)


NO_MATCH: dict[str, Start] = {
    "a time": lambda topic, at_ms: {"startingTimestamp": str(at_ms)},
    "a topic's time": lambda topic, at_ms: {"startingOffsetsByTimestamp": json.dumps({topic: at_ms})},
    "times": lambda topic, at_ms: {"startingOffsetsByTimestamp": by_queue(topic, [at_ms] * QUEUE_COUNT)},
}


def test_topics_of_a_pattern_without_a_message_since_their_time_fail_or_start_at_their_end(
    cluster: EmbeddedCluster, sources: SourcesOf, tmp_path: Path
) -> None:
    """Each failure ends a query of its own."""
    with new_topics(cluster, NO_MATCH) as topics:
        send(topics, QUEUE_COUNT)
        later_ms = last_stored_ms(topics) + 3_600_000

        def options_of(start: str, topic: str) -> dict[str, str]:
            return {"subscribePattern": re.escape(topic), **NO_MATCH[start](topic, later_ms)}

        failing = sources(topics, options_of)
        for source in failing:
            with pytest.raises(StreamingQueryException, match="TIMESTAMP_NOT_MATCHED"):
                source.start(availableNow=True).awaitTermination(int(TIMEOUT_S))
        at_their_end = {"startingOffsetsByTimestampStrategy": "latest"}
        working = [replace(source, options={**source.options, **at_their_end}) for source in failing]
        query = SeveralSources.of(working, tmp_path / "at their end")
        query.run_to_end()
        send(topics, QUEUE_COUNT)
        query.run_to_end()
        second_messages = [(queue_id, 1) for queue_id in range(QUEUE_COUNT)]
        assert list(read(query, topics).values()) == [second_messages] * len(NO_MATCH)
