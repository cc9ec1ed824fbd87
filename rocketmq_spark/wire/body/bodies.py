"""The bodies of requests and responses, other than messages.

Every ``decode_`` raises RemoteProtocolError[BAD_BODY], every ``encode_`` LocalProtocolError[UNSENDABLE]. Fields go out
in the order of their names, sets in a fixed order.
Source: ``remoting/protocol/{route,admin,heartbeat,body}``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import BrokerData, MessageQueue, QueueBounds, QueueData, TopicRoute, java_string_order
from rocketmq_spark.wire.body.subscription import SubscriptionData
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson, write_fastjson
from rocketmq_spark.wire.remoting.typed import (
    Object,
    array,
    as_int64,
    as_object,
    as_text,
    int64,
    objects,
    table,
    text,
    texts,
)

T = TypeVar("T")


def decode_body(subject: str, body: bytes | memoryview, build: Callable[[Object], T]) -> T:
    """What ``build`` makes of the object in ``body``; its ValueError becomes RemoteProtocolError[BAD_BODY]."""
    value = parse_fastjson(body, subject)
    try:
        return build(as_object(value, "it"))
    except ValueError as error:
        raise RemoteProtocolError("BAD_BODY", subject=subject, problem=str(error)) from error


# ---------------------------------------------------------------------------------------------------- routes


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Brokers by name, and the broker names of each cluster. Source: ``remoting/protocol/body/ClusterInfo.java``."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, tuple[str, ...]]


def decode_topic_route(topic: str, body: bytes | memoryview) -> TopicRoute:
    """Answer to GET_ROUTEINFO_BY_TOPIC."""
    return decode_body("topic route", body, lambda route: _topic_route(topic, route))


def decode_cluster_info(body: bytes | memoryview) -> ClusterInfo:
    """Answer to GET_BROKER_CLUSTER_INFO."""
    return decode_body("cluster info", body, _cluster_info)


def _topic_route(topic: str, route: Object) -> TopicRoute:
    brokers = tuple(_broker_data(entry) for entry in objects(route, "brokerDatas"))
    queues = tuple(_queue_data(entry) for entry in objects(route, "queueDatas"))
    return TopicRoute(topic, brokers, queues, is_static=bool(route.get("topicQueueMappingByBroker")))


def _cluster_info(info: Object) -> ClusterInfo:
    brokers = (_broker_data(as_object(entry, "brokerAddrTable")) for entry in table(info, "brokerAddrTable").values())
    clusters = table(info, "clusterAddrTable")
    return ClusterInfo(
        {broker.broker_name: broker for broker in brokers},
        {as_text(name, "a cluster's name"): tuple(texts(clusters, str(name))) for name in clusters},
    )


def _broker_data(entry: Object) -> BrokerData:
    addresses = table(entry, "brokerAddrs").items()
    return BrokerData(
        cluster=text(entry, "cluster"),
        broker_name=text(entry, "brokerName"),
        addresses={int(str(broker_id)): as_text(address, "a broker's address") for broker_id, address in addresses},
    )


def _queue_data(entry: Object) -> QueueData:
    return QueueData(
        broker_name=text(entry, "brokerName"),
        read_queue_count=int64(entry, "readQueueNums"),
        write_queue_count=int64(entry, "writeQueueNums"),
        permission=int64(entry, "perm"),
    )


# ---------------------------------------------------------------------------------------------------- tables by queue


@dataclass(frozen=True, slots=True)
class ConsumeProgress:
    """How far a group is in one queue. Source: ``remoting/protocol/admin/OffsetWrapper.java``.

    ``broker_offset`` is the queue's max offset; ``consumer_offset`` is also 0 where the group has none.
    ``last_timestamp_ms``: when the message before ``consumer_offset`` was stored, 0 if that is gone.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp_ms: int


def decode_topic_stats(body: bytes | memoryview) -> dict[MessageQueue, QueueBounds]:
    """Answer to GET_TOPIC_STATS_INFO: the queues of one broker, for the larger of read and write queue count."""
    return decode_body("topic stats", body, lambda stats: by_queue(stats, "offsetTable", _queue_bounds))


def decode_consume_stats(body: bytes | memoryview) -> dict[MessageQueue, ConsumeProgress]:
    """Answer to GET_CONSUME_STATS."""
    return decode_body("consume stats", body, lambda stats: by_queue(stats, "offsetTable", _consume_progress))


def decode_offset_table(body: bytes | memoryview) -> dict[MessageQueue, int]:
    """Answer to INVOKE_BROKER_TO_RESET_OFFSET, and the body of RESET_CONSUMER_CLIENT_OFFSET that a broker sends."""
    return decode_body("offset table", body, lambda offsets: by_queue(offsets, "offsetTable", as_int64))


def encode_consumer_status(next_offsets: Mapping[MessageQueue, int]) -> bytes:
    """Answer to GET_CONSUMER_STATUS_FROM_CLIENT. Source: ``body/GetConsumerStatusBody.java``."""
    return write_fastjson({"consumerTable": {}, "messageQueueTable": next_offsets})


def by_queue(entry: Object, name: str, read: Callable[[object, str], T]) -> dict[MessageQueue, T]:
    """The object in field ``name``, whose keys are queues; ``read`` gets each value and the name."""
    rows = table(entry, name).items()
    return {_message_queue(as_object(key, "a key of " + name)): read(value, name) for key, value in rows}


def _message_queue(entry: Object) -> MessageQueue:
    return MessageQueue(text(entry, "topic"), text(entry, "brokerName"), int64(entry, "queueId"))


def _queue_bounds(value: object, name: str) -> QueueBounds:
    entry = as_object(value, name)
    stored_ms = max(0, int64(entry, "lastUpdateTimestamp"))  # a broker says -1 when the last message is gone
    return QueueBounds(int64(entry, "minOffset"), int64(entry, "maxOffset"), stored_ms)


def _consume_progress(value: object, name: str) -> ConsumeProgress:
    entry = as_object(value, name)
    offsets = (int64(entry, "brokerOffset"), int64(entry, "consumerOffset"), int64(entry, "pullOffset"))
    return ConsumeProgress(*offsets, int64(entry, "lastTimestamp"))


# ---------------------------------------------------------------------------------------------------- membership


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One group that a client consumes in. The enums travel by name, such as ``CONSUME_ACTIVELY``, ``CLUSTERING``."""

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
    """Body of HEART_BEAT, first version: fingerprint 0, subscriptions included."""
    return write_fastjson(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [_consumer_fields(consumer) for consumer in heartbeat.consumers],
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producers],
            "withoutSub": False,
        }
    )


def subscription_fields(subscription: SubscriptionData) -> dict[str, object]:
    """A subscription as it stands in bodies."""
    return {
        "classFilterMode": False,
        "codeSet": sorted(subscription.code_set),
        "expressionType": subscription.expression_type,
        "subString": subscription.sub_string,
        "subVersion": subscription.version_ms,
        "tagsSet": sorted(subscription.tags_set, key=java_string_order),
        "topic": subscription.topic,
    }


def read_subscription(entry: Object) -> SubscriptionData:
    """What ``subscription_fields`` writes, and Java's clients."""
    return SubscriptionData(
        topic=text(entry, "topic"),
        sub_string=text(entry, "subString"),
        tags_set=frozenset(texts(entry, "tagsSet")),
        code_set=frozenset(as_int64(code, "codeSet") for code in array(entry, "codeSet")),
        version_ms=int64(entry, "subVersion"),
        expression_type=text(entry, "expressionType"),
    )


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    """Answer to GET_CONSUMER_LIST_BY_GROUP, in the broker's order; a client with two connections is in it twice."""
    return decode_body("consumer list", body, lambda ids: texts(ids, "consumerIdList"))


def encode_lock_batch(group: str, client_id: str, queues: Collection[MessageQueue]) -> bytes:
    """Body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""
    return write_fastjson(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "mqSet": sorted(queues, key=MessageQueue.sort_key),
            "onlyThisBroker": False,
        }
    )


def decode_lock_ok(body: bytes | memoryview) -> set[MessageQueue]:
    """Answer to LOCK_BATCH_MQ: the queues that are locked for the asker now."""
    return decode_body("lock answer", body, lambda locked: set(map(_message_queue, objects(locked, "lockOKMQSet"))))


def encode_subscription_group(group: str) -> bytes:
    """Body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: a group with the broker's defaults."""
    return write_fastjson({"groupName": group})


def _consumer_fields(consumer: ConsumerData) -> dict[str, object]:
    return {
        "consumeFromWhere": consumer.consume_from_where,
        "consumeType": consumer.consume_type,
        "groupName": consumer.group,
        "messageModel": consumer.message_model,
        "subscriptionDataSet": list(map(subscription_fields, consumer.subscriptions)),
        "unitMode": False,
    }
