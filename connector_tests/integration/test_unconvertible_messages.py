"""Messages that a proxy cannot convert, before true messages: these are read, though the proxy fails each response
with one of the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, dead_letter_topic
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.remoting.broker_rpcs import send_header, send_rpc
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.message.batch import encode_batch
from rocketmq_spark.wire.remoting.codes import RequestCode

pytestmark = [pytest.mark.broker, pytest.mark.full]

TIMEOUT_MS: Final = PATIENT_MS
INVISIBLE_MS: Final = 10_000
"""The shortest that a proxy accepts."""

TRUE_MESSAGES: Final = 20
UNCONVERTIBLE: Final = b"unconvertible"
PROPERTIES: Final = {
    "POP_CK": "x y",
    "TIMER_DELIVER_MS": "parse the consumer's subscription failed",
    "TIMER_DELAY_SEC": "group not found" + "x" * 1_947 + ". MQBrokerException",
}
"""The proxy's error quotes the last two: an invalid filter, an unknown group and, where 2,000 characters end, an
outage."""

PROBLEMS: Final = [["POP_CK"], ["bornTimestamp", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC"]]
"""By what the proxy converts first: the receipt handles of the whole response, or message after message."""

MANY: Final = 24
LEAST_JAVA_LONG: Final = -(2**63)


@pytest.fixture(scope="module")
def cluster(cluster_with_proxy: EmbeddedCluster) -> EmbeddedCluster:
    return cluster_with_proxy


@pytest.fixture
def broker(cluster: EmbeddedCluster) -> Iterator[AdminBroker]:
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        yield AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)


def send_unconvertible(broker: AdminBroker, queue: MessageQueue, problem: str) -> None:
    header = send_header(queue, "tests", sys_flag=0, properties="", is_batch=problem in PROPERTIES)
    code, body = RequestCode.SEND_MESSAGE_V2, UNCONVERTIBLE
    if problem == "bornTimestamp":
        header = replace(header, born_timestamp_ms=LEAST_JAVA_LONG)
    else:
        code, body = (
            RequestCode.SEND_BATCH_MESSAGE,
            encode_batch([Message(queue.topic, body, properties={problem: PROPERTIES[problem]})]),
        )
    broker.call(send_rpc(code, header, body, queue))


def read_to_end(reader: RocketMQPopReader) -> list[str]:
    """Bodies, until a call brings no more."""
    found: list[str] = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, ReadAllAvailable())) != start:
        for partition in reader.partitions(start, end):
            for batch in reader.read(partition):
                found += [body.decode() for body in batch.column("body").to_pylist()]
        start = end
    return found


def dead_letters(broker: AdminBroker, group: str) -> bytes:
    """The records of the dead-letter topic; empty where the broker has no such topic."""
    queue = MessageQueue(dead_letter_topic(group), "broker-a", 0)
    if not broker.max_offset(queue):
        return b""
    return bytes(broker.pull("tests", queue, 0, 32).body)


@pytest.mark.parametrize("problems", PROBLEMS, ids=" ".join)
def test_true_messages_behind_unconvertible_ones_are_all_read(
    problems: list[str], cluster: EmbeddedCluster, broker: AdminBroker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They counted a delivery attempt with each failed response: with ``availableNow`` the query ended as successful
    without them, else they ended in the dead-letter topic."""
    caplog.set_level(logging.INFO)
    queue = MessageQueue(cluster.create_topic(unique_name("unconvertible"), 1), "broker-a", 0)
    broker.update_group(group, retry_max_times=1)
    broker.update_offset(group, queue, 0)
    for problem in problems:
        send_unconvertible(broker, queue, problem)
    with closing(Topic(cluster, queue.topic)) as topic:
        sent = topic.send(TRUE_MESSAGES)
    options = {"endpoints": cluster.endpoints, "consumerGroup": group, "subscribe": queue.topic}
    more = {"loadBalance": "message", "invisibleDurationMs": str(INVISIBLE_MS)}
    reader = RocketMQDataSource(options | more).streamReader(default_schema())
    assert isinstance(reader, RocketMQPopReader)
    reader.prepareForTriggerAvailableNow()
    try:
        found = read_to_end(reader)
    finally:
        reader.stop()
    assert sorted(found) == sorted(sent)
    lines = [one.getMessage() for one in caplog.records if "UNCONVERTIBLE_MESSAGE" in one.getMessage()]
    begun, ended = (sum(words in line for line in lines) for words in ("cannot convert", "Recovered"))
    assert begun in (1, ended + 1), "one line each time that it begins"
    dead = dead_letters(broker, group)
    assert [body for body in sent if body.encode() in dead] == []


def test_many_unconvertible_messages_stop_neither_extensions_nor_acknowledgements(
    cluster: EmbeddedCluster, broker: AdminBroker, group: str
) -> None:
    """Each failed response was a failure of the broker, in whose pauses nothing was sent to it: a true message expired,
    and came twice."""
    queue = MessageQueue(cluster.create_topic(unique_name("unconvertible"), 1), "broker-a", 0)
    broker.ensure_group(group)
    broker.update_offset(group, queue, 0)
    with closing(Topic(cluster, queue.topic)) as topic:
        topic.send(1)
    given = {"endpoints": cluster.endpoints, "consumerGroup": group, "subscribe": queue.topic, **PATIENT}
    options = ReadOptions.parse(given | {"loadBalance": "message", "invisibleDurationMs": str(2 * INVISIBLE_MS)})
    receiver = Receiver(options, transport_of(options))
    try:
        receiver.start()
        eventually(lambda: len(receiver.start_batch(0, 10)) == 1, "a batch")
        for _ in range(MANY):
            send_unconvertible(broker, queue, "POP_CK")
        eventually(lambda: "convertible" in str(receiver.outages), "a failed response")
        eventually(lambda: receiver.counts.extended >= 2, "extensions")
        receiver.mark_completed(0)
        eventually(lambda: receiver.counts.acknowledged == 1, "an acknowledgement")
        assert (receiver.counts.received, receiver.counts.expired) == (1, 0)
    finally:
        receiver.stop()
