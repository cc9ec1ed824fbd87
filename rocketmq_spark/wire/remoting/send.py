"""Results of sends: the status of the stored messages, and their place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import SendMessageResponse


class SendStatus(Enum):
    """Durability of a message, which is stored in every case. Source: ``client/producer/SendStatus.java``."""

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT


@dataclass(frozen=True, slots=True)
class SendResult:
    """Place of stored messages. ``offset_msg_ids``: one per message; ``queue_offset``: of the first message."""

    status: SendStatus
    queue: MessageQueue
    queue_offset: int
    offset_msg_ids: tuple[str, ...]


def read_send(response: RemotingCommand, queue: MessageQueue) -> SendResult:
    """Return the status, and the queue ID, offset and IDs that the broker reports for messages sent to ``queue``.
    Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER], and ValueError for a code that is no ``SendStatus``."""
    stored = SendMessageResponse.from_fields(response.fields)
    where = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
    return SendResult(SendStatus(response.code), where, stored.queue_offset, tuple(stored.message_id.split(",")))
