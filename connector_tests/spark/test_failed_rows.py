"""Rows that fail: they hold nothing up, come again through the retry topic, and end in the dead-letter topic."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Stream, Topic, eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import NotSentBackError, OptionError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = pytest.mark.full

SCHEMA = "topic STRING, brokerName STRING, msgId STRING, body BINARY, reconsumeTimes INT, commitLogOffset BIGINT"
ONE_SECOND = 1
ONE_MINUTE = 5
TO_THE_DLQ = -1
COUNT = 100
TWICE, ALWAYS, UNAVAILABLE = 7, 13, 21


class Work:
    """What is done with each batch: most rows succeed; some fail twice, always, or come back only after the test."""

    def __init__(self, options: dict[str, str], bodies: list[str]) -> None:
        self._options = options
        text = col("body").cast("string")
        self._fails: Column = (text == bodies[TWICE]) & (col("reconsumeTimes") < 2) | (text == bodies[ALWAYS])
        self._is_unavailable: Column = text == bodies[UNAVAILABLE]
        self.done: list[Row] = []
        self.failed: list[Row] = []

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        failed = batch.where(self._fails)
        self.done += batch.where(~self._fails & ~self._is_unavailable).collect()
        failed_rows = failed.collect()
        rocketmq_spark.send_back(failed, self._options, delay_level=ONE_SECOND, max_reconsume_times=2)
        self.failed += failed_rows
        unavailable = batch.where(self._is_unavailable).collect()
        rocketmq_spark.send_back(unavailable, self._options, delay_level=ONE_MINUTE)
        batch.unpersist()


def body_of(row: Row) -> str:
    return bytes(row.body).decode()


def options_of(read: Stream, **more: str) -> dict[str, str]:
    return {
        "namesrvAddr": read.cluster.namesrv_addr,
        "consumerGroup": read.group,
        "subscribe": read.topic,
        **more,
    }


def dead_letters_of(stream: StreamOf, group: str) -> Stream:
    """The group's dead-letter topic, read by another group."""
    more = {"propertyColumns": "RETRY_TOPIC"}
    return stream("dead-letters", subscribe=f"%DLQ%{group}", consumerGroup=f"{group}-reader", **more)


@pytest.fixture
def dead_letters(stream: StreamOf, group: str) -> Stream:
    """Those of the test's group."""
    return dead_letters_of(stream, group)


def test_failed_rows_are_redelivered_or_end_in_the_dlq_and_hold_nothing_up(
    messages: Topic, stream: StreamOf, dead_letters: Stream, group: str
) -> None:
    bodies = messages.send(COUNT)
    worker = stream(schema=SCHEMA, retryTopic="true")
    work = Work(options_of(worker, retryTopic="true"), bodies)
    writer = worker.load().writeStream.foreachBatch(work)
    query = writer.option("checkpointLocation", str(worker.folder / "checkpoint")).start()
    try:
        processed = {body for number, body in enumerate(bodies) if number not in {ALWAYS, UNAVAILABLE}}
        eventually(lambda: set(map(body_of, work.done)) == processed, "all but two rows, one at the third attempt")
        eventually(lambda: len(work.failed) == 5, "two failures of one row and three of another")
        eventually(lambda: messages.lag(group) == 0, "not held up by the row that is away")
    finally:
        query.stop()
    assert len(work.done) == len(processed)
    (again,) = [row for row in work.done if body_of(row) == bodies[TWICE]]
    (first, _) = [row for row in work.failed if body_of(row) == bodies[TWICE]]
    assert (again.topic, again.msgId, again.reconsumeTimes) == (messages.name, first.msgId, 2)
    dead_letters.run_to_end()
    (dead,) = dead_letters.rows()
    assert (body_of(dead), dead.topic) == (bodies[ALWAYS], f"%DLQ%{group}")
    assert messages.name == dead.RETRY_TOPIC


MESSAGE_SCHEMA = "topic STRING, brokerName STRING, receiptHandle STRING, msgId STRING, body BINARY, reconsumeTimes INT"


def test_rows_of_a_group_that_shares_messages_are_redelivered_or_end_in_the_dlq(
    messages: Topic, cluster: EmbeddedCluster, stream: StreamOf, dead_letters: Stream, group: str
) -> None:
    """Executors send them back by their handles; the batch acknowledges all others."""
    pool = ConnectionPool(PATIENT_MS)
    AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS).update_group(group, retry_max_times=1)
    pool.close()
    bodies = messages.send(20)
    worker = stream(schema=MESSAGE_SCHEMA, loadBalance="message")
    options = options_of(worker, loadBalance="message")
    done: list[Row] = []
    failed: list[Row] = []
    text = col("body").cast("string")
    fails = (text == bodies[TWICE]) & (col("reconsumeTimes") < 1) | (text == bodies[ALWAYS])

    def work(batch: DataFrame, _batch_id: int) -> None:
        batch.persist()
        done.extend(batch.where(~fails).collect())
        failed_rows = batch.where(fails).collect()
        rocketmq_spark.send_back(batch.where(fails), options, delay_level=ONE_SECOND)
        failed.extend(failed_rows)
        batch.unpersist()

    writer = worker.load().writeStream.foreachBatch(work)
    query = writer.option("checkpointLocation", str(worker.folder / "checkpoint")).start()
    try:
        processed = sorted(body for number, body in enumerate(bodies) if number != ALWAYS)
        eventually(lambda: sorted(map(body_of, done)) == processed, "all but one row, one at the second attempt")
        eventually(lambda: len(failed) == 3, "one failure of one row and two of another")
        eventually(lambda: dead_letters_reported_by(query) == 1, "a dead letter in the progress")
    finally:
        query.stop()
    dead_letters.run_to_end()
    assert dead_letters.bodies() == [bodies[ALWAYS]]


def dead_letters_reported_by(query: StreamingQuery) -> int:
    last = query.lastProgress
    return 0 if last is None else int(json.loads(last.sources[0].latestOffset)["deadLetters"])


@pytest.fixture(scope="module")
def read(spark: SparkSession, cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """A run that has read five rows with what it takes to send them back, for tests that read nothing more."""
    with closing(Topic(cluster, cluster.create_topic(unique_name("read"), 4))) as topic:
        topic.send(5)
    source = Stream(spark, cluster, topic.name, unique_name("reader"), tmp_path_factory.mktemp("read"), schema=SCHEMA)
    source.run_to_end()
    return source


def test_rows_can_be_sent_back_from_where_they_are(read: Stream, stream: StreamOf) -> None:
    row = read.rows()[0]
    rocketmq_spark.send_back([row], options_of(read), delay_level=TO_THE_DLQ)
    dead_letters = dead_letters_of(stream, read.group)
    dead_letters.run_to_end()
    assert dead_letters.bodies() == [body_of(row)]


def test_rows_that_were_not_accepted_are_named(read: Stream) -> None:
    rows = read.spark.read.parquet(str(read.folder / "out")).withColumn(
        "commitLogOffset", col("commitLogOffset") + 10**9
    )
    with pytest.raises(
        NotSentBackError, match=r"Cannot send back 5 messages .*commit log offset 1\d{9}.*MESSAGE_DELETED"
    ) as raised:
        rocketmq_spark.send_back(rows, options_of(read), delay_level=TO_THE_DLQ)
    assert all(row.msgId in str(raised.value) for row in read.rows())


def test_a_row_without_its_place_in_the_commit_log_is_refused(read: Stream) -> None:
    rows = read.spark.read.parquet(str(read.folder / "out")).drop("commitLogOffset")
    with pytest.raises(OptionError, match=r"MISSING_SEND_BACK_COLUMN.*commitLogOffset"):
        rocketmq_spark.send_back(rows, options_of(read), delay_level=TO_THE_DLQ)


def test_rows_that_would_never_be_read_again_are_refused(read: Stream) -> None:
    with pytest.raises(OptionError, match=r"Invalid value 'false' for 'retryTopic'.*dead-letter"):
        rocketmq_spark.send_back(read.rows(), options_of(read))
