"""Offsets by queue: where a consumer says that it is."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.fastjson import write_fastjson


def encode_consumer_status(next_offsets: Mapping[MessageQueue, int]) -> bytes:
    """Answer to GET_CONSUMER_STATUS_FROM_CLIENT. Source: ``remoting/protocol/body/GetConsumerStatusBody.java``."""
    return write_fastjson({"consumerTable": {}, "messageQueueTable": next_offsets})
