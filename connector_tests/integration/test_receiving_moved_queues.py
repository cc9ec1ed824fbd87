"""Messages that a broker stored for a later place than they have in their queue, delivered one by one.

It gives a message with flags of an IPv6 host from an IPv4 producer an offset, and delivers it to nobody.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.message_bytes import BORN_HOST_V6
from connector_tests.support.streams import await_resumed_dispatch, eventually
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from connector_tests.support.ways import WAYS, Way, way_of
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import Message
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import tasks_of
from rocketmq_spark.source.schema import default_schema

pytestmark = [pytest.mark.broker, pytest.mark.full]

UNDELIVERED, TRUE, DONE = 3, 11, 4
INVISIBLE_MS = 10_000
UNTIL_REVIVED_S = 25.0
TIMEOUT_MS = int(15_000 * TIMEOUT_FACTOR)


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, clusters: ClusterPool) -> Way:
    return way_of(request, clusters)


@pytest.fixture
def producer(way: Way) -> Iterator[Producer]:
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        cluster = ClusterClient((way.cluster.namesrv_addr,), pool, TIMEOUT_MS)
        yield Producer(cluster, group="tests", initial_queue_index=lambda: 0)


def bodies(received: list[ReceivedMessage], options: ReadOptions) -> list[str]:
    batches = (batch for parts in tasks_of(received, None) for batch in read_parts(parts, options, default_schema()))
    return sorted(row["body"].decode() for batch in batches for row in batch.to_pylist())


def test_acknowledged_messages_of_a_moved_queue_leave_the_others(way: Way, producer: Producer, group: str) -> None:
    """Acknowledgements by the stored offsets hit later messages: these were lost, and the first ones came twice."""
    topic = way.cluster.create_topic(unique_name("moved"), 1)
    given = {"consumerGroup": group, "subscribe": topic, "loadBalance": "message"}
    options = ReadOptions.parse({**given, "invisibleDurationMs": str(INVISIBLE_MS), **way.server})

    with ExitStack() as made:

        def receiver() -> Receiver:
            one = Receiver(options, transport_of(options), is_available_now=False)
            made.callback(one.stop)
            one.start()
            return one

        if "endpoints" in way.server:  # where a group without offsets begins at the end
            before = receiver()
            eventually(lambda: before.have_all_responded, "it has begun")
            before.stop()
        producer.send(Message(topic, b"true-00"))
        for _ in range(UNDELIVERED):
            producer.send(Message(topic, b"delivered to nobody"), sys_flag=BORN_HOST_V6)
        await_resumed_dispatch(way.cluster)
        for number in range(1, TRUE):
            producer.send(Message(topic, b"true-%02d" % number))

        first = receiver()
        eventually(lambda: first.count(MessageState.PREFETCHED) == TRUE, "all received")
        done = bodies(list(first.start_batch(1, DONE)), options)
        first.mark_completed(1)
        eventually(lambda: first.count(MessageState.COMPLETED) == 0, "all acknowledged")
        assert (first.counts.acknowledged, first.counts.expired) == (DONE, 0)
        first.stop()

        second, read = receiver(), list[ReceivedMessage]()
        until = time.monotonic() + UNTIL_REVIVED_S
        while time.monotonic() < until:
            second.wait(1)
            read += second.start_batch(1, TRUE)
        second.mark_completed(1)
        eventually(lambda: second.count(MessageState.COMPLETED) == 0, "all acknowledged")
        sent = [f"true-{number:02d}" for number in range(TRUE)]
        assert sorted(done + bodies(read, options)) == sent
