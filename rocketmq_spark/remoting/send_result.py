"""Request header of sends, and their result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.headers import SendMessageRequest


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


def send_header(
    queue: MessageQueue,
    producer_group: str,
    *,
    sys_flag: int = 0,
    flag: int = 0,
    properties: str = "",
    is_batch: bool = False,
) -> SendMessageRequest:
    """Return the request header of a send to ``queue``, with encoded ``properties``; it was born now."""
    return SendMessageRequest(
        producer_group=producer_group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp_ms=int(time.time() * 1000),
        flag=flag,
        properties=properties,
        is_batch=is_batch,
    )
