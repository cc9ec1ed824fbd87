"""The question that a send is: to store messages, answered with where they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.remoting_client import Rpc
from rocketmq_spark.remoting.send_result import SendResult, SendStatus, send_header
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import SendMessageRequest, SendMessageResponse

NONEXISTENT_TOPIC: Final = "-"
"""No topic has this name. A broker with ``autoCreateTopicEnable`` makes a topic like the one that a send names."""


def send_rpc(
    code: RequestCode, header: SendMessageRequest, body: bytes | memoryview, queue: MessageQueue
) -> Rpc[SendResult]:
    """``code`` is one of those that store messages in ``queue``."""

    def decode(response: RemotingCommand) -> SendResult:
        stored = SendMessageResponse.from_fields(response.fields)
        where = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
        return SendResult(SendStatus(response.code), where, stored.queue_offset, tuple(stored.message_id.split(",")))

    return Rpc(RemotingCommand(code, fields=header.to_fields(), body=body), decode)


def send_batch_rpc(
    body: bytes | memoryview,
    queue: MessageQueue,
    producer_group: str,
    *,
    sys_flag: int = 0,
    properties: str | None = None,
) -> Rpc[SendResult]:
    """Of the messages of a batch, encoded one after another; or with ``properties`` of a single one. ``sys_flag`` says
    how their bodies are compressed. A topic that is gone is not made again."""
    is_batch = properties is None
    header = send_header(queue, producer_group, sys_flag=sys_flag, properties=properties or "", is_batch=is_batch)
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return send_rpc(code, replace(header, default_topic=NONEXISTENT_TOPIC), body, queue)
