"""Offsets by queue: where an operator's reset leads, and where a consumer says that it is."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.decoding import by_queue, decode_body
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import as_int64


def decode_offset_table(body: bytes | memoryview) -> dict[MessageQueue, int]:
    """Answer to INVOKE_BROKER_TO_RESET_OFFSET, and the body of RESET_CONSUMER_CLIENT_OFFSET that a broker sends."""
    return decode_body("offset table", body, lambda offsets: by_queue(offsets, "offsetTable", as_int64))


def encode_consumer_status(next_offsets: Mapping[MessageQueue, int]) -> bytes:
    """Answer to GET_CONSUMER_STATUS_FROM_CLIENT. Source: ``remoting/protocol/body/GetConsumerStatusBody.java``."""
    return write_fastjson({"consumerTable": {}, "messageQueueTable": next_offsets})
