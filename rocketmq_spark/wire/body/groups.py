"""Consumer groups: their members, and how one is made."""

from __future__ import annotations

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import texts


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    """Answer to GET_CONSUMER_LIST_BY_GROUP, in the broker's order; a client with two connections is in it twice."""
    return decode_body("consumer list", body, lambda ids: texts(ids, "consumerIdList"))


def encode_subscription_group(group: str) -> bytes:
    """Body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: a group with the broker's defaults."""
    return write_fastjson({"groupName": group})
