"""Messages that a real broker hands out one by one: received, acknowledged, renewed, given back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import Handle, Received, handles_from_json, handles_to_json
from rocketmq_spark.pop.ledger import State
from rocketmq_spark.pop.polls import Poll, Target
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome, Popped
from rocketmq_spark.remoting.retry import Outlook, outlook_of_pull
from rocketmq_spark.wire.message.stored_message import decode_messages
from rocketmq_spark.wire.remoting.headers import PopMessageRequest

pytestmark = pytest.mark.broker

LONG_MS = 120_000
SHORT_MS = 3_000
UNTIL_REVIVED_S = 8.0
"""A broker gives out again, some seconds later, what was given back or is not invisible any more."""

ReceiverOf = Callable[..., Receiver]


@pytest.fixture
def receiver(cluster: EmbeddedCluster, topic: str, group: str) -> Iterator[ReceiverOf]:
    """Makes receivers of the test's topic in the test's group, which have begun to receive."""
    with ExitStack() as made:

        def make(**more: str) -> Receiver:
            options = options_of(cluster, topic, group, **more)
            one = Receiver(options, RemotingTransport(options), looks_once=True)
            made.callback(one.stop)
            one.start()
            return one

        yield make


def options_of(cluster: EmbeddedCluster, topic: str, group: str, **more: str) -> ReadOptions:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic, "loadBalance": "message"}
    return ReadOptions.parse({**given, "startingOffsets": "earliest", "invisibleDurationMs": str(LONG_MS), **more})


def frozen(one: Receiver, count: int, batch: int = 1) -> list[Received]:
    """A batch of so many messages."""
    eventually(lambda: one.count(State.RECEIVED) >= count, f"{count} messages received")
    return list(one.freeze(batch, count))


def bodies(received: list[Received]) -> list[str]:
    decoded = (decode_messages(one.record, broker_name="broker-a") for one in received)
    return sorted(message.body.decode() for messages in decoded for message in messages)


def handles(received: list[Received]) -> list[Handle]:
    """As a later start reads them from the checkpoint."""
    text = json.dumps(handles_to_json(one.handle for one in received))
    return handles_from_json(json.loads(text))


def assert_nothing_comes(one: Receiver) -> None:
    """For longer than a broker takes to give out again what it can."""
    time.sleep(UNTIL_REVIVED_S)
    assert one.count(State.RECEIVED) == 0


def test_what_is_proven_does_not_come_again(messages: Topic, receiver: ReceiverOf) -> None:
    sent = messages.send(100)
    one = receiver(invisibleDurationMs=str(SHORT_MS))
    batch = frozen(one, 100)
    assert bodies(batch) == sorted(sent)
    one.prove(1)
    eventually(lambda: one.is_dry, "nothing more")
    assert_nothing_comes(one)
    assert (one.counts.received, one.counts.acknowledged, one.counts.expired) == (100, 100, 0)


def test_what_is_renewed_is_nobody_elses_and_is_acknowledged_by_its_last_handle(
    messages: Topic, receiver: ReceiverOf
) -> None:
    messages.send(40)
    one, other = receiver(invisibleDurationMs=str(SHORT_MS)), None
    frozen(one, 40)
    other = receiver()
    time.sleep(2.5 * SHORT_MS / 1000)
    assert other.count(State.RECEIVED) == 0
    assert one.counts.renewed >= 80
    one.prove(1)
    eventually(lambda: one.count(State.PROVEN) == 0, "all acknowledged")
    assert_nothing_comes(other)
    assert (one.counts.acknowledged, one.counts.expired) == (40, 0)


def test_who_stops_gives_back_what_is_in_no_batch_and_that_counts_as_no_attempt(
    messages: Topic, receiver: ReceiverOf
) -> None:
    sent = messages.send(50)
    one = receiver()
    eventually(lambda: one.count(State.RECEIVED) == 50, "50 messages received")
    one.stop()
    assert one.counts.given_back == 50
    again = frozen(receiver(), 50)
    assert bodies(again) == sorted(sent)
    decoded = [message for each in again for message in decode_messages(each.record, broker_name="broker-a")]
    assert {(message.topic, message.reconsume_times) for message in decoded} == {(messages.name, 0)}


def test_a_later_start_acknowledges_what_was_logged_and_proven(messages: Topic, receiver: ReceiverOf) -> None:
    messages.send(30)
    one = receiver(invisibleDurationMs="6000")
    logged = handles(frozen(one, 30))
    one.stop()
    later = receiver()
    later.prove_logged(logged)
    assert later.counts.acknowledged == 30
    assert_nothing_comes(later)


def test_what_a_later_start_gives_back_comes_again_whoever_acknowledges_it_by_its_old_handle(
    messages: Topic, receiver: ReceiverOf
) -> None:
    sent = messages.send(30)
    one = receiver()
    logged = handles(frozen(one, 30))
    one.stop()
    later = receiver()
    later.give_back_logged(logged)
    later.prove_logged(logged)
    again = frozen(later, 30)
    assert bodies(again) == sorted(sent)
    assert_nothing_comes(later)


def test_messages_of_other_tags_do_not_come(messages: Topic, receiver: ReceiverOf) -> None:
    messages.send(5, tag="TagB")
    wanted = messages.send(5, tag="TagA")
    one = receiver(subExpression="TagA")
    assert bodies(frozen(one, 5)) == sorted(wanted)
    one.prove(1)
    eventually(lambda: one.is_dry, "nothing more")
    assert one.counts.received == 5


def test_at_most_one_batch_is_held_ahead(messages: Topic, receiver: ReceiverOf) -> None:
    messages.send(400)
    one = receiver(maxOffsetsPerTrigger="50")
    frozen(one, 50)
    eventually(lambda: one.count(State.RECEIVED) >= 50, "the next batch")
    assert one.count(State.RECEIVED) < 50 + 4 * 32


def test_a_topic_that_nobody_knows_is_an_error_when_its_time_is_over(cluster: EmbeddedCluster, group: str) -> None:
    options = options_of(cluster, "no_such_topic", group, missingTopicTimeoutMs="100")
    one = Receiver(options, RemotingTransport(options))
    one.start()
    try:
        eventually(lambda: fails(one) == "TOPIC_NOT_FOUND", "an error")
    finally:
        one.stop()


def test_a_batch_that_cannot_be_given_back_is_an_error(cluster: EmbeddedCluster, topic: str, group: str) -> None:
    options = options_of(cluster, topic, group, clusterTimeoutMs="300", namesrvAddr="127.0.0.1:1")
    one = Receiver(options, RemotingTransport(options))
    handle = Handle.parse(topic, "0 1795445135749 60000 3 0 broker-a 0 0")
    with pytest.raises(TransportError, match="CLUSTER_UNREACHABLE"):
        one.give_back_logged([handle])
    one.stop()


def test_what_ends_the_receivers_thread_is_raised_by_the_next_look(
    cluster: EmbeddedCluster, topic: str, group: str
) -> None:
    options = options_of(cluster, topic, group)

    def fail() -> None:
        raise LookupError("by the test")

    one = Receiver(options, RemotingTransport(options), watch=fail)
    one.start()
    one.wait(60)
    with pytest.raises(LookupError, match="by the test"):
        one.check()
    one.stop()


def fails(one: Receiver) -> str | None:
    try:
        one.check()
    except RocketMQError as error:
        return error.condition
    return None


# ------------------------------------------------------------------------------------------------------- the transport


def test_a_poll_that_came_late_by_the_brokers_clock_is_refused_and_passes(
    cluster: EmbeddedCluster, topic: str, group: str
) -> None:
    """Else a driver whose clock is slow would be told again and again that there is nothing."""
    pool = ConnectionPool(3_000)
    outcomes: list[PopOutcome] = []
    request = PopMessageRequest(
        consumer_group=group,
        topic=topic,
        max_message_count=1,
        invisible_ms=SHORT_MS,
        poll_ms=1_000,
        born_timestamp_ms=int(time.time() * 1000) - 60_000,
        init_mode=0,
    )
    PopBroker(cluster.broker_addr(), pool, 5_000).pop(request, outcomes.append)
    eventually(lambda: bool(outcomes), "an answer")
    pool.close()
    (outcome,) = outcomes
    assert isinstance(outcome, RocketMQError)
    assert outlook_of_pull(outcome) is Outlook.PASSES


def test_the_transport_pops_changes_and_acknowledges(
    cluster: EmbeddedCluster, messages: Topic, topic: str, group: str
) -> None:
    messages.send(3)
    options = options_of(cluster, topic, group)
    transport = RemotingTransport(options)
    assert transport.look() == {}
    target = Target(topic, "broker-a")
    assert transport.targets() == [target]
    outcomes: list[PopOutcome] = []

    def has_found() -> bool:
        transport.pop(Poll(target, 32, 500), outcomes.append)
        eventually(lambda: bool(outcomes), "an answer")
        return isinstance(outcomes.pop(), Popped)

    eventually(has_found, "messages")
    nowhere = Handle.parse(topic, "0 1795445135749 60000 3 0 broker-b 0 0")
    (failure,) = transport.change([nowhere], 1, suspend=True)
    assert isinstance(failure, RocketMQError)
    assert transport.acknowledge([nowhere]).keys() == {"broker-b"}
    transport.close()
