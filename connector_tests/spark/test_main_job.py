"""The main job, told as stories: start, restart, limits, schemas, several queries in one group."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.core_scenarios import (
    test_a_tag_filter_reads_the_tag_and_moves_past_the_rest as test_a_tag_filter_reads_the_tag_and_moves_past_the_rest,
)
from connector_tests.support.core_scenarios import (
    test_start_and_restarts_read_each_message_once as test_start_and_restarts_read_each_message_once,
)
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually, owned_queues
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.source.schema import default_schema


def test_columns_carry_what_was_sent(messages: Topic, stream: StreamOf) -> None:
    (body,) = messages.send(1, tag="TagA")
    read_rows = stream(includeProperties="true", propertyColumns="UNIQ_KEY,none")
    read_rows.run_to_end()
    (row,) = read_rows.rows()
    expected = default_schema(include_properties=True, property_columns=("UNIQ_KEY", "none"))
    assert row.__fields__ == expected.fieldNames()
    assert (row.topic, row.brokerName, row.queueOffset, row.tags) == (messages.name, "broker-a", 0, "TagA")
    assert (bytes(row.body).decode(), row["keys"], row.reconsumeTimes) == (body, f"key-{body}", 0)
    assert row.properties["UNIQ_KEY"] == row.UNIQ_KEY == row.msgId
    assert row.none is None
    assert row.storeTimestamp >= row.bornTimestamp


def test_a_user_schema_picks_orders_and_spells_columns(messages: Topic, stream: StreamOf) -> None:
    messages.send(3)
    picked = stream(schema="commitLogOffset BIGINT, BODY BINARY, storeHost STRING, queueid INT")
    picked.run_to_end()
    rows = picked.rows()
    assert rows[0].__fields__ == ["commitLogOffset", "BODY", "storeHost", "queueid"]
    assert len({row.commitLogOffset for row in rows}) == 3


def test_an_unknown_option_fails_in_load_and_names_the_nearest(stream: StreamOf) -> None:
    with pytest.raises(AnalysisException, match="Did you mean 'maxOffsetsPerTrigger'"):
        stream(maxOffsetPerTriger="5").load()


def test_an_unknown_column_fails_with_what_there_is(stream: StreamOf) -> None:
    query = stream(schema="value BINARY").start(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"ROCKETMQ_UNKNOWN_COLUMN.*value.*queueOffset BIGINT"):
        query.awaitTermination(int(TIMEOUT_S))


def test_a_limit_makes_several_batches_and_loses_nothing(messages: Topic, stream: StreamOf) -> None:
    sent = messages.send(50)
    query = stream(maxOffsetsPerTrigger="20").start(availableNow=True)
    assert query.awaitTermination(int(TIMEOUT_S))
    rows_of_batches = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert rows_of_batches == [20, 20, 10]
    of_batches = [lags(progress) for progress in query.recentProgress if progress.numInputRows]
    assert [sum(lag["messages"] for lag in of_batch) for of_batch in of_batches] == [30, 10, 0]
    assert [min(lag["ms"] > 0 for lag in of_batch) for of_batch in of_batches] == [True, True, False]
    assert max(lag["ms"] for lag in of_batches[0]) < 1000 * TIMEOUT_S
    assert max(lag["ms"] for lag in of_batches[-1]) == 0
    assert json.loads(query.recentProgress[-1].sources[0].latestOffset)["completedAfterRebalance"] == 0
    assert stream().bodies() == sorted(sent)


@pytest.mark.full
def test_a_minimum_delays_batches_but_not_those_of_available_now_and_once(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    limits = {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "16"}
    sent = messages.send(20)
    with stream(**limits).running() as query:
        eventually(lambda: len(stream().bodies()) == 16, "the first batch")
        sent += messages.send(11)
        eventually(lambda: stream().bodies() == sorted(sent), "a batch of 4 and 11")
        eventually(lambda: rows_of_batches(query) == [16, 15], "the progress of both")
    for trigger, rows in (("availableNow", [16, 4]), ("once", [20])):
        eventually(lambda: messages.members(group) == [], "nobody else owns queues")
        sent += messages.send(20)
        query = stream(**limits).start(**{trigger: True})
        assert query.awaitTermination(int(TIMEOUT_S))
        assert rows_of_batches(query) == rows
    assert stream().bodies() == sorted(sent)


@pytest.mark.full
def test_a_limit_of_bytes_follows_the_sizes_of_messages(messages: Topic, stream: StreamOf, group: str) -> None:
    """Each queue has 100 messages of about 290 B, then 100 of about 2,190 B, as they are stored."""
    limited = stream(maxBytesPerTrigger="40000")
    sent = messages.send_batches(400) + messages.send_batches(400, 2_000)
    query = limited.start(availableNow=True)
    assert query.awaitTermination(int(TIMEOUT_S))
    rows = rows_of_batches(query)
    assert sum(rows) == 800
    assert 40_000 // 400 < rows[0] < 40_000 // 200, "from the first messages"
    assert max(rows[-8:]) <= 40_000 // 2_000, f"from what was read: {rows}"
    eventually(lambda: messages.members(group) == [], "nobody else owns queues")
    sent += messages.send_batches(400, 2_000)
    query = limited.start(once=True)
    assert query.awaitTermination(int(TIMEOUT_S))
    assert rows_of_batches(query) == [400]
    assert limited.bodies() == sorted(sent)


def rows_of_batches(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def lags(progress: StreamingQueryProgress) -> list[dict[str, int]]:
    """What the progress states of each queue's lag."""
    by_broker = json.loads(progress.sources[0].latestOffset)["lagByQueue"].values()
    return [lag for brokers in by_broker for queues in brokers.values() for lag in queues.values()]


@pytest.mark.full
def test_latest_begins_with_what_is_stored_after_the_start(messages: Topic, stream: StreamOf, group: str) -> None:
    messages.send(10)
    latest = stream(startingOffsets="latest")
    with latest.running() as query:
        eventually(lambda: query.lastProgress is not None, "the first batch")
        new = messages.send(5)
        eventually(lambda: latest.bodies() == sorted(new), "the new messages")
    while_unavailable = messages.send(4)
    latest.run_to_end()
    assert latest.bodies() == sorted(new + while_unavailable)


def test_a_start_by_time_reads_what_was_stored_since_then(messages: Topic, stream: StreamOf, group: str) -> None:
    messages.send(20)
    last_stored_ms = max(held.last_store_timestamp_ms for held in messages.bounds().values())
    eventually(lambda: time.time() * 1000 > last_stored_ms + 1, "a later millisecond")
    new = messages.send(20)
    since = stream(startingTimestamp=str(last_stored_ms + 1))
    since.run_to_end()
    assert since.bodies() == sorted(new)
    assert messages.lag(group) == 0


@pytest.mark.full
def test_a_new_checkpoint_may_ignore_the_group_and_reads_everything_again(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    sent = messages.send(20)
    stream().run_to_end()
    resumed = stream("resumed")
    resumed.run_to_end()
    assert resumed.bodies() == []
    again = stream("again", groupOffsets="ignore")
    again.run_to_end()
    assert again.bodies() == sorted(sent)
    sent += messages.send(5)
    again.run_to_end()
    assert again.bodies() == sorted(sent)
    assert messages.lag(group) == 0


def test_a_checkpoint_of_another_group_is_an_error(messages: Topic, stream: StreamOf) -> None:
    messages.send(5)
    stream().run_to_end()
    query = stream(consumerGroup="another_group").start(availableNow=True)
    with pytest.raises(
        StreamingQueryException,
        match=r"CHECKPOINT_OPTION_CHANGED.*consumerGroup='.*now has consumerGroup='another_group'",
    ):
        query.awaitTermination(int(TIMEOUT_S))


def test_listed_starting_offsets_begin_each_queue_where_they_define(messages: Topic, stream: StreamOf) -> None:
    messages.send(40)
    counts = {queue.queue_id: held.max_offset for queue, held in messages.bounds().items()}
    listed = {messages.name: {"broker-a": {"0": 3, "1": -1, "2": -2}}}
    stream(startingOffsets=json.dumps(listed)).run_to_end()
    read = Counter(row.queueId for row in stream().rows())
    assert read == {0: counts[0] - 3, 2: counts[2], 3: counts[3]}


def test_options_that_have_different_starts_fail_in_load(stream: StreamOf) -> None:
    with pytest.raises(AnalysisException, match="'startingTimestamp' and 'consumeFromWhere' are incompatible"):
        stream(startingTimestamp="5", consumeFromWhere="CONSUME_FROM_FIRST_OFFSET").load()


def test_a_stopped_query_leaves_the_group(messages: Topic, stream: StreamOf, group: str) -> None:
    with stream().running():
        eventually(lambda: len(messages.members(group)) == 1, "the query joins")
    eventually(lambda: messages.members(group) == [], "the query leaves")


def test_a_running_query_commits_two_triggers_after_the_last_message(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    with stream().running():
        sent = messages.send(20)
        eventually(lambda: stream().bodies() == sorted(sent), "all rows")
        eventually(lambda: messages.lag(group) == 0, "lag 0 while running")


def test_two_queries_of_a_group_share_its_queues(messages: Topic, stream: StreamOf, group: str) -> None:
    first, second = stream("first"), stream("second")
    with first.running(), second.running():
        eventually(lambda: messages.is_shared(group, 2), "both own queues")
        sent = messages.send(40)
        eventually(lambda: len(first.bodies() + second.bodies()) >= 40, "all rows")
        assert sorted(first.bodies() + second.bodies()) == sorted(sent)
        assert first.bodies() and second.bodies()


def test_when_a_query_leaves_the_other_takes_over(messages: Topic, stream: StreamOf, group: str) -> None:
    first, second = stream("first"), stream("second")
    with first.running() as staying:
        with second.running():
            eventually(lambda: messages.is_shared(group, 2), "both own queues")
            sent = messages.send(20)
            eventually(lambda: len(first.bodies() + second.bodies()) >= 20, "rows while both run")
        eventually(lambda: len(messages.members(group)) == 1, "one left")
        sent += messages.send(20)
        eventually(lambda: set(first.bodies() + second.bodies()) == set(sent), "rows after one left")
        eventually(lambda: len(owned_queues(staying)) == 4, "all queues are the other's")


@pytest.mark.full
def test_more_queries_than_queues_fails_nothing(others: Topic, stream: StreamOf, group: str) -> None:
    streams = [stream(f"query-{n}", subscribe=others.name) for n in range(3)]
    queries = [one.start() for one in streams]
    try:
        eventually(lambda: others.is_shared(group, 3), "three members of two queues")
        sent = others.send(20)
        eventually(lambda: sorted(b for one in streams for b in one.bodies()) == sorted(sent), "each row once")
        assert all(query.isActive for query in queries)
    finally:
        for query in queries:
            query.stop()


def recreate(messages: Topic, cluster: EmbeddedCluster, count: int) -> list[str]:
    """Delete the topic and make a new one of the same name, with ``count`` messages."""
    cluster.delete_topic(messages.name)
    cluster.create_topic(messages.name, 4)
    eventually(lambda: messages.bounds_are_empty(), "an empty topic")
    return messages.send(count)


@pytest.mark.full
def test_a_recreated_topic_is_noticed_though_it_has_outgrown_the_checkpoint(
    messages: Topic, stream: StreamOf, cluster: EmbeddedCluster, group: str
) -> None:
    old = messages.send(8)
    stream().run_to_end()
    new = recreate(messages, cluster, 40)
    query = stream().start(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"ROCKETMQ_DATA_LOSS\.TOPIC_RECREATED.*created again"):
        query.awaitTermination(int(TIMEOUT_S))
    stream(failOnDataLoss="false").run_to_end()
    assert stream().bodies() == sorted(old + new)
    assert messages.lag(group) == 0


def test_a_reset_of_the_group_makes_the_next_run_read_again(messages: Topic, stream: StreamOf, group: str) -> None:
    sent = messages.send(20)
    stream().run_to_end()
    messages.reset_to_the_beginning(group)
    stream().run_to_end()
    assert stream().bodies() == sorted(2 * sent)
    assert messages.lag(group) == 0


@pytest.mark.full
def test_a_reset_is_obeyed_though_a_batch_is_read_again_first(messages: Topic, stream: StreamOf, group: str) -> None:
    """The pulls of that batch used to be told of the reset, and nobody after them."""

    def fail() -> None:
        raise RuntimeError("no disk")

    sent = messages.send(12)
    stream().run_to_end()
    failing = stream()
    failing.before_each_batch = fail
    sent += messages.send(8)
    with failing.running() as query, pytest.raises(StreamingQueryException, match="no disk"):
        query.awaitTermination(int(TIMEOUT_S))
    messages.reset_to_the_beginning(group)
    stream().run_to_end()
    assert stream().bodies() == sorted(2 * sent)
    assert messages.lag(group) == 0


@pytest.mark.full
def test_a_reset_of_the_group_reaches_an_idle_query(messages: Topic, stream: StreamOf, group: str) -> None:
    sent = messages.send(20)
    with stream().running():
        eventually(lambda: messages.lag(group) == 0, "everything read and committed")
        messages.reset_to_the_beginning(group)
        eventually(lambda: stream().bodies() == sorted(2 * sent), "everything once more")
        eventually(lambda: messages.lag(group) == 0, "and committed")
