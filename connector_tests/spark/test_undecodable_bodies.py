"""A whole query over a message whose body cannot be read, in each mode of ``badMessages``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.errors import StreamingQueryException

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_MS, TIMEOUT_S, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import Message
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

POISON_FLAG = int(MessageSysFlag.COMPRESSED | MessageSysFlag.LZ4)
"""States that a body is compressed, which it is not."""


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
