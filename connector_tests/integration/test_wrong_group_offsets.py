"""A client commits an offset for the group that no queue has: brokers store any number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.source_calls import SourceCalls, source_calls
from connector_tests.support.streams import TIMEOUT_MS, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import DataLossError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.data_loss import BEYOND_END

pytestmark = pytest.mark.broker

BEYOND = 2**63 - 1


@pytest.fixture
def broker(cluster: EmbeddedCluster) -> Iterator[AdminBroker]:
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        yield AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)


def next_offsets(calls: SourceCalls) -> list[int]:
    """Of the next batch with rows."""
    offsets: list[int] = []

    def read() -> bool:
        offsets.extend(row["queueOffset"] for row in calls.next_batch())
        return bool(offsets)

    eventually(read, "a batch")
    return offsets


@pytest.mark.parametrize("remedy", [{"failOnDataLoss": "false"}, {"groupOffsets": "checkpoint"}])
def test_query_resumes_from_its_checkpoint_once_that_is_allowed(
    remedy: dict[str, str], cluster: EmbeddedCluster, broker: AdminBroker, group: str
) -> None:
    """It read all messages again, and the error told that the topic was created again."""
    queue = MessageQueue(cluster.create_topic(unique_name("misled"), queues=1), "broker-a", 0)
    options = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": queue.topic}
    options["startingOffsets"] = "earliest"

    def send(count: int) -> None:
        end = broker.max_offset(queue) + count
        broker.send_batch([Message(queue.topic, b"body")] * count, queue, "tests")
        eventually(lambda: broker.max_offset(queue) == end, "messages in the queue")

    send(3)
    checkpoint: dict[str, Any] = {}
    with source_calls(options) as calls:
        assert next_offsets(calls) == [0, 1, 2]
        checkpoint = calls.end
    broker.update_offset(group, queue, BEYOND)
    send(1)
    with source_calls(options, start=checkpoint) as calls, pytest.raises(DataLossError) as raised:
        next_offsets(calls)
    assert f"[4, {BEYOND}) of {queue}: {BEYOND_END}." in str(raised.value)
    assert broker.query_offset(group, queue) == BEYOND
    with source_calls(options | remedy, start=checkpoint) as calls:
        assert next_offsets(calls) == [3]
        assert broker.query_offset(group, queue) == 3
