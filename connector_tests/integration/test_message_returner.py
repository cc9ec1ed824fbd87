"""Rows that are sent back where a group shares messages, on a real broker and a real proxy: they are redelivered, and
nothing else of their batch does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

import rocketmq_spark
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS, TIMEOUT_FACTOR
from connector_tests.support.ways import WAYS, Way, way_of
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import tasks_of
from rocketmq_spark.wire.message.stored_message import decode_messages

pytestmark = pytest.mark.broker

LONG_MS = 120_000
SHORT_MS = int(6_000 * TIMEOUT_FACTOR)
UNTIL_REVIVED_S = SHORT_MS / 1000 + 5.0
ONE_SECOND, FIVE_SECONDS = 1, 2
SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in ("receiptHandle", "topic", "brokerName", "msgId")),
        StructField("body", BinaryType()),
        StructField("reconsumeTimes", IntegerType()),
        StructField("commitLogOffset", LongType()),
    ]
)


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, clusters: ClusterPool) -> Way:
    return way_of(request, clusters)


@pytest.fixture
def cluster(way: Way) -> EmbeddedCluster:
    return way.cluster


class Group:
    """One that shares the test's topic."""

    def __init__(self, way: Way, topic: str, group: str) -> None:
        self.name = group
        given = {"consumerGroup": group, "subscribe": topic, "loadBalance": "message"}
        self.options = given | dict(way.server) | {"invisibleDurationMs": str(LONG_MS)} | PATIENT
        self._made = ExitStack()

    def receiver(self, **more: str) -> Receiver:
        """Has begun to receive."""
        options = ReadOptions.parse(self.options | more)
        one = Receiver(options, transport_of(options))
        self._made.callback(one.stop)
        one.start()
        return one

    def rows(self, received: list[ReceivedMessage]) -> list[Row]:
        """As executors make them, in the order of their bodies."""
        options = ReadOptions.parse(self.options)
        batches = (batch for parts in tasks_of(received, None, with_handles=True)
                   for batch in read_parts(parts, options, SCHEMA))  # fmt: skip
        rows = [Row(**values) for batch in batches for values in batch.to_pylist()]
        return sorted(rows, key=lambda row: bytes(row.body))

    def close(self) -> None:
        self._made.close()


@pytest.fixture
def shared(way: Way, topic: str, group: str) -> Iterator[Group]:
    one = Group(way, topic, group)
    yield one
    one.close()


def grow(one: Receiver, count: int, batch: int = 1) -> list[ReceivedMessage]:
    """A batch of so many messages."""
    eventually(lambda: one.count(MessageState.PREFETCHED) >= count, f"{count} messages received")
    return list(one.start_batch(batch, count))


def assert_redelivered_once(shared: Group, one: Receiver, failed: Row) -> None:
    """And nothing else comes."""
    (again,) = shared.rows(grow(one, 1, batch=2))
    assert (again.body, again.msgId, again.reconsumeTimes) == (failed.body, failed.msgId, failed.reconsumeTimes + 1)
    time.sleep(UNTIL_REVIVED_S)
    assert one.count(MessageState.PREFETCHED) == 0


def test_a_row_that_is_sent_back_is_redelivered_and_the_rest_of_its_batch_is_acknowledged(
    messages: Topic, shared: Group
) -> None:
    sent = messages.send(4)
    one = shared.receiver()
    rows = shared.rows(grow(one, len(sent)))
    rocketmq_spark.send_back(rows[1:2], shared.options, delay_level=ONE_SECOND)
    one.mark_completed(1)
    eventually(lambda: one.counts.acknowledged == len(sent), "all acknowledged")
    assert_redelivered_once(shared, one, rows[1])


def test_it_is_redelivered_where_its_batch_had_been_extended_before(messages: Topic, shared: Group) -> None:
    """Its handle is an old one, and its time is over."""
    sent = messages.send(3)
    one = shared.receiver(invisibleDurationMs=str(SHORT_MS))
    rows = shared.rows(grow(one, len(sent)))
    time.sleep(2.5 * SHORT_MS / 1000)
    assert one.counts.extended >= len(sent)
    rocketmq_spark.send_back(rows[:1], shared.options, delay_level=ONE_SECOND)
    one.mark_completed(1)
    assert_redelivered_once(shared, one, rows[0])
    assert one.counts.expired == 0


def test_it_is_redelivered_where_its_batch_is_extended_afterwards(messages: Topic, shared: Group) -> None:
    sent = messages.send(3)
    one = shared.receiver(invisibleDurationMs=str(SHORT_MS))
    rows = shared.rows(grow(one, len(sent)))
    rocketmq_spark.send_back(rows[:1], shared.options, delay_level=FIVE_SECONDS)
    mark_extended = one.counts.extended
    eventually(lambda: one.counts.extended > mark_extended, "a renewal")
    one.mark_completed(1)
    assert_redelivered_once(shared, one, rows[0])
    assert one.counts.expired == 0


def test_what_failed_too_often_is_in_the_dead_letter_topic(
    messages: Topic, shared: Group, cluster: EmbeddedCluster
) -> None:
    pool = ConnectionPool(PATIENT_MS)
    AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS).update_group(shared.name, retry_max_times=0)
    pool.close()
    sent = messages.send(2)
    one = shared.receiver()
    rows = shared.rows(grow(one, len(sent)))
    rocketmq_spark.send_back(rows[:1], shared.options, delay_level=ONE_SECOND)
    one.mark_completed(1)
    server = {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest"}
    dead_letters = Group(Way(cluster, server), f"%DLQ%{shared.name}", "reader")
    (dead,) = grow(dead_letters.receiver(missingTopicTimeoutMs="60000"), 1)
    dead_letters.close()
    (message,) = decode_messages(dead.record, broker_name="broker-a")
    assert (message.body, message.msg_id) == (rows[0].body, rows[0].msgId)
    time.sleep(UNTIL_REVIVED_S)
    assert one.count(MessageState.PREFETCHED) == 0
    assert one.counts.acknowledged in {len(sent), len(sent) + 1}, "a proxy acknowledges it by itself"
