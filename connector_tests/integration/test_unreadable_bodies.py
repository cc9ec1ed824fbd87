"""Messages of a real broker whose bodies cannot be read, in each mode of ``badMessages``."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.broker_rpcs import send_header, send_rpc
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.arrow import columns, undecodable
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.codes import RequestCode

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("implementation")]

POISON_FLAG = int(MessageSysFlag.COMPRESSED | MessageSysFlag.LZ4)
"""States that a body is compressed; these bodies are not."""

COUNT, UNDECODABLE = 10, (3, 4, 8)
GROUP = "readers-of-bad-messages"
Row = dict[str, object]


@pytest.fixture(scope="module")
def queue(cluster: EmbeddedCluster) -> Iterator[MessageQueue]:
    """Ten messages, three of them poison."""
    topic = cluster.create_topic(unique_name("bad"), queues=1)
    pool = ConnectionPool(PATIENT_MS)
    name_servers = NameServers((cluster.namesrv_addr,), pool, PATIENT_MS)
    producer = Producer(
        ClusterClient((cluster.namesrv_addr,), pool, PATIENT_MS), group="tests", initial_queue_index=lambda: 0
    )
    for offset in range(COUNT):
        message = Message(topic, b"body %d" % offset, tags="a", keys=f"key-{offset}", properties={"own": "x"})
        producer.send(message, sys_flag=POISON_FLAG if offset in UNDECODABLE else 0)
    (queue,) = name_servers.query_topic_route(topic).read_queues()
    yield queue
    pool.close()


def read(cluster: EmbeddedCluster, queue_range: QueueRange, group: str, **more: str) -> list[Row]:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": queue_range.queue.topic}
    batches = read_ranges([queue_range], ReadOptions.parse(given | more), default_schema(include_properties=True))
    return [row for batch in batches for row in batch.to_pylist()]


def offsets_and_bodies(rows: list[Row]) -> list[tuple[object, object]]:
    return [(row["queueOffset"], row["body"]) for row in rows]


GOOD = [(offset, b"body %d" % offset) for offset in range(COUNT) if offset not in UNDECODABLE]


def test_fail_names_the_offset_the_reason_and_what_to_do(cluster: EmbeddedCluster, queue: MessageQueue) -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        read(cluster, QueueRange(queue, 0, COUNT), GROUP)
    assert raised.value.condition == "UNDECODABLE_MESSAGE_BODY"
    assert (raised.value.context["queue"], raised.value.context["offset"]) == (str(queue), UNDECODABLE[0])
    assert "its LZ4 body is damaged" in str(raised.value)
    assert "badMessages" in str(raised.value)


def test_null_gives_a_row_without_body_and_one_line_with_the_offsets(
    cluster: EmbeddedCluster, queue: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        rows = read(cluster, QueueRange(queue, 1, COUNT), GROUP, badMessages="null")
    bodies = {offset: None if offset in UNDECODABLE else b"body %d" % offset for offset in range(1, COUNT)}
    assert offsets_and_bodies(rows) == list(bodies.items())
    assert [row["keys"] for row in rows] == [f"key-{offset}" for offset in range(1, COUNT)]
    (line,) = (record.getMessage() for record in caplog.records if "UNDECODABLE_MESSAGE_BODY" in record.getMessage())
    assert line.startswith(
        f"UNDECODABLE_MESSAGE_BODY: Messages of queue={queue} offsets=[3, 4) [4, 5) [8, 9) read with a null body "
        "(badMessages=null); first problem: "
    )


def test_dead_letters_are_in_the_groups_topic_readable_and_leave_no_rows(
    cluster: EmbeddedCluster, queue: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    group = unique_name("bad")
    for _ in range(2):
        rows = read(cluster, QueueRange(queue, 0, COUNT), group, badMessages="deadLetter")
        assert offsets_and_bodies(rows) == GOOD
    assert "sent to the group's dead-letter topic (badMessages=deadLetter)" in caplog.text
    letters = dead_letters_of(cluster, queue, group, 2 * len(UNDECODABLE))
    assert [row["body"] for row in letters] == [b"body %d" % offset for offset in (*UNDECODABLE, *UNDECODABLE)]
    assert [row["msgId"] for row in letters[: len(UNDECODABLE)]] == [
        row["msgId"] for row in letters[len(UNDECODABLE) :]
    ]
    check_the_first(letters, queue)


def dead_letters_of(cluster: EmbeddedCluster, queue: MessageQueue, group: str, count: int) -> list[Row]:
    dead = MessageQueue(f"%DLQ%{group}", queue.broker_name, 0)
    return read(cluster, QueueRange(dead, 0, count), f"{group}-reader")


def check_the_first(letters: list[Row], queue: MessageQueue) -> None:
    """It is the message, and states what it was."""
    first = dict(letters[0]["properties"])  # type: ignore[call-overload]  # rows of JSON
    assert (first["own"], first["TAGS"], first["KEYS"]) == ("x", "a", "key-3")
    assert (first["RETRY_TOPIC"], first["BAD_MESSAGE_OFFSET"]) == (queue.topic, "3")
    assert (first["BAD_MESSAGE_QUEUE"], first["BAD_MESSAGE_SYS_FLAG"]) == (str(queue), str(POISON_FLAG))
    assert first["BAD_MESSAGE_PROBLEM"].startswith("its LZ4 body is damaged")


def test_shared_messages_that_are_undecodable_are_dead_letters_and_acknowledged_with_their_batch(
    cluster: EmbeddedCluster, queue: MessageQueue
) -> None:
    group = unique_name("bad")
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": queue.topic}
    given |= {"loadBalance": "message", "startingOffsets": "earliest", "badMessages": "deadLetter"}
    reader = RocketMQDataSource(given).streamReader(default_schema())
    assert isinstance(reader, RocketMQPopReader)
    reader.prepareForTriggerAvailableNow()
    with closing(ToEnd(reader)) as query:
        rows = query.rows()
        assert sorted(offsets_and_bodies(rows)) == GOOD
        report = reader.reportLatestOffset()
        assert report is not None
        assert (report["received"], report["acknowledged"]) == (COUNT, COUNT)
    letters = dead_letters_of(cluster, queue, group, len(UNDECODABLE))
    assert sorted(str(row["body"]) for row in letters) == [str(b"body %d" % offset) for offset in UNDECODABLE]
    letters.sort(key=lambda row: str(row["body"]))
    check_the_first(letters, queue)


REFUSED_BEFORE = {
    "half": b"TRAN_MSG\x01true\x02",
    "long": b"RETRY_TOPIC\x01" + b"t" * 32_500 + b"\x02",
    "no text": b"UNIQ_KEY\x01" + b"\xff" * 11_000 + b"\x02",
}


@pytest.mark.parametrize("properties", REFUSED_BEFORE.values(), ids=list(REFUSED_BEFORE))
def test_a_dead_letter_is_stored_whatever_properties_its_message_had(
    cluster: EmbeddedCluster, properties: bytes
) -> None:
    """A broker took the first for a half message, which nobody commits, and refused the others at each attempt."""
    group, queue = unique_name("bad"), MessageQueue(cluster.create_topic(unique_name("bad"), queues=1), "broker-a", 0)
    body = b"no stream"
    batch = struct.pack(f">iiiii{len(body)}sh", 0, 0, 0, 0, len(body), body, len(properties)) + properties
    batch = struct.pack(">i", len(batch)) + batch[4:]
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        header = send_header(queue, "tests", sys_flag=POISON_FLAG, is_batch=True)
        broker.call(send_rpc(RequestCode.SEND_BATCH_MESSAGE, header, batch, queue))
        eventually(lambda: broker.max_offset(queue) == 1, "stored")
        assert read(cluster, QueueRange(queue, 0, 1), group, badMessages="deadLetter", clusterTimeoutMs="5000") == []
        dead = MessageQueue(f"%DLQ%{group}", queue.broker_name, 0)
        eventually(lambda: broker.max_offset(dead) == 1, "a dead letter")
    (letter,) = dead_letters_of(cluster, queue, group, 1)
    assert letter["body"] == body


class ToEnd:
    """Reads all that there is, as Spark would, batch by batch."""

    def __init__(self, reader: RocketMQPopReader) -> None:
        self._reader = reader
        self.close = reader.stop

    def rows(self) -> list[Row]:
        found: list[Row] = []
        start = self._reader.initialOffset()
        while (end := self._reader.latestOffset(start, ReadAllAvailable())) != start:
            parts = self._reader.partitions(start, end)
            found += [row for part in parts for batch in self._reader.read(part) for row in batch.to_pylist()]
            start = end
        return found


def test_bodies_that_are_too_large_together_come_all_the_same(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    bodies = [bytes([number]) * 600 for number in range(COUNT)]
    pool = ConnectionPool(PATIENT_MS)
    name_servers = NameServers((cluster.namesrv_addr,), pool, PATIENT_MS)
    producer = Producer(
        ClusterClient((cluster.namesrv_addr,), pool, PATIENT_MS), group="tests", initial_queue_index=lambda: 0
    )
    topic = cluster.create_topic(unique_name("large"), queues=1)
    for body in bodies:
        producer.send(Message(topic, compress(body, MessageSysFlag.LZ4)), sys_flag=POISON_FLAG)
    (queue,) = name_servers.query_topic_route(topic).read_queues()
    pool.close()
    rows = read(cluster, QueueRange(queue, 0, COUNT), GROUP)
    assert offsets_and_bodies(rows) == list(enumerate(bodies))


def test_a_body_that_is_not_read_is_not_undecodable(cluster: EmbeddedCluster, queue: MessageQueue) -> None:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": GROUP, "subscribe": queue.topic}
    schema = default_schema().__class__([field for field in default_schema() if field.name in {"keys", "queueOffset"}])
    (batch,) = read_ranges([QueueRange(queue, 0, COUNT)], ReadOptions.parse(given), schema)
    assert batch.num_rows == COUNT
