"""Ranges that a task has found to be lost, told to the member that planned them.

RocketMQ has no request for that. But what a broker is asked of a member (GET_CONSUMER_RUNNING_INFO) it hands on to the
member, body and all, and nobody else gives that request a body.
Source: ``broker/processor/AdminBrokerProcessor.java#callConsumer``.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketmq_spark.model import QueueRange
from rocketmq_spark.wire.body.decoding import decode_body, message_queue
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import Object, as_object, int64, objects


def encode_told_losses(ranges: Collection[QueueRange]) -> bytes:
    """The body of the request."""
    return write_fastjson(
        {"lost": [{"begin": one.begin_offset, "end": one.end_offset, "queue": one.queue} for one in ranges]}
    )


def decode_told_losses(body: bytes | memoryview) -> tuple[QueueRange, ...]:
    """The ranges in it; none where it has no body, as when an operator's tool asks."""
    if not body:
        return ()
    return decode_body("told loss", body, lambda told: tuple(map(_range, objects(told, "lost"))))


def _range(entry: Object) -> QueueRange:
    queue = message_queue(as_object(entry.get("queue"), "queue"))
    return QueueRange(queue, int64(entry, "begin"), int64(entry, "end"))
