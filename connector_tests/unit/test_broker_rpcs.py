"""What brokers are sent, and what their responses mean."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.broker_rpcs import commit_rpc, reset_offset_rpc
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.body.connections import GroupConnections
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

QUEUE = MessageQueue("orders", "broker-a", 3)


@pytest.fixture
def broker(server: ScriptedBroker) -> Iterator[Broker]:
    pool = ConnectionPool(1000, connect=server.connect)
    yield Broker(BrokerAddress("a:10911"), pool, 60_000)
    pool.close()


def test_group_names_are_requested_without_a_header(server: ScriptedBroker, broker: Broker) -> None:
    body = json.dumps({"subscriptionGroupTable": {"g": {}}}).encode()
    server.on(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, build_response(body=body))
    assert broker.query_group_names() == ["g"]


def test_group_without_members_has_no_connections(server: ScriptedBroker, broker: Broker) -> None:
    offline = build_response(ResponseCode.CONSUMER_NOT_ONLINE, remark="the consumer group[g] not online")
    server.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, offline)
    assert broker.query_group_connections("g") == GroupConnections()
    assert server.next_session().next_received().fields["consumerGroup"] == "g"


def test_refusal_is_no_empty_group(server: ScriptedBroker, broker: Broker) -> None:
    server.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, build_response(ResponseCode.SYSTEM_ERROR, remark="broken"))
    with pytest.raises(BrokerError, match="broken"):
        broker.query_group_connections("g")


def test_reset_names_queue_and_offset_and_no_time() -> None:
    command = reset_offset_rpc("g", QUEUE, 17).command
    assert command.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    assert command.fields == {
        "group": "g",
        "topic": "orders",
        "queueId": "3",
        "timestamp": "-1",
        "offset": "17",
        "isForce": "true",
    }


def test_update_names_queue_and_offset() -> None:
    command = commit_rpc("a:1", "g", QUEUE, 17).command
    assert command.code == RequestCode.UPDATE_CONSUMER_OFFSET
    assert command.fields == {"consumerGroup": "g", "topic": "orders", "queueId": "3", "commitOffset": "17"}


def test_update_that_is_not_accepted_names_the_queue() -> None:
    decode = commit_rpc("a:1", "g", QUEUE, 17).decode
    decode(RemotingCommand(ResponseCode.SUCCESS))
    not_accepted = RemotingCommand(ResponseCode.SUCCESS, remark="Offset has been previously reset")
    with pytest.raises(BrokerError, match="OFFSET_RESET_PENDING"):
        decode(not_accepted)
