"""A whole query over a message whose body cannot be read, in each mode of ``badMessages``; and over messages whose
producers have clocks that no calendar has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_MS, TIMEOUT_S, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress, Message
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.broker_rpcs import send_header, send_rpc
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.arrow.column_table import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.codes import RequestCode

POISON_FLAG = int(MessageSysFlag.COMPRESSED | MessageSysFlag.LZ4)
"""States that a body is compressed, which it is not."""
CLOCKS_MS: Final = (253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63))
"""The years 10000 and 0, and what a header can hold."""
LIMITS_MS: Final = (FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS)
LONG_WINDOW: Final = "3650 days"
"""Of ten years."""


@pytest.fixture
def bodies(cluster: EmbeddedCluster, messages: Topic) -> Iterator[list[str]]:
    """The readable ones beside one that is not."""
    sent = messages.send(5)
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        producer = Producer(ClusterClient((cluster.namesrv_addr,), pool, TIMEOUT_MS), group="tests")
        producer.send(Message(messages.name, b"plain"), sys_flag=POISON_FLAG)
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == len(sent) + 1, "all messages")
    yield sent


@pytest.mark.parametrize("mode", ["null", "deadLetter"])
def test_query_continues_past_an_undecodable_body(mode: str, stream: StreamOf, bodies: list[str]) -> None:
    query = stream(badMessages=mode)
    query.run_to_end()
    rows = query.rows()
    assert sorted(bytes(row.body).decode() for row in rows if row.body is not None) == sorted(bodies)
    assert sum(row.body is None for row in rows) == (1 if mode == "null" else 0)


def test_query_fails_at_an_undecodable_body_by_default(stream: StreamOf, bodies: list[str]) -> None:
    failed = stream().start(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"UNDECODABLE_MESSAGE_BODY.*Set 'badMessages' to 'null'"):
        failed.awaitTermination(int(TIMEOUT_S))


def send_at(cluster: EmbeddedCluster, topic: Topic, clocks_ms: tuple[int, ...]) -> list[str]:
    """Send a message by each of these clocks, in an order that a queue keeps; returns the bodies."""
    before, queue = topic.held(), topic.queues[0]
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        broker = Broker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)
        for clock_ms in clocks_ms:
            header = replace(send_header(queue, "tests"), born_timestamp_ms=clock_ms)
            broker.call(send_rpc(RequestCode.SEND_MESSAGE_V2, header, str(clock_ms).encode(), queue))
    eventually(lambda: topic.held() == before + len(clocks_ms), "all messages")
    return [str(clock_ms) for clock_ms in clocks_ms]


@pytest.mark.full
def test_a_producers_clock_ends_neither_collect_nor_windows(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    true = messages.send(3)
    beyond, limits = send_at(cluster, messages, CLOCKS_MS), send_at(cluster, messages, LIMITS_MS)
    reader = (
        spark.read.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr).option("subscribe", messages.name)
    )
    born = {bytes(row.body).decode(): row.bornTimestamp for row in reader.load().collect()}
    assert {body for body, time in born.items() if time is None} == set(beyond)
    assert set(born) == {*true, *beyond, *limits}

    counts: list[list[int]] = []

    def collect(batch: DataFrame, _batch_id: int) -> None:
        counts.append([row["count"] for row in batch.collect()])

    query = stream()
    windows = query.load().groupBy(window("bornTimestamp", LONG_WINDOW)).count()
    for more in (0, 2):
        true += messages.send(more)
        writer = windows.writeStream.outputMode("complete").foreachBatch(collect)
        writer = writer.option("checkpointLocation", str(query.folder / "checkpoint"))
        assert (error := rocketmq_spark.run_available_now(writer).exception()) is None, error
        assert sorted(counts[-1]) == [1, 1, len(true)], "none of the others is in a window"
