"""Which queue a row is for, where it says so or has a sharding key.

Source: ``client/producer/selector/SelectMessageQueueByHash.java``; differs: a broker that the route names without a
master keeps its queues, so that a key does not move while only that is away.
"""

from __future__ import annotations

import math

from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue, TopicRoute
from rocketmq_spark.sink.send_batches import Place
from rocketmq_spark.wire.body.java_hash import java_hash_code


def queue_by_hash(sharding_key: str, queues: tuple[MessageQueue, ...]) -> MessageQueue:
    """The same for the same key, as long as the queues are the same."""
    return queues[abs(int(math.fmod(java_hash_code(sharding_key), len(queues))))]


def sharded_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Those among which keys are shared. Raises RouteError[NO_WRITABLE_QUEUE | BAD_ORDER_CONF]."""
    queues = route.publish_queues()
    if not queues:
        raise RouteError("NO_WRITABLE_QUEUE", topic=route.topic)
    return queues


def named_queue(place: Place) -> MessageQueue | None:
    """The queue that a row names itself."""
    if place.broker_name is None or place.queue_id is None:
        return None
    return MessageQueue(place.topic, place.broker_name, place.queue_id)
