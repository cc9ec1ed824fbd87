"""How brokers are asked to store a group's offset."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.offset_rpcs import commit_rpc, reset_offset_rpc
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

QUEUE = MessageQueue("orders", "broker-a", 3)


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
