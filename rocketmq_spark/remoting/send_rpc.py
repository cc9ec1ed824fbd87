"""RPCs that store messages; the value is where they were stored."""

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
"""A name that no topic has. A broker with ``autoCreateTopicEnable`` creates a missing topic from the default topic that
a send names; with this name it creates none."""


def send_rpc(
    code: RequestCode, header: SendMessageRequest, body: bytes | memoryview, queue: MessageQueue
) -> Rpc[SendResult]:
    """Return the RPC that stores the messages in ``body`` in ``queue``. ``code``: SEND_MESSAGE_V2 for one message,
    SEND_BATCH_MESSAGE for a batch, with the matching ``header``."""

    def decode(response: RemotingCommand) -> SendResult:
        """Return the status and the place that the broker reports."""
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
    """Return the RPC that stores in ``queue``, without ``properties``, a batch (``body``: its messages, encoded one
    after another), else a single message with this body and these encoded properties. ``sys_flag``: compression of the
    bodies. The broker does not re-create a deleted topic."""
    is_batch = properties is None
    header = send_header(queue, producer_group, sys_flag=sys_flag, properties=properties or "", is_batch=is_batch)
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return send_rpc(code, replace(header, default_topic=NONEXISTENT_TOPIC), body, queue)
