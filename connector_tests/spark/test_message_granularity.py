"""A group that shares messages: read once, shared by its members, and no other client's while a batch runs."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually, steady_messages
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

INVISIBLE_MS = int(20_000 * TIMEOUT_FACTOR)
"""Where a batch is to take longer."""

UNRELEASED_MS = 60_000
"""Where a query stops while a response is on its way: its messages are redelivered within the test's time limit."""


def test_available_now_reads_each_message_once(messages: Topic, stream: StreamOf) -> None:
    sent: list[str] = []
    for count in (25, 140, 7):
        sent += messages.send(count)
        stream(loadBalance="message").run_to_end()
        assert stream().bodies() == sorted(sent)


def test_two_queries_share_the_messages_of_one_queue(
    spark: SparkSession, cluster: EmbeddedCluster, group: str, tmp_path: Path
) -> None:
    topic = Topic(cluster, cluster.create_topic(unique_name("one_queue"), queues=1))
    options = {"loadBalance": "message", "maxOffsetsPerTrigger": "100", "invisibleDurationMs": str(UNRELEASED_MS)}
    ours, theirs = (Stream(spark, cluster, topic.name, group, tmp_path / name, options) for name in ("a", "b"))
    with ours.running() as our_query, theirs.running() as their_query:
        with steady_messages(topic) as sent:
            eventually(lambda: len(ours.places()) > 50 and len(theirs.places()) > 50, "rows of both")
        for query in (our_query, their_query):
            rocketmq_spark.stop(query)

    def has_all() -> bool:
        """What the other has released is redelivered a moment later."""
        ours.run_to_end()
        return len(ours.bodies() + theirs.bodies()) >= len(sent)

    eventually(has_all, "all messages")
    topic.close()
    assert Counter(ours.bodies() + theirs.bodies()) == Counter(sent)


@pytest.mark.full
def test_a_batch_longer_than_the_invisibility_is_claimed_by_no_other_receiver(
    messages: Topic, stream: StreamOf
) -> None:
    options = {"loadBalance": "message", "invisibleDurationMs": str(INVISIBLE_MS)}
    slow, other = stream("slow", **options), stream("other", **options)
    has_a_batch = threading.Event()

    def take_long() -> None:
        has_a_batch.set()
        time.sleep(1.5 * INVISIBLE_MS / 1000)

    slow.before_each_batch = take_long
    sent = messages.send(30)
    with slow.running() as query:
        assert has_a_batch.wait(TIMEOUT_S)
        with other.running():
            eventually(lambda: len(slow.places()) + len(other.places()) >= len(sent), "all messages")
            eventually(lambda: reported_by(query, "extended") > 0, "a progress that counts extensions")
            assert reported_by(query, "expired") == 0
            rocketmq_spark.stop(query)
    assert Counter(slow.bodies() + other.bodies()) == Counter(sent)


def reported_by(query: StreamingQuery, what: str) -> int:
    """By the last query progress; 0 before the first."""
    last = query.lastProgress
    return 0 if last is None else int(json.loads(last.sources[0].latestOffset)[what])


@pytest.mark.full
def test_a_batch_that_is_read_twice_has_the_same_rows(messages: Topic, stream: StreamOf, tmp_path: Path) -> None:
    sent = messages.send(40)
    seen: list[tuple[int, int]] = []

    def count(batch: DataFrame, _number: int) -> None:
        bodies = [bytes(row.body) for row in batch.select("body").collect()]
        seen.append((batch.count(), batch.count()))
        assert sorted(Counter(bodies).values()) == [2] * (len(bodies) // 2)

    both = stream(loadBalance="message").load()
    writer = both.union(both).writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path / "twice"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(int(TIMEOUT_S))
    assert query.exception() is None
    assert sum(first for first, _ in seen) == 2 * len(sent)
    assert all(first == second for first, second in seen)


@pytest.mark.full
def test_a_checkpoint_is_of_queues_or_of_messages(messages: Topic, stream: StreamOf) -> None:
    """The other direction: unit/test_pop_offsets.py."""
    messages.send(1)
    stream(loadBalance="queue").run_to_end()
    assert len(stream().rows()) == 1
    with pytest.raises(
        (StreamingQueryException, AssertionError), match=r"CHECKPOINT_OPTION_CHANGED.*'queue'.*'message'"
    ):
        stream(loadBalance="message").run_to_end()
