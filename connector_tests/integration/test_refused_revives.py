"""An unacknowledged message whose redelivery comes while the broker's store refuses writes: RocketMQ 5.5.0 loses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

import pytest

from connector_tests.support.message_group import REMOTING, MessageGroup, bodies, poll_messages
from connector_tests.support.streams import eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.pop.transports import transport_of

pytestmark = [pytest.mark.broker, pytest.mark.full]

MESSAGES: Final = 10
ATTEMPTS: Final = 5
"""A broker revives 2 s after the invisible duration, and a busy machine may do nothing for so long."""

INVISIBLE_MS: Final = 1_000
"""So short that the broker stores the check point at once: a longer one waits in the broker's timer."""
LATER_INVISIBLE_MS: Final = 20_000
"""A broker that tries a redelivery again does so 10 s later: a message popped later is redelivered after those."""
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
REVIVE_TOPIC: Final = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.fixture
def messages(cluster_with_proxy: EmbeddedCluster) -> Iterator[MessageGroup]:
    with closing(MessageGroup(cluster_with_proxy, REMOTING)) as group:
        yield group


@pytest.fixture
def broker(cluster_with_proxy: EmbeddedCluster) -> Any:
    return cluster_with_proxy._brokers["broker-a"]._controller


def revive_backlog(broker: Any) -> int:
    """Return the number of stored check points and acknowledgements that the broker has not revived."""
    offsets, store = broker.getConsumerOffsetManager(), broker.getMessageStore()
    queues = range(broker.getBrokerConfig().getReviveQueueNum())
    ends = [store.getMaxOffsetInQueue(REVIVE_TOPIC, queue) for queue in queues]
    revived = [offsets.queryOffset(REVIVE_GROUP, REVIVE_TOPIC, queue) + 1 for queue in queues]
    return sum(max(0, end - offset) for end, offset in zip(ends, revived, strict=True))


@contextmanager
def refused_writes(broker: Any) -> Iterator[None]:
    """The time in which the store accepts no message."""
    flags = broker.getMessageStore().getRunningFlags()
    flags.makeFenced(True)
    try:
        yield
    finally:
        flags.makeFenced(False)


def receive(group: MessageGroup, count: int, invisible_ms: int = INVISIBLE_MS) -> list[str]:
    """Receive at least so many messages, acknowledge none, and return their bodies in order."""
    with closing(transport_of(group.read_options(invisible_ms))) as transport:
        return bodies(group.rows(poll_messages(transport, count)))


def revive_all(broker: Any) -> None:
    eventually(lambda: revive_backlog(broker) == 0, "every check point revived")


def try_to_refuse_redelivery(messages: MessageGroup, broker: Any) -> bool:
    """Receive messages, and refuse writes while the broker redelivers them. Return False if it began before."""
    sent = messages.messages.send(MESSAGES)
    assert receive(messages, MESSAGES) == sorted(sent)
    eventually(lambda: revive_backlog(broker) > 0, "the check point in its queue")
    with refused_writes(broker):
        is_in_time = revive_backlog(broker) > 0
        revive_all(broker)
    return is_in_time


def test_messages_are_lost_whose_redelivery_the_store_refuses(cluster_with_proxy: EmbeddedCluster, broker: Any) -> None:
    """If this fails with a newer broker, docs/message-mode.md has one loss too many."""
    with ExitStack() as groups:
        attempts = (groups.enter_context(closing(MessageGroup(cluster_with_proxy, REMOTING))) for _ in range(ATTEMPTS))
        assert_not_redelivered(next(one for one in attempts if try_to_refuse_redelivery(one, broker)))


def assert_not_redelivered(messages: MessageGroup) -> None:
    """Of the group's messages only one that is received later is redelivered."""
    later = messages.messages.send(1)
    assert receive(messages, 1, LATER_INVISIBLE_MS) == later
    assert receive(messages, 1) == later


def test_messages_are_redelivered_that_the_store_accepts(messages: MessageGroup, broker: Any) -> None:
    sent = messages.messages.send(MESSAGES)
    assert receive(messages, MESSAGES) == sorted(sent)
    revive_all(broker)
    assert receive(messages, MESSAGES) == sorted(sent)
