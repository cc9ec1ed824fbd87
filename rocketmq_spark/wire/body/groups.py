"""The members of a group. Source: ``remoting/protocol/header/GetConsumerListByGroupResponseBody.java``."""

from __future__ import annotations

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.remoting.typed import texts


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    """Answer to GET_CONSUMER_LIST_BY_GROUP, in the broker's order; a client with two connections is in it twice."""
    return decode_body("consumer list", body, lambda ids: texts(ids, "consumerIdList"))
