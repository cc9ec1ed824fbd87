"""Receipt handles that a producer wrote, in responses of a real proxy: no other message is acknowledged or redelivered
by them, whatever else is in the response."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest

from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import Message
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.grpc_transport import GrpcTransport
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle, ReceivedMessage, is_unverified
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.wire.grpc.messaging_pb2 import ReceiveMessageResponse

pytestmark = pytest.mark.broker

FORGED: Final = b"forged"
INVISIBLE_MS: Final = 6_000
POLL_MS: Final = 500
UNTIL_REVIVED_S: Final = 15.0
"""A broker redelivers a message some seconds after its invisible duration."""


@pytest.fixture(scope="module")
def cluster(cluster_with_proxy: EmbeddedCluster) -> EmbeddedCluster:
    return cluster_with_proxy


@pytest.fixture
def messages(cluster: EmbeddedCluster) -> Iterator[Topic]:
    """Of one queue, which a forged handle has to name too."""
    topic = Topic(cluster, cluster.create_topic(unique_name("forged"), 1))
    yield topic
    topic.close()


Poll = Callable[[], list[ReceivedMessage]]


@pytest.fixture
def transport(cluster: EmbeddedCluster, messages: Topic, group: str) -> Iterator[GrpcTransport]:
    options = ReadOptions.parse(
        {
            "endpoints": cluster.endpoints,
            "consumerGroup": group,
            "subscribe": messages.name,
            "loadBalance": "message",
            "invisibleDurationMs": str(INVISIBLE_MS),
            **PATIENT,
        }
    )
    with closing(transport_of(options)) as one:
        assert isinstance(one, GrpcTransport)
        eventually(lambda: one.refresh_routes() == {}, "routes")
        yield one


@pytest.fixture
def poll(transport: GrpcTransport, messages: Topic) -> Poll:
    """One poll; the group begins with the messages that are stored after the first."""

    def received() -> list[ReceivedMessage]:
        outcomes: list[ReceiveOutcome] = []
        transport.receive(ReceiveRequest(Target(messages.name, "broker-a"), 32, POLL_MS), outcomes.append)
        eventually(lambda: bool(outcomes), "a response")
        (outcome,) = outcomes
        assert not isinstance(outcome, Exception | IncompleteResponse)
        return list(outcome)

    assert received() == []
    return received


def poll_until_found(poll: Poll) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []

    def has_found() -> bool:
        found.extend(poll())
        return bool(found)

    eventually(has_found, "a message")
    return found


def delivered_true(poll: Poll, messages: Topic) -> BrokerHandle:
    """The handle of a true message, which a consumer of the group has and may pass to a producer."""
    messages.send(1)
    (true,) = poll_until_found(poll)
    assert isinstance(true.handle, BrokerHandle)
    return true.handle


def delivered_forged(poll: Poll, messages: Topic, handle: BrokerHandle) -> ReceiptHandle:
    """The handle of a message that is alone in its response, and whose producer names another one. On a busy machine
    the other one may be redelivered before, or with it."""
    messages.send_as_they_are([Message(messages.name, FORGED, properties={"POP_CK": handle.text})])
    found = poll_until_found(poll)
    while [body_of(one) for one in found] != [FORGED]:
        found = poll_until_found(poll)
    return found[0].handle


def body_of(received: ReceivedMessage) -> bytes:
    return ReceiveMessageResponse.FromString(bytes(received.record)).message.body


def bodies_until_revived(poll: Poll, expected: set[bytes]) -> set[bytes]:
    """What is redelivered in the time that an idle broker takes to redeliver all that it may, and until all expected
    bodies are."""
    found: set[bytes] = set()
    until = time.monotonic() + UNTIL_REVIVED_S

    def are_revived() -> bool:
        found.update(body_of(one) for one in poll())
        return time.monotonic() >= until and expected <= found

    eventually(are_revived, f"{expected} redelivered")
    return found


def test_acknowledgement_of_forged_handle_acknowledges_no_other_message(
    transport: GrpcTransport, poll: Poll, messages: Topic
) -> None:
    """It was taken for the broker's: the true message was lost."""
    forged = delivered_forged(poll, messages, delivered_true(poll, messages))
    assert is_unverified(forged)
    assert transport.acknowledge([forged]) == [False]
    expected = {f"{messages.name}-0".encode(), FORGED}
    assert bodies_until_revived(poll, expected) == expected


def test_change_of_forged_handle_redelivers_no_acknowledged_message(
    transport: GrpcTransport, poll: Poll, messages: Topic
) -> None:
    """It was taken for the broker's: the true message came again."""
    true = delivered_true(poll, messages)
    assert transport.acknowledge([true]) == [True]
    forged = delivered_forged(poll, messages, true)
    assert transport.change_invisible_duration([forged], INVISIBLE_MS, suspend=False) == [None]
    assert bodies_until_revived(poll, {FORGED}) == {FORGED}
