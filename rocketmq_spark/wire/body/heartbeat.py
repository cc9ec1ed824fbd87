"""What a client tells brokers of itself, again and again: the groups that it is in."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_spark.wire.body.subscription import SubscriptionData, subscription_fields
from rocketmq_spark.wire.remoting.fastjson import write_fastjson


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


def _consumer_fields(consumer: ConsumerData) -> dict[str, object]:
    return {
        "consumeFromWhere": consumer.consume_from_where,
        "consumeType": consumer.consume_type,
        "groupName": consumer.group,
        "messageModel": consumer.message_model,
        "subscriptionDataSet": list(map(subscription_fields, consumer.subscriptions)),
        "unitMode": False,
    }
