"""Messages that real brokers deliver one by one, and a real proxy: received, acknowledged, renewed, released."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.message_group import response_of
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS, TIMEOUT_FACTOR, WAIT_S
from connector_tests.support.ways import WAYS, Way, way_of
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, Message
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.grpc_transport import GrpcTransport
from rocketmq_spark.pop.receipt_handles import (
    NORMAL_TOPIC,
    BrokerHandle,
    ReceiptHandle,
    ReceivedMessage,
    handles_from_json,
    handles_to_json,
)
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.pop.transport import Transport
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import tasks_of
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.remoting.headers import PopMessageRequest

pytestmark = pytest.mark.broker

LONG_MS = 120_000
SHORT_MS = int(6_000 * TIMEOUT_FACTOR)
REVIVAL_S = 5.0
"""A broker gives out again, some seconds later, what was released or is not invisible any more."""

ReceiverOf = Callable[..., Receiver]


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, clusters: ClusterPool) -> Way:
    return way_of(request, clusters)


@pytest.fixture
def cluster(way: Way) -> EmbeddedCluster:
    return way.cluster


OptionsOf = Callable[..., ReadOptions]


@pytest.fixture
def options_of(way: Way, topic: str, group: str) -> OptionsOf:
    """Of the test's topic and group, and more of them."""
    given = {"consumerGroup": group, "subscribe": topic, "loadBalance": "message", "invisibleDurationMs": str(LONG_MS)}
    given |= PATIENT

    def make(**more: str) -> ReadOptions:
        return ReadOptions.parse({**given, **way.server, **more})

    return make


@pytest.fixture
def receiver(options_of: OptionsOf) -> Iterator[ReceiverOf]:
    """Makes receivers of the test's topic in the test's group, which begin to receive at once if they are to."""
    with ExitStack() as made:

        def make(*, starts: bool = True, is_available_now: bool = False, **more: str) -> Receiver:
            options = options_of(**more)
            one = Receiver(options, transport_of(options), is_available_now=is_available_now)
            made.callback(one.stop)
            if starts:
                one.start()
            return one

        yield make


def grow(one: Receiver, count: int, batch: int = 1) -> list[ReceivedMessage]:
    """A batch of so many messages."""
    eventually(lambda: one.count(MessageState.PREFETCHED) >= count, f"{count} messages received")
    return list(one.start_batch(batch, count))


def rows(received: list[ReceivedMessage], options: ReadOptions) -> list[dict[str, Any]]:
    """As executors make them."""
    batches = (batch for parts in tasks_of(received, None) for batch in read_parts(parts, options, default_schema()))
    return [row for batch in batches for row in batch.to_pylist()]


def bodies(received: list[ReceivedMessage], options: ReadOptions) -> list[str]:
    return sorted(row["body"].decode() for row in rows(received, options))


def where_from(handle: ReceiptHandle) -> str:
    """The mark of the topic that the broker has delivered it from: a retry topic, if it is redelivered."""
    assert isinstance(handle, BrokerHandle)
    return handle.pop_check_point.retry


def handles(received: list[ReceivedMessage]) -> list[ReceiptHandle]:
    """As a later start reads them from the checkpoint."""
    text = json.dumps(handles_to_json(one.handle for one in received))
    return handles_from_json(json.loads(text))


def assert_nothing_comes(one: Receiver, invisible_ms: int = SHORT_MS) -> None:
    """For longer than a broker takes to give out again what it can."""
    time.sleep(invisible_ms / 1000 + REVIVAL_S)
    assert one.count(MessageState.PREFETCHED) == 0


def test_what_is_completed_is_not_redelivered(messages: Topic, receiver: ReceiverOf, options_of: OptionsOf) -> None:
    """With "namesrvAddr", and with "endpoints"."""
    sent = messages.send(100)
    one = receiver(invisibleDurationMs=str(SHORT_MS))
    batch = grow(one, 100)
    assert bodies(batch, options_of()) == sorted(sent)
    one.mark_completed(1)
    eventually(lambda: one.count(MessageState.COMPLETED) == 0, "all acknowledged")
    assert_nothing_comes(one)
    assert (one.counts.received, one.counts.acknowledged, one.counts.expired) == (100, 100, 0)


def test_what_is_extended_is_claimed_by_no_other_receiver_and_is_acknowledged_by_its_last_handle(
    messages: Topic, receiver: ReceiverOf
) -> None:
    messages.send(40)
    one, other = receiver(invisibleDurationMs=str(SHORT_MS)), None
    grow(one, 40)
    other = receiver()
    time.sleep(2.5 * SHORT_MS / 1000)
    assert other.count(MessageState.PREFETCHED) == 0
    assert one.counts.extended >= 80
    one.mark_completed(1)
    eventually(lambda: one.count(MessageState.COMPLETED) == 0, "all acknowledged")
    assert_nothing_comes(other)
    assert (one.counts.acknowledged, one.counts.expired) == (40, 0)


def test_a_receiver_that_stops_releases_what_is_in_no_batch_and_that_counts_as_no_attempt(
    messages: Topic, receiver: ReceiverOf, options_of: OptionsOf
) -> None:
    sent = messages.send(50)
    one = receiver()
    eventually(lambda: one.count(MessageState.PREFETCHED) == 50, "50 messages received")
    one.stop()
    assert one.counts.released == 50
    again = grow(receiver(), 50)
    assert bodies(again, options_of()) == sorted(sent)
    assert {(row["topic"], row["reconsumeTimes"]) for row in rows(again, options_of())} == {(messages.name, 0)}


def test_a_later_start_acknowledges_what_was_logged_and_completed(messages: Topic, receiver: ReceiverOf) -> None:
    messages.send(30)
    one = receiver(invisibleDurationMs=str(2 * SHORT_MS))
    logged = handles(grow(one, 30))
    one.stop()
    later = receiver(starts=False)
    later.mark_logged_completed(logged)
    eventually(lambda: later.counts.acknowledged == 30, "all acknowledged")
    later.start()
    assert_nothing_comes(later, 2 * SHORT_MS)


def test_what_a_later_start_releases_is_redelivered_even_if_acknowledged_by_its_old_handle(
    messages: Topic, receiver: ReceiverOf, options_of: OptionsOf
) -> None:
    sent = messages.send(30)
    one = receiver()
    logged = handles(grow(one, 30))
    one.stop()
    later = receiver(starts=False)
    later.release_logged(logged)
    later.start()
    later.mark_logged_completed(logged)
    again = grow(later, 30)
    assert bodies(again, options_of()) == sorted(sent)
    assert_nothing_comes(later)


@pytest.mark.parametrize("does", [Receiver.release_logged, Receiver.mark_logged_completed])
def test_a_later_start_that_reads_something_else_resumes_though_the_topic_is_deleted_of_which_something_was_logged(
    does: Callable[[Receiver, list[ReceiptHandle]], None],
    cluster: EmbeddedCluster,
    receiver: ReceiverOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A proxy continues with what it has known of it for a moment."""
    missing = Topic(cluster, cluster.create_topic(unique_name("gone")))
    other = Topic(cluster, cluster.create_topic(unique_name("other")))
    both = {"subscribe": f"{missing.name},{other.name}", "invisibleDurationMs": str(SHORT_MS)}
    one = receiver(**both)
    missing.send(3)
    other.send(2)
    logged = handles(grow(one, 5))
    one.stop()
    cluster.delete_topic(missing.name)
    later = receiver(starts=False, subscribe=other.name, missingTopicTimeoutMs="20000", clusterTimeoutMs="20000")
    does(later, logged)
    later.start()
    if does is Receiver.release_logged:
        assert len(grow(later, 2)) == 2, "those of the other topic"
    eventually(lambda: later.count(MessageState.COMPLETED) == 0, "nothing left to be acknowledged")
    later.check()
    reported = [line for line in caplog.messages if "TOPIC_DELETED" in line]
    assert reported in (
        [],
        [
            (
                f"TOPIC_DELETED: Topic={missing.name} was deleted on broker=broker-a; its outstanding messages need no "
                "acknowledgement. If 'subscribe' lists the topic, remove it."
            )
        ],
    )
    missing.close()
    other.close()


def test_what_is_stored_after_a_single_run_has_ended_is_there_for_the_next_at_once(
    messages: Topic, receiver: ReceiverOf, options_of: OptionsOf
) -> None:
    """No poll that it has left behind takes it, which would be an attempt, and would take its time."""
    first = receiver(is_available_now=True)
    eventually(lambda: first.is_empty, "nothing there")
    first.stop()
    sent = messages.send(20)
    second, read = receiver(is_available_now=True), list[ReceivedMessage]()
    while not second.is_empty:
        second.wait(1)
        read += second.start_batch(1, len(sent))
        second.check()
    assert bodies(read, options_of()) == sorted(sent)
    assert {where_from(one.handle) for one in read} == {NORMAL_TOPIC}, "else somebody had them before"


FORGED = ("0 1763712000000 60000 3 1 broker-z 0 0", "a b c d 1 broker-a 0 0")
"""Of a broker that there is not, of none."""

FORGED_FOR_BROKERS = (*FORGED, "5 1763712000000 999999999999999 3 0 broker-a 0 5", "no handle")
"""A proxy takes the third for a handle, and the last makes it fail whatever comes with it."""


def test_a_forged_handle_is_no_error_in_any_delivery(
    messages: Topic, receiver: ReceiverOf, options_of: OptionsOf, way: Way
) -> None:
    """A broker keeps a ``POP_CK`` of a producer's. A proxy knows such a message by that alone, so it is redelivered."""
    is_proxy = "endpoints" in way.server
    forged = FORGED if is_proxy else FORGED_FOR_BROKERS
    sent = [Message(messages.name, ck.encode(), properties={"POP_CK": ck}) for ck in forged]
    first = receiver(invisibleDurationMs=str(SHORT_MS))
    eventually(lambda: first.have_all_responded, "it has begun")
    messages.send_as_they_are([*sent, Message(messages.name, b"true")])
    eventually(lambda: first.count(MessageState.PREFETCHED) == len(forged) + 1, "all received")
    first.stop()
    again = receiver(invisibleDurationMs=str(SHORT_MS), clusterTimeoutMs="10000")
    batch = grow(again, len(forged) + 1)
    assert set(bodies(batch, options_of())) == {*forged, "true"}
    again.mark_completed(1)
    eventually(lambda: again.count(MessageState.COMPLETED) == 0, "none is left to be acknowledged")
    time.sleep(SHORT_MS / 1000 + REVIVAL_S)
    again.check()
    came_later = set(bodies(list(again.start_batch(2, 100)), options_of()))
    if is_proxy:
        assert (again.counts.acknowledged, came_later - set(forged)) == (1, set())
    else:
        assert (again.counts.acknowledged, again.counts.expired) == (len(forged) + 1, 0)
        assert {where_from(one.handle) for one in batch} == {"1"}, "of a retry topic"
        assert not came_later


def test_messages_of_other_tags_do_not_come(messages: Topic, receiver: ReceiverOf, options_of: OptionsOf) -> None:
    messages.send(5, tag="TagB")
    expected = messages.send(5, tag="TagA")
    one = receiver(is_available_now=True, subExpression="TagA")
    assert bodies(grow(one, 5), options_of()) == sorted(expected)
    one.mark_completed(1)
    eventually(lambda: one.is_empty, "nothing more")
    assert one.counts.received == 5


def test_messages_that_do_not_match_sql92_do_not_come(
    messages: Topic, receiver: ReceiverOf, options_of: OptionsOf
) -> None:
    """Also when a message is redelivered: its properties are those of the first delivery."""
    messages.send(5, tag="TagB")
    expected = messages.send(5, tag="TagA")
    sql = {"expressionType": "SQL92", "subExpression": "TAGS = 'TagA' AND KEYS IS NOT NULL"}
    one = receiver(**sql)
    eventually(lambda: one.count(MessageState.PREFETCHED) == 5, "all that match")
    one.stop()
    again = receiver(**sql)
    assert bodies(grow(again, 5), options_of(**sql)) == sorted(expected)
    again.mark_completed(1)
    eventually(lambda: again.counts.acknowledged == 5, "all acknowledged")
    assert again.counts.received == 5


def test_invalid_sql92_ends_the_query(messages: Topic, receiver: ReceiverOf) -> None:
    messages.send(5)
    one = receiver(expressionType="SQL92", subExpression="price >")
    eventually(lambda: fails(one) == "FILTER_EXPRESSION_INVALID", "an error")
    assert one.counts.received == 0


def test_at_most_one_batch_is_held_ahead(messages: Topic, receiver: ReceiverOf) -> None:
    messages.send(400)
    one = receiver(maxOffsetsPerTrigger="50")
    grow(one, 50)
    eventually(lambda: one.count(MessageState.PREFETCHED) >= 50, "the next batch")
    assert one.count(MessageState.PREFETCHED) < 50 + 4 * 32


def test_an_unknown_topic_is_an_error_when_its_time_is_over(options_of: OptionsOf) -> None:
    options = options_of(subscribe="no_such_topic", missingTopicTimeoutMs="100")
    one = Receiver(options, transport_of(options))
    one.start()
    try:
        eventually(lambda: fails(one) == "TOPIC_NOT_FOUND", "an error")
    finally:
        one.stop()


@pytest.mark.parametrize(
    ("attributes", "error_text"),
    [
        ({"message.type": "FIFO"}, "FIFO_NOT_SUPPORTED.*Topic '{topic}' is FIFO"),
        ({"queue.type": "BatchCQ"}, "BATCH_QUEUES_NOT_SUPPORTED.*Topic '{topic}' has batch consume queues"),
    ],
)
def test_topic_that_message_mode_cannot_read_is_an_error_and_none_of_its_messages_is_accepted(
    options_of: OptionsOf, way: Way, cluster: EmbeddedCluster, group: str, attributes: dict[str, str], error_text: str
) -> None:
    if "queue.type" in attributes and "endpoints" in way.server:
        pytest.skip("a proxy does not report the type of queues")
    unreadable = Topic(cluster, cluster.create_topic(unique_name("unreadable"), 2, attributes=attributes))
    unreadable.send(2)
    options = options_of(subscribe=unreadable.name)
    one = Receiver(options, transport_of(options))
    one.start()
    try:
        eventually(lambda: fails(one) is not None, "an error")
        with pytest.raises(OptionError, match=error_text.format(topic=unreadable.name)):
            one.check()
        assert set(unreadable.committed(group).values()) == {None}, "nothing was handed out"
        assert one.counts.received == 0
    finally:
        one.stop()
        unreadable.close()


def test_a_batch_that_cannot_be_released_is_an_error(options_of: OptionsOf, way: Way, topic: str) -> None:
    unreachable = {name: "127.0.0.1:1" for name in way.server if name in {"namesrvAddr", "endpoints"}}
    options = options_of(clusterTimeoutMs="300", **unreachable)  # and nothing more is known of the broker
    one = Receiver(options, transport_of(options))
    handle = BrokerHandle.parse(topic, "0 1795445135749 60000 3 0 broker-a 0 0")
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        one.release_logged([handle])
    one.stop()


def test_what_ends_the_receivers_thread_is_raised_by_the_next_probe(options_of: OptionsOf) -> None:
    def fail() -> None:
        raise LookupError("by the test")

    one = Receiver(options_of(), transport_of(options_of()), watch=fail)
    one.start()
    one.wait(WAIT_S)
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
    pool = ConnectionPool(PATIENT_MS)
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
    PopBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS).pop(request, outcomes.append)
    eventually(lambda: bool(outcomes), "an answer")
    pool.close()
    (outcome,) = outcomes
    assert isinstance(outcome, BrokerError)
    assert str(outcome) == (
        f"[ROCKETMQ_POLL_REQUEST_EXPIRED] {cluster.broker_addr()} rejected a poll request as expired: the "
        "broker[127.0.0.1] pop message is timeout too much. The driver's clock is about 2 s or more behind the "
        "broker's, or the broker is overloaded. Synchronize both clocks with NTP, and check the broker's load "
        "and log."
    )
    assert retryability_of_pull(outcome) is Retryability.TRANSIENT


@pytest.fixture
def transport(options_of: OptionsOf) -> Iterator[Transport]:
    one = transport_of(options_of())
    yield one
    one.close()


def test_the_transport_requests_messages_changes_and_acknowledges(
    transport: Transport, messages: Topic, topic: str
) -> None:
    sent = messages.send(3)
    eventually(lambda: transport.refresh_routes() == {}, "routes")
    target = Target(topic, "broker-a")
    assert transport.targets() == [target]
    received: list[ReceivedMessage] = []

    def has_found_all() -> bool:
        received.extend(response_of(transport, ReceiveRequest(target, 32, 500)))
        return len(received) == len(sent)

    eventually(has_found_all, "messages")
    handles = [one.handle for one in received]
    changed = transport.change_invisible_duration(handles, LONG_MS, suspend=False)
    assert [type(one) for one in changed] == [BrokerHandle] * 3
    assert not {*handles} & {*changed}
    assert transport.acknowledge([one for one in changed if isinstance(one, BrokerHandle)]) == [True] * 3


def test_what_is_of_a_broker_that_is_unknown_fails_by_itself(transport: Transport, topic: str) -> None:
    nowhere = BrokerHandle.parse(topic, "0 1795445135749 60000 3 0 broker-b 0 0")
    eventually(lambda: transport.refresh_routes() == {}, "routes")
    assert [type(one) for one in transport.change_invisible_duration([nowhere], 1, suspend=True)] == [RouteError]
    assert [type(one) for one in transport.acknowledge([nowhere])] == [RouteError]


def test_over_each_way_its_own_transport_is_used(transport: Transport, way: Way) -> None:
    assert type(transport) is (GrpcTransport if "endpoints" in way.server else RemotingTransport)
