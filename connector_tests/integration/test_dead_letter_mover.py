"""What was redelivered too often, on a real broker: it is in the group's dead-letter topic, and comes no more."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.message.stored_message import decode_messages

pytestmark = pytest.mark.broker

LONG_MS = 120_000
SHORT_MS = 20_000
"""Time enough for what has to be done meanwhile, on a machine that stands still."""
UNTIL_REVIVED_S = SHORT_MS / 1000 + 8.0

OptionsOf = Callable[..., ReadOptions]
ReceiverOf = Callable[..., Receiver]


@pytest.fixture
def broker(cluster: EmbeddedCluster) -> Iterator[AdminBroker]:
    pool = ConnectionPool(PATIENT_MS)
    yield AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
    pool.close()


@pytest.fixture
def options_of(cluster: EmbeddedCluster, topic: str, group: str) -> OptionsOf:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic}
    given |= {"loadBalance": "message", "startingOffsets": "earliest", "invisibleDurationMs": str(LONG_MS)}
    return lambda **more: ReadOptions.parse(given | more)


@pytest.fixture
def transport(options_of: OptionsOf) -> Iterator[RemotingTransport]:
    one = RemotingTransport(options_of())
    yield one
    one.close()


@pytest.fixture
def receiver(options_of: OptionsOf) -> Iterator[ReceiverOf]:
    """Makes receivers that have begun to receive."""
    with ExitStack() as made:

        def make(**more: str) -> Receiver:
            options = options_of(**more)
            one = Receiver(options, RemotingTransport(options))
            made.callback(one.stop)
            one.start()
            return one

        yield make


def grow(one: Receiver, count: int) -> list[ReceivedMessage]:
    eventually(lambda: one.count(MessageState.PREFETCHED) >= count, f"{count} messages received")
    return list(one.start_batch(1, count))


def dead_letters(receiver: ReceiverOf, group: str, count: int) -> dict[str, str]:
    """Of the group's dead-letter topic, bodies and the topics that they were for."""
    reader = receiver(subscribe=f"%DLQ%{group}", consumerGroup=f"{group}-reader")
    found = [decode_messages(one.record, broker_name="broker-a")[0] for one in grow(reader, count)]
    assert len(found) == count
    return {message.body.decode(): message.properties["RETRY_TOPIC"] for message in found}


def redelivered(receiver: ReceiverOf, transport: RemotingTransport, count: int) -> None:
    """Messages were somebody's once, whose time is over."""
    one = receiver()
    handles = [message.handle for message in grow(one, count)]
    one.stop()
    assert None not in transport.change_invisible_duration(handles, 1, suspend=False)


def test_what_came_again_more_often_than_the_group_allows_is_in_its_dead_letter_topic_and_comes_no_more(
    messages: Topic,
    receiver: ReceiverOf,
    transport: RemotingTransport,
    broker: AdminBroker,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.update_group(group, retry_max_times=0)
    sent = messages.send(3)
    redelivered(receiver, transport, len(sent))
    one = receiver(invisibleDurationMs=str(SHORT_MS))
    eventually(lambda: one.counts.acknowledged == len(sent), "three dead letters")
    assert (one.counts.received, one.counts.dead_letters, one.count(MessageState.PREFETCHED)) == (3, 3, 0)
    moved = re.findall(
        rf"DEAD_LETTERS_STORED: Moved (\d+) messages that exceeded retryMaxTimes to dead-letter topic=%DLQ%{group}, ",
        caplog.text,
    )
    assert sum(map(int, moved)) == len(sent), "in as many lines as polls brought them"
    time.sleep(UNTIL_REVIVED_S)
    assert one.counts.received == len(sent), "else it would have come again"
    assert set(dead_letters(receiver, group, len(sent))) == set(sent)


def test_of_a_group_that_keeps_nothing_that_is_sent_back_messages_come_as_often_as_it_takes(
    messages: Topic, receiver: ReceiverOf, transport: RemotingTransport, broker: AdminBroker, group: str
) -> None:
    """Such a broker states that a message is moved, and keeps none."""
    broker.update_group(group, retry_max_times=0, retry_queue_count=0)
    messages.send(1)
    redelivered(receiver, transport, 1)
    assert len(grow(receiver(), 1)) == 1
