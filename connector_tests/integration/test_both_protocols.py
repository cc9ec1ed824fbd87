"""The same messages and the same checkpoint over either protocol: equal rows, and a restart over the other one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructField, StructType

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.message_group import GRPC, LONG_MS, REMOTING, MessageGroup, Row, bodies
from connector_tests.support.streams import TIMEOUT_S, eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import Message
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.schema import spark_type
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

pytestmark = pytest.mark.broker

SENT = 10
INVISIBLE_MS = 12_000
ALL = StructType([StructField(name, spark_type(column)) for name, column in COLUMNS.items()])
NOT_OVER_GRPC = ("offsetMsgId", "commitLogOffset", "sysFlag", "flag", "bodyCRC")
"""docs/message-mode.md names them."""

OF_BROKERS = {"MSG_REGION", "TRACE_ON", "CLUSTER"}
"""Properties of RocketMQ's own, which a proxy leaves out."""

ACROSS = pytest.mark.parametrize(("before", "now"), [(REMOTING, GRPC), (GRPC, REMOTING)])

Value = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(grpc_library: None, clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(proxy=True)


@pytest.fixture
def desk(cluster: EmbeddedCluster) -> Iterator[MessageGroup]:
    with closing(MessageGroup(cluster, REMOTING)) as desk:
        yield desk


@contextmanager
def reader_of(options: Mapping[str, str]) -> Iterator[Any]:
    one = RocketMQDataSource(dict(options)).streamReader(ALL)
    try:
        yield one
    finally:
        one.stop()


def rows(one: Any, start: Value, end: Value) -> list[Row]:
    return [row for part in one.partitions(start, end) for batch in one.read(part) for row in batch.to_pylist()]


def read_from(one: Any, start: Value, count: int) -> tuple[list[Row], Value]:
    """So many rows and where they end; what came before the last batch is acknowledged."""
    found: list[Row] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        end = json.loads(json.dumps(one.latestOffset(start, ReadAllAvailable())))
        if end != start:
            found += rows(one, start, end)
        start = end
    return found, start


# ------------------------------------------------------------------------------------------------------------ columns


MESSAGES = (
    {"body": b"a tag, keys and properties", "tags": "TagA", "keys": "k1 k2", "properties": {"colour": "red"}},
    {"body": b"none of them"},
    {"body": b"a flag", "flag": 7},
    {"body": bytes(range(256)) * 40, "properties": {"größe": "ein Wert\n mit Zeilen"}},
)


LONG = b"a long body" * 1_000
COMPRESSED_BY_ZLIB = MessageSysFlag.COMPRESSED | MessageSysFlag.ZLIB


def send_all(cluster: EmbeddedCluster, topic: str) -> None:
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        client = ClusterClient((cluster.namesrv_addr,), pool, PATIENT_MS)
        producer = Producer(client, group="tests", initial_queue_index=lambda: 0)
        for one in MESSAGES:
            producer.send(Message(topic, **one))
        producer.send(Message(topic, compress(LONG, MessageSysFlag.ZLIB)), sys_flag=COMPRESSED_BY_ZLIB)


def test_rows_are_equal_but_for_what_a_protocol_has_not(cluster: EmbeddedCluster, desk: MessageGroup) -> None:
    send_all(cluster, desk.topic)
    by_queue = {**desk.options_over(REMOTING), "loadBalance": "queue"}
    ways = {"queue": by_queue, REMOTING: desk.options_over(REMOTING), GRPC: desk.options_over(GRPC)}
    found: dict[str, list[Row]] = {}
    for name, options in ways.items():
        with reader_of({**options, "consumerGroup": f"{desk.group}_{name}"}) as one:
            read, _ = read_from(one, one.initialOffset(), len(MESSAGES) + 1)
            found[name] = sorted(read, key=lambda row: int(row["queueOffset"]))
    assert found["queue"][-1]["body"] == LONG
    assert found[REMOTING] == found["queue"]
    assert found[GRPC] == [as_over_grpc(row) for row in found["queue"]]


KEYS_OVER_GRPC = {" ": None, "a  b": "a  b", " a": " a", "a ": "a", "a b": "a b"}


def test_blank_keys_are_null_over_grpc_and_kept_over_remoting(cluster: EmbeddedCluster, desk: MessageGroup) -> None:
    """A proxy returns no blank ones, and omits blanks at the end."""
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        client = ClusterClient((cluster.namesrv_addr,), pool, PATIENT_MS)
        producer = Producer(client, group="tests", initial_queue_index=lambda: 0)
        for keys in KEYS_OVER_GRPC:
            producer.send(Message(desk.topic, keys.encode(), keys=keys))
    for protocol, expected in ((REMOTING, {keys: keys for keys in KEYS_OVER_GRPC}), (GRPC, KEYS_OVER_GRPC)):
        with reader_of({**desk.options_over(protocol), "consumerGroup": f"{desk.group}_{protocol}"}) as one:
            read, _ = read_from(one, one.initialOffset(), len(KEYS_OVER_GRPC))
        assert {bytes(row["body"]).decode(): row["keys"] for row in read} == expected


def as_over_grpc(row: Row) -> Row:
    kept = [(name, value) for name, value in row["properties"] if name not in OF_BROKERS]
    ours = [(name, value) for name in ("KEYS", "TAGS", "UNIQ_KEY") for known, value in kept if known == name]
    users = [(name, value) for name, value in kept if (name, value) not in ours]
    host, _, _ = row["bornHost"].rpartition(":")
    return {**row, **dict.fromkeys(NOT_OVER_GRPC), "bornHost": host, "properties": users + ours}


# ----------------------------------------------------------------------------------------------------------- restarts


@ACROSS
def test_a_batch_that_is_done_is_acknowledged_over_the_other_protocol(
    before: str, now: str, desk: MessageGroup
) -> None:
    sent = desk.messages.send(SENT)
    with reader_of(desk.options_over(before)) as one:
        found, end = read_from(one, one.initialOffset(), SENT)
    assert bodies(found) == sorted(sent)
    with reader_of(desk.options_over(now)) as later:
        assert later.latestOffset(end, ReadAllAvailable()) is end
        eventually(lambda: later.reportLatestOffset()["acknowledged"] == SENT, "all acknowledged")
        assert later.reportLatestOffset()["expired"] == 0
    left = desk.leave_unacknowledged(INVISIBLE_MS)["body"].decode()
    with reader_of(desk.options_over(now)) as other:
        again, _ = read_from(other, other.initialOffset(), 1)
    assert bodies(again) == [left]


@ACROSS
def test_a_batch_that_is_not_done_is_released_over_the_other_protocol(
    before: str, now: str, desk: MessageGroup
) -> None:
    sent = desk.messages.send(SENT)
    with reader_of({**desk.options_over(before), "invisibleDurationMs": str(LONG_MS)}) as one:
        start = one.initialOffset()
        found, end = read_from(one, start, SENT)
    assert bodies(found) == sorted(sent)
    with reader_of(desk.options_over(now)) as later:
        assert rows(later, start, end) == []
        again, _ = read_from(later, end, SENT)
    assert bodies(again) == sorted(sent)
    assert {row["reconsumeTimes"] for row in again} == {0}
