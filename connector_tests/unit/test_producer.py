from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, answer
from connector_tests.support.scripted_cluster import TIMEOUT_MS, ScriptedCluster
from rocketmq_spark.errors import BrokerError, LocalProtocolError, RouteError, TransportError
from rocketmq_spark.model import Message, MessageQueue
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.message.batch import decode_batch
from rocketmq_spark.wire.message.properties import decode_properties
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

STORED = answer(fields={"msgId": "ID", "queueId": "0", "queueOffset": "0"})
BUSY = answer(ResponseCode.SYSTEM_BUSY)
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
    return Producer(cluster.name_servers, cluster.pool, group="P", timeout_ms=TIMEOUT_MS)


def sent_to(broker: ScriptedBroker) -> RemotingCommand:
    return broker.next_session().next_received()


def id_of(request: RemotingCommand) -> str:
    return decode_properties(request.fields["i"].encode())["UNIQ_KEY"]


def test_messages_go_round_the_queues(producer: Producer) -> None:
    assert [producer.send(MESSAGE).queue.broker_name for _ in range(4)] == ["a", "b", "a", "b"]


def test_a_queue_that_is_given_is_taken(producer: Producer) -> None:
    queue = MessageQueue("T", "b", 0)
    assert [producer.send(MESSAGE, queue).queue for _ in range(2)] == [queue, queue]


@pytest.mark.parametrize("refusal", [BUSY, answer(ResponseCode.NO_PERMISSION), answer(ResponseCode.TOPIC_NOT_EXIST)])
def test_after_a_refusal_another_broker_gets_the_same_message(
    cluster: ScriptedCluster, producer: Producer, refusal: RemotingCommand
) -> None:
    cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, refusal)
    assert producer.send(MESSAGE).queue.broker_name == "b"
    assert id_of(sent_to(cluster.brokers["a"])) == id_of(sent_to(cluster.brokers["b"]))
    assert cluster.routes_asked_count == 2


def test_a_broker_that_is_down_is_passed_over(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.down.add("a:10911")
    assert producer.send(MESSAGE).queue.broker_name == "b"


def test_when_no_broker_is_up_the_last_failure_is_raised(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.down.update({"a:10911", "b:10911"})
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        producer.send(MESSAGE)


def test_a_message_that_no_broker_would_take_is_tried_once(cluster: ScriptedCluster, producer: Producer) -> None:
    cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, answer(ResponseCode.MESSAGE_ILLEGAL))
    with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
        producer.send(MESSAGE)
    assert cluster.brokers["b"].connect_count == 0


def test_a_message_that_cannot_be_sent_reaches_no_broker(cluster: ScriptedCluster, producer: Producer) -> None:
    with pytest.raises(LocalProtocolError, match="UNSENDABLE"):
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
    with pytest.raises(RouteError, match="NO_WRITABLE_QUEUE"):
        producer.send(MESSAGE)
