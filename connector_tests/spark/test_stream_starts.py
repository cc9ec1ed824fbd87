"""Where a stream starts: each way to define it, of a topic and of assigned queues, and that a restart stays there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from pyspark.errors import StreamingQueryException

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

QUEUE_COUNT = 4
BEFORE, SINCE = 4, 4
"""One message in each queue before the time of the test, and one since then."""

Start = Callable[[str, int], dict[str, str]]


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


@pytest.fixture
def between_ms(messages: Topic) -> int:
    """The time between the first and the second message of each queue."""
    messages.send(BEFORE)
    last_stored_ms = max(held.last_store_timestamp_ms for held in messages.bounds().values())
    eventually(lambda: time.time() * 1000 > last_stored_ms + 1, "a later millisecond")
    messages.send(SINCE)
    assert {held.max_offset for held in messages.bounds().values()} == {2}
    return last_stored_ms + 1


def places_since(messages: Topic, offsets: list[int]) -> list[tuple[int, int]]:
    """(queue, offset) of all messages from ``offsets`` on; of a queue without an offset, of all that it has."""
    starts = dict(enumerate(offsets))
    return sorted(
        (queue.queue_id, offset)
        for queue, held in messages.bounds().items()
        for offset in range(starts.get(queue.queue_id, 0), held.max_offset)
    )


@pytest.mark.parametrize("start", STARTS)
def test_topic_is_read_from_its_start_and_new_queues_from_theirs(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, between_ms: int, start: str
) -> None:
    options, offsets = STARTS[start]
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


@pytest.mark.parametrize("start", STARTS)
def test_assigned_queues_are_read_from_their_start(
    messages: Topic, stream: StreamOf, between_ms: int, start: str
) -> None:
    options, offsets = STARTS[start]
    assigned = json.dumps({messages.name: {"broker-a": list(range(QUEUE_COUNT))}})
    query = stream(assign=assigned, failOnDataLoss="false", **options(messages.name, between_ms))
    query.run_to_end()
    assert sorted(query.places()) == places_since(messages, offsets)
    messages.send(QUEUE_COUNT)
    query.run_to_end()
    assert sorted(query.places()) == places_since(messages, offsets)


@pytest.mark.parametrize("start", STARTS)
def test_topics_of_a_pattern_are_read_from_their_start(
    messages: Topic, stream: StreamOf, between_ms: int, start: str
) -> None:
    options, offsets = STARTS[start]
    pattern = {"subscribePattern": f"{re.escape(messages.name)}|no-topic-.*"}
    query = stream(**pattern, **options(messages.name, between_ms))
    query.run_to_end()
    assert sorted(query.places()) == places_since(messages, offsets)
    messages.send(QUEUE_COUNT)
    query.run_to_end()
    assert sorted(query.places()) == places_since(messages, offsets)


NO_MATCH: dict[str, Start] = {
    "a time": lambda topic, at_ms: {"startingTimestamp": str(at_ms)},
    "a topic's time": lambda topic, at_ms: {"startingOffsetsByTimestamp": json.dumps({topic: at_ms})},
    "times": lambda topic, at_ms: {"startingOffsetsByTimestamp": by_queue(topic, [at_ms] * QUEUE_COUNT)},
}


@pytest.mark.parametrize("start", NO_MATCH)
def test_topics_of_a_pattern_without_a_message_since_their_time_fail_or_start_at_their_end(
    messages: Topic, stream: StreamOf, start: str
) -> None:
    messages.send(QUEUE_COUNT)
    later_ms = max(held.last_store_timestamp_ms for held in messages.bounds().values()) + 3_600_000
    pattern = {"subscribePattern": re.escape(messages.name), **NO_MATCH[start](messages.name, later_ms)}
    failing = stream("failing", **pattern).start(availableNow=True)
    with pytest.raises(StreamingQueryException, match="TIMESTAMP_NOT_MATCHED"):
        failing.awaitTermination(int(TIMEOUT_S))
    query = stream(startingOffsetsByTimestampStrategy="latest", **pattern)
    query.run_to_end()
    messages.send(QUEUE_COUNT)
    query.run_to_end()
    assert sorted(query.places()) == [(queue_id, 1) for queue_id in range(QUEUE_COUNT)]
