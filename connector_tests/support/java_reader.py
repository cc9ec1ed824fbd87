"""RocketMQ's own consumer, from Java: what it reads of a topic.

Arrays, because Java's iterators end by an exception, and PySpark takes that for one of its own JVM's where this has an
object of the same number.
"""

from __future__ import annotations

import time
from typing import Any

from connector_tests.support.streams import TIMEOUT_S
from rocketmq_spark.embedded.pytest_plugin import unique_name

ADDED_ON_THE_WAY = frozenset({"CLUSTER", "MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET"})
"""Properties that brokers and Java's client add."""


def read_by_java(java: Any, namesrv_addr: str, topic: str, count: int) -> list[dict[str, Any]]:
    """``count`` messages of a topic from its beginning, or those that came before none did for long."""
    consumer = java.org.apache.rocketmq.client.consumer.DefaultLitePullConsumer(unique_name("java"))
    consumer.setNamesrvAddr(namesrv_addr)
    consumer.setConsumeFromWhere(java.org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(topic, "*")
    consumer.start()
    found: list[dict[str, Any]] = []
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            received = [_read(message) for message in consumer.poll(500).toArray()]
            found += received
            deadline = time.monotonic() + TIMEOUT_S if received else deadline
    finally:
        consumer.shutdown()
    return found


def _read(message: Any) -> dict[str, Any]:
    stored = message.getProperties()
    properties = {name: stored.get(name) for name in stored.keySet().toArray() if name not in ADDED_ON_THE_WAY}
    return {
        "msgId": message.getMsgId(),
        "body": bytes(message.getBody()),
        "tags": message.getTags(),
        "keys": message.getKeys(),
        "queueId": message.getQueueId(),
        "properties": properties,
    }
