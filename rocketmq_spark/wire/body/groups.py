"""Consumer groups: retry settings, list of members, heartbeats, and queue locks.

Source: ``remoting/protocol/header/GetConsumerListByGroupResponseBody.java``,
``remoting/protocol/subscription/SubscriptionGroupConfig.java``, ``remoting/protocol/heartbeat/HeartbeatData.java``,
``remoting/protocol/body/LockBatchRequestBody.java``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.decoding import decode_body, message_queue
from rocketmq_spark.wire.body.subscription import SubscriptionData, subscription_fields
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import Object, int64, objects, texts


class GroupRetrySettings(NamedTuple):
    """Maximum number of redeliveries, and number of queues of the retry topic. With 0 queues the broker drops messages
    that are sent back for retry."""

    max_times: int
    queue_count: int


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    """Decode the response to GET_CONSUMER_LIST_BY_GROUP: client IDs in the broker's order. A client with two
    connections is listed twice. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("consumer list", body, lambda ids: texts(ids, "consumerIdList"))


def decode_group_retry_settings(body: bytes | memoryview) -> GroupRetrySettings:
    """Decode the retry settings in the response to GET_SUBSCRIPTIONGROUP_CONFIG. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("group settings", body, _retries)


def _retries(group: Object) -> GroupRetrySettings:
    """Return the retry settings in a body. Raises ValueError for a missing or wrongly typed field."""
    return GroupRetrySettings(int64(group, "retryMaxTimes"), int64(group, "retryQueueNums"))


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One group in which a client consumes. Enums are sent by name, such as ``CONSUME_ACTIVELY``, ``CLUSTERING``."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[SubscriptionData, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All groups of one client. Source: ``remoting/protocol/heartbeat/HeartbeatData.java``."""

    client_id: str
    consumers: tuple[ConsumerData, ...] = ()
    producers: tuple[str, ...] = ()


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Return the body of HEART_BEAT, version 1: fingerprint 0, subscriptions included. Raises
    LocalProtocolError[INVALID_MESSAGE] for text that is not valid Unicode."""
    return write_fastjson(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [_consumer_fields(consumer) for consumer in heartbeat.consumers],
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producers],
            "withoutSub": False,
        }
    )


def _consumer_fields(consumer: ConsumerData) -> dict[str, object]:
    """Return the data of one group as an entry of ``consumerDataSet``, in the heartbeat's body."""
    return {
        "consumeFromWhere": consumer.consume_from_where,
        "consumeType": consumer.consume_type,
        "groupName": consumer.group,
        "messageModel": consumer.message_model,
        "subscriptionDataSet": list(map(subscription_fields, consumer.subscriptions)),
        "unitMode": False,
    }


def encode_lock_batch(group: str, client_id: str, queues: Collection[MessageQueue]) -> bytes:
    """Return the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ, with the queues sorted. Raises
    LocalProtocolError[INVALID_MESSAGE] for text that is not valid Unicode."""
    return write_fastjson(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "mqSet": sorted(queues, key=MessageQueue.sort_key),
            "onlyThisBroker": False,
        }
    )


def decode_lock_ok(body: bytes | memoryview) -> set[MessageQueue]:
    """Decode the response to LOCK_BATCH_MQ: the queues that are now locked for the requesting client. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("lock response", body, lambda locked: set(map(message_queue, objects(locked, "lockOKMQSet"))))
