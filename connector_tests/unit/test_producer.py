from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.errors import BrokerError, LocalProtocolError, RouteError, TransportError
from rocketmq_spark.model import Message, MessageQueue
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.producer import Producer, UniqueIds, milliseconds_of_month
from rocketmq_spark.remoting.write_queues import ROUTE_LIFETIME_MS
from rocketmq_spark.wire.message.batch import decode_batch
from rocketmq_spark.wire.message.properties import decode_properties
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

STORED = build_response(fields={"msgId": "ID", "queueId": "0", "queueOffset": "0"})
BUSY = build_response(ResponseCode.SYSTEM_BUSY)
MESSAGE = Message("T", b"body")


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        for broker in cluster.brokers.values():
            broker.on(RequestCode.SEND_MESSAGE_V2, STORED)
            broker.on(RequestCode.SEND_BATCH_MESSAGE, STORED)
        yield cluster


@pytest.fixture
def producer(cluster: ScriptedCluster) -> Producer:
    return new_producer(cluster, initial_queue_index=0)


def stored_where_it_is_sent(request: RemotingCommand) -> RemotingCommand:
    return build_response(fields={"msgId": "ID", "queueId": request.fields["e"], "queueOffset": "0"})


def new_producer(
    cluster: ScriptedCluster, initial_queue_index: int | None = None, clock: Clock = monotonic_ms
) -> Producer:
    if initial_queue_index is None:
        return Producer(cluster.client(), group="P", clock=clock)
    return Producer(cluster.client(), group="P", initial_queue_index=lambda: initial_queue_index, clock=clock)


def sent_to(broker: ScriptedBroker) -> RemotingCommand:
    return broker.next_session().next_received()


def id_of(request: RemotingCommand) -> str:
    return decode_properties(request.fields["i"].encode())["UNIQ_KEY"]


def test_messages_go_round_the_queues(producer: Producer) -> None:
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(4)] == ["a", "b", "a", "b"]


def test_a_producer_begins_with_any_queue(cluster: ScriptedCluster) -> None:
    """Each call of ``rocketmq_spark.send`` has a producer of its own: all messages went to the first queue."""
    cluster.queue_count = 4
    for broker in cluster.brokers.values():
        broker.on(RequestCode.SEND_MESSAGE_V2, stored_where_it_is_sent)
    first = [new_producer(cluster).send(MESSAGE).queue for _ in range(64)]
    assert {queue.broker_name for queue in first} == {"a", "b"}
    assert len(set(first)) > 4
    assert [new_producer(cluster, initial_queue_index=7).send(MESSAGE).queue for _ in range(2)] == [
        MessageQueue("T", "b", 3)
    ] * 2


@pytest.mark.parametrize("initial_queue_index", range(8))
def test_a_message_goes_to_another_broker_after_a_failure(cluster: ScriptedCluster, initial_queue_index: int) -> None:
    """The next queue was one of the same broker: with one of two brokers stopped every call failed."""
    cluster.queue_count = 4
    cluster.down.add("a:10911")
    producer = new_producer(cluster, initial_queue_index=initial_queue_index)
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(8)] == ["b"] * 8


def test_a_producer_tries_a_broker_again_where_there_is_no_other(cluster: ScriptedCluster) -> None:
    cluster.queue_count = 4
    cluster.down.add("b:10911")
    refusals = iter([BUSY, BUSY, STORED])
    cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, lambda _: next(refusals))
    with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
        new_producer(cluster, initial_queue_index=0).send(MESSAGE)
    assert new_producer(cluster, initial_queue_index=4).send(MESSAGE).queue.broker_name == "a"


def test_a_queue_that_is_given_is_accepted(producer: Producer) -> None:
    queue = MessageQueue("T", "b", 0)
    assert [producer.send(MESSAGE, queue).queue for _ in range(2)] == [queue, queue]


@pytest.mark.parametrize(
    "refusal", [BUSY, build_response(ResponseCode.NO_PERMISSION), build_response(ResponseCode.TOPIC_NOT_EXIST)]
)
def test_after_a_refusal_another_broker_gets_the_same_message(
    cluster: ScriptedCluster, producer: Producer, refusal: RemotingCommand
) -> None:
    cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, refusal)
    assert producer.send(MESSAGE).queue.broker_name == "b"
    assert id_of(sent_to(cluster.brokers["a"])) == id_of(sent_to(cluster.brokers["b"]))
    assert cluster.route_request_count == 2


def test_a_broker_that_is_down_is_passed_over(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.down.add("a:10911")
    assert producer.send(MESSAGE).queue.broker_name == "b"


def test_a_broker_that_joins_is_sent_to_though_no_message_failed(cluster: ScriptedCluster) -> None:
    """The route was requested after a failure only: a broker that had returned got no message any more."""
    clock = ManualClock()
    b = cluster.brokers.pop("b")
    producer = new_producer(cluster, initial_queue_index=0, clock=clock)
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(2)] == ["a", "a"]
    cluster.brokers["b"] = b
    clock.advance(ROUTE_LIFETIME_MS - 1)
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(2)] == ["a", "a"]
    clock.advance(1)
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(2)] == ["a", "b"]
    assert cluster.route_request_count == 2


def test_a_cached_route_is_used_while_no_name_server_responds(cluster: ScriptedCluster) -> None:
    clock = ManualClock()
    producer = new_producer(cluster, initial_queue_index=0, clock=clock)
    producer.send(MESSAGE)
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, BUSY)
    clock.advance(ROUTE_LIFETIME_MS)
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(2)] == ["b", "a"]


def test_when_no_broker_is_up_the_last_failure_is_raised(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.down.update({"a:10911", "b:10911"})
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        producer.send(MESSAGE)


def test_a_message_that_no_broker_would_take_is_tried_once(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, build_response(ResponseCode.MESSAGE_ILLEGAL))
    with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
        producer.send(MESSAGE)
    assert cluster.brokers["b"].connect_count == 0


def test_a_message_that_cannot_be_sent_reaches_no_broker(cluster: ScriptedCluster, producer: Producer) -> None:
    with pytest.raises(LocalProtocolError, match="INVALID_MESSAGE"):
        producer.send(Message("T", b"body", properties={"empty": ""}))
    assert [broker.connect_count for broker in cluster.brokers.values()] == [0, 0]


def test_an_id_that_the_sender_chose_stays(cluster: ScriptedCluster, producer: Producer) -> None:
    producer.send(Message("T", b"body", properties={"UNIQ_KEY": "mine"}))
    assert id_of(sent_to(cluster.brokers["a"])) == "mine"


def test_each_message_of_a_batch_has_an_id_of_its_own(cluster: ScriptedCluster, producer: Producer) -> None:
    producer.send_batch([MESSAGE, MESSAGE])
    inner = decode_batch(bytes(sent_to(cluster.brokers["a"]).body))
    assert [message.body for message in inner] == [b"body", b"body"]
    assert len({message.properties["UNIQ_KEY"] for message in inner}) == 2


def test_a_topic_that_may_only_be_read_takes_no_message(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.permission = 4
    with pytest.raises(RouteError, match=r"TOPIC_UNAVAILABLE\.NO_WRITABLE_QUEUE"):
        producer.send(MESSAGE)


def test_missing_masters_of_all_queues_are_named(cluster: ScriptedCluster, producer: Producer) -> None:
    """The topic was reported as one without a writable queue, which names no broker."""
    route = json.loads(bytes(cluster.route(RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC)).body))
    for broker in route["brokerDatas"]:
        broker["brokerAddrs"] = {"1": f"{broker['brokerName']}-slave:10911"}
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=json.dumps(route).encode()))
    with pytest.raises(RouteError, match=r"MASTER_UNAVAILABLE.*'a'.*'T'"):
        producer.send(MESSAGE)


def test_each_topic_is_served_round_robin(producer: Producer) -> None:
    """Topics that alternated had one broker each."""
    brokers: dict[str, list[str]] = {"T": [], "U": []}
    for topic in "TUTU":
        brokers[topic].append(producer.send(Message(topic, b"body")).queue.broker_name)
    assert brokers == {"T": ["a", "b"], "U": ["a", "b"]}


def test_ids_differ_within_one_millisecond() -> None:
    ids = UniqueIds(unix_ms=lambda: 1_700_000_000_000)
    assert len({ids.next_id() for _ in range(65_536)}) == 65_536


def test_ids_of_two_producers_in_one_process_differ() -> None:
    assert UniqueIds().next_id()[:20] != UniqueIds().next_id()[:20]


def test_an_id_has_the_length_of_javas_and_holds_its_time() -> None:
    unix_ms = 1_700_000_000_123
    unique_id = UniqueIds(unix_ms=lambda: unix_ms).next_id()
    assert len(unique_id) == 32
    assert int(unique_id[20:28], 16) == milliseconds_of_month(unix_ms)


def test_a_month_begins_at_local_midnight_of_its_first_day() -> None:
    began_s = int(time.mktime((2023, 11, 1, 0, 0, 0, 0, 0, -1)))
    assert milliseconds_of_month(began_s * 1000) == 0
    assert milliseconds_of_month((began_s - 1) * 1000) >= 29 * 86_400_000


def test_the_last_millisecond_of_a_long_month_still_fits() -> None:
    ended_s = int(time.mktime((2024, 1, 1, 0, 0, 0, 0, 0, -1)))
    assert len(UniqueIds(unix_ms=lambda: ended_s * 1000 - 1).next_id()) == 32
