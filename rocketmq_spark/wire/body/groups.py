"""The members of a group, and its settings.

Source: ``remoting/protocol/header/GetConsumerListByGroupResponseBody.java``,
``remoting/protocol/subscription/SubscriptionGroupConfig.java``.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.remoting.typed import Object, int64, texts


class GroupRetries(NamedTuple):
    """How often a message comes again, and in how many queues of the retry topic; without any, nothing that is sent
    back is kept."""

    max_times: int
    queue_count: int


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    """Answer to GET_CONSUMER_LIST_BY_GROUP, in the broker's order; a client with two connections is in it twice."""
    return decode_body("consumer list", body, lambda ids: texts(ids, "consumerIdList"))


def decode_group_retries(body: bytes | memoryview) -> GroupRetries:
    """Answer to GET_SUBSCRIPTIONGROUP_CONFIG."""
    return decode_body("group settings", body, _retries)


def _retries(group: Object) -> GroupRetries:
    return GroupRetries(int64(group, "retryMaxTimes"), int64(group, "retryQueueNums"))
