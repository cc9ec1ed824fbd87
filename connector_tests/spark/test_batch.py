"""Batch reads: ``spark.read`` and SQL over topics, without a consumer group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from connector_tests.support.core_scenarios import (
    test_batch_read_is_bound_once_for_all_actions as test_batch_read_is_bound_once_for_all_actions,
)
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

ReadOf = Callable[..., DataFrame]
OF_A_QUEUE = "brokerName STRING, queueId INT, queueOffset BIGINT"


@pytest.fixture
def read(spark: SparkSession, cluster: EmbeddedCluster, messages: Topic) -> ReadOf:
    """Loads the test's topic."""

    def load(schema: str | None = None, **options: str) -> DataFrame:
        given = {"namesrvAddr": cluster.namesrv_addr} | options
        if not {"subscribePattern", "assign"} & options.keys():
            given = {"subscribe": messages.name} | given
        reader = spark.read.format("rocketmq").options(**given)
        return (reader if schema is None else reader.schema(schema)).load()

    return load


def bodies(frame: DataFrame) -> list[str]:
    return sorted(row.body for row in frame.selectExpr("CAST(body AS STRING) AS body").collect())


def test_read_of_two_topics_returns_every_message_once(messages: Topic, others: Topic, read: ReadOf) -> None:
    sent = messages.send(20) + others.send(10)
    frame = read(subscribe=f"{messages.name}, {others.name}")
    assert bodies(frame) == sorted(sent)
    assert {row.topic for row in frame.select("topic").collect()} == {messages.name, others.name}


def test_pattern_reads_the_topics_whose_whole_names_match(messages: Topic, others: Topic, read: ReadOf) -> None:
    sent = messages.send(4) + others.send(4)
    assert bodies(read(subscribePattern=f"{messages.name}|{others.name}")) == sorted(sent)
    assert read(subscribePattern=f"{messages.name[:-1]}|%DLQ%.*|TBW102").count() == 0


def test_assigned_queues_are_read_and_no_others(messages: Topic, read: ReadOf) -> None:
    messages.send(12)
    (broker_name,) = {queue.broker_name for queue in messages.queues}
    frame = read(schema=OF_A_QUEUE, assign=json.dumps({messages.name: {broker_name: [3, 0]}}))
    assert {row.queueId for row in frame.collect()} == {0, 3}
    offsets = json.dumps({messages.name: {broker_name: {"0": 1, "3": -2}}})
    frame = read(assign=json.dumps({messages.name: {broker_name: [0, 3]}}), startingOffsets=offsets)
    assert frame.count() == sum(messages.bounds()[messages.queues[number]].max_offset for number in (0, 3)) - 1
    with pytest.raises(AnalysisException, match=rf"ASSIGNED_QUEUES_NOT_FOUND.*{messages.name}@{broker_name}:4"):
        read(assign=json.dumps({messages.name: {broker_name: [0, 4]}})).count()


def test_read_of_an_empty_topic_has_no_rows(read: ReadOf) -> None:
    assert read().count() == 0


def test_offsets_and_times_limit_each_queue(messages: Topic, read: ReadOf) -> None:
    messages.send(20)
    (broker_name,) = {queue.broker_name for queue in messages.queues}
    starts, ends = {"0": 1, "1": -2, "2": 5, "3": 4}, {"0": 3, "1": 2, "2": -1, "3": 4}
    frame = read(
        schema=OF_A_QUEUE,
        startingOffsets=json.dumps({messages.name: {broker_name: starts}}),
        endingOffsets=json.dumps({messages.name: {broker_name: ends}}),
    )
    expected = [(broker_name, *place) for place in [(0, 1), (0, 2), (1, 0), (1, 1)]]
    assert sorted(map(tuple, frame.collect())) == expected
    time.sleep(0.002)
    between_ms = int(time.time() * 1000)
    later = messages.send(6)
    assert bodies(read(startingTimestamp=str(between_ms))) == sorted(later)
    assert read(endingTimestamp=str(between_ms)).count() == 20
    assert bodies(read(startingOffsetsByTimestamp=json.dumps({messages.name: between_ms}))) == sorted(later)


def test_invalid_positions_are_refused_before_any_task(messages: Topic, read: ReadOf) -> None:
    messages.send(4)
    (broker_name,) = {queue.broker_name for queue in messages.queues}
    offsets = json.dumps({messages.name: {broker_name: {"0": 2, "1": 0, "2": 9}}})
    with pytest.raises(AnalysisException, match=rf"LISTED_QUEUES_MISMATCH.*Missing: {messages.name}@{broker_name}:3"):
        read(startingOffsets=offsets).count()
    offsets = json.dumps({messages.name: {broker_name: {"0": 2, "1": 0, "2": 9, "3": 1}}})
    with pytest.raises(AnalysisException, match=r"OFFSETS_OUT_OF_RANGE.*:0: 2 \[0, 1\], \S+:2: 9 \[0, 1\]"):
        read(startingOffsets=offsets).count()
    for option, value in (("startingOffsets", "latest"), ("endingOffsets", "earliest")):
        with pytest.raises(AnalysisException, match=f"INVALID_OPTION_VALUE.*{option}"):
            read(**{option: value}).count()


def test_tags_columns_and_tasks_are_those_of_a_stream(messages: Topic, read: ReadOf) -> None:
    required = messages.send(30, tag="a")
    messages.send(10, tag="b")
    frame = read(subExpression="a", minPartitions="6", includeProperties="true", propertyColumns="UNIQ_KEY")
    assert frame.rdd.getNumPartitions() >= 6
    assert bodies(frame) == sorted(required)
    row = frame.first()
    assert row is not None
    assert (row.UNIQ_KEY, row.properties["TAGS"]) == (row.msgId, "a")


def test_key_and_id_find_the_same_rows_with_and_without_a_filter(messages: Topic, read: ReadOf) -> None:
    """The key of the second message is a part of those of two others."""
    key = f"key-{messages.send(12)[1]}"
    has_key = f"array_contains(split(keys, ' '), '{key}')"
    (found,) = read().where(has_key).collect()
    with_key = {"expressionType": "SQL92", "subExpression": f"KEYS CONTAINS '{key}'"}
    assert read(**with_key).count() == 3
    assert read(**with_key).where(has_key).collect() == [found]
    assert read().where(f"msgId = '{found.msgId}'").collect() == [found]
    assert read(expressionType="SQL92", subExpression=f"UNIQ_KEY = '{found.msgId}'").collect() == [found]


def test_read_joins_no_group_and_commits_nothing(messages: Topic, read: ReadOf) -> None:
    messages.send(8)
    assert read().count() == 8
    assert set(messages.committed("TOOLS_CONSUMER").values()) == {None}
    assert messages.members("TOOLS_CONSUMER") == []


def test_read_from_the_groups_offsets_changes_nothing_in_the_group(messages: Topic, read: ReadOf, group: str) -> None:
    messages.send(12)
    first, second, third, fourth = messages.queues
    with pytest.raises(AnalysisException, match=rf"COMMITTED_OFFSETS_NOT_FOUND.*'{group}'.*4 queues.*{fourth}"):
        read(consumerGroup=group, startingOffsets="group").count()
    messages.commit(group, {first: 1, second: 2, third: 3})
    given = {"consumerGroup": group, "schema": OF_A_QUEUE}
    backlog = read(startingOffsets="group:earliest", **given)
    expected = [(first, 1), (first, 2), (second, 2), (fourth, 0), (fourth, 1), (fourth, 2)]
    assert sorted(map(tuple, backlog.collect())) == [(one.broker_name, one.queue_id, at) for one, at in expected]
    assert read(startingOffsets="group:latest", **given).count() == 3
    assert read(endingOffsets="group:earliest", **given).count() == 6
    assert messages.committed(group) == {first: 1, second: 2, third: 3, fourth: None}
    eventually(lambda: messages.members(group) == [], "the member has left")


def test_times_are_written_with_a_zone(messages: Topic, read: ReadOf) -> None:
    messages.send(4)
    assert read(startingTimestamp="2026-01-01T00:00:00+01:00", endingTimestamp="2099-01-01T00:00Z").count() == 4
    with pytest.raises(AnalysisException, match=r"TIME_WITHOUT_ZONE.*2026-01-01T00:00:00\."):
        read(startingTimestamp="2026-01-01T00:00:00").count()
    with pytest.raises(AnalysisException, match=r"TIMESTAMP_NOT_MATCHED.*4 queues"):
        read(startingTimestamp="2099-01-01T00:00Z").count()
    assert read(startingTimestamp="2099-01-01T00:00Z", startingOffsetsByTimestampStrategy="latest").count() == 0


def test_group_is_refused_without_credentials(read: ReadOf) -> None:
    with pytest.raises(AnalysisException, match=r"OPTION_REQUIRES_OPTION.*'consumerGroup' requires.*joins no group"):
        read(consumerGroup="g").count()


def test_missing_topic_is_named(read: ReadOf) -> None:
    with pytest.raises(AnalysisException, match=r"TOPIC_NOT_FOUND.*no_such_topic"):
        read(subscribe="no_such_topic", missingTopicTimeoutMs="0").count()


@pytest.fixture
def view(spark: SparkSession, cluster: EmbeddedCluster, messages: Topic) -> Iterator[Callable[[str], str]]:
    """Creates a view of the test's topic with columns, and returns its name."""
    name = unique_name("view")

    def create(columns: str) -> str:
        options = f"OPTIONS (namesrvAddr '{cluster.namesrv_addr}', topic '{messages.name}')"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} {columns} USING rocketmq {options}")
        return name

    yield create
    spark.catalog.dropTempView(name)


def test_view_is_selected_from_and_inserted_into(
    spark: SparkSession, messages: Topic, view: Callable[[str], str]
) -> None:
    messages.send(4, tag="a")
    name = view("(body BINARY, tags STRING)")
    assert spark.sql(f"SELECT count(*) FROM {name} WHERE tags = 'a'").first() == (4,)
    spark.sql(f"INSERT INTO {name} VALUES (X'6E6577', 'b'), (X'6E657765', 'b')")
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 6, "2 messages more")
    assert spark.table(name).count() == 4, "a view is bound at its first query"
    name = view("(tags STRING)")
    counted = spark.sql(f"SELECT tags, count(*) FROM {name} GROUP BY tags ORDER BY tags").collect()
    assert [tuple(row) for row in counted] == [("a", 4), ("b", 2)]


def test_table_with_columns_takes_its_options_from_each_statement(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic
) -> None:
    name = unique_name("table")
    spark.sql(f"CREATE TABLE {name} (body BINARY) USING rocketmq")
    options = f"WITH (`namesrvAddr` = '{cluster.namesrv_addr}', `topic` = '{messages.name}')"
    try:
        spark.sql(f"INSERT INTO {name} {options} VALUES (X'6E6577')")
        messages.await_dispatch()
        assert spark.sql(f"SELECT body FROM {name} {options}").first() == (b"new",)
    finally:
        spark.sql(f"DROP TABLE {name}")
