"""What brokers count: the bounds of queues, and how far groups are in them.

Source: ``remoting/protocol/admin/TopicStatsTable.java``, ``remoting/protocol/admin/ConsumeStats.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.body.decoding import by_queue, decode_body
from rocketmq_spark.wire.remoting.typed import as_object, int64


@dataclass(frozen=True, slots=True)
class ConsumeProgress:
    """How far a group is in one queue. Source: ``remoting/protocol/admin/OffsetWrapper.java``.

    ``broker_offset`` is the queue's max offset; ``consumer_offset`` is also 0 where the group has none.
    ``last_timestamp_ms``: when the message before ``consumer_offset`` was stored, 0 if that is gone.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int | None
    last_timestamp_ms: int


def decode_topic_stats(body: bytes | memoryview) -> dict[MessageQueue, QueueBounds]:
    """Answer to GET_TOPIC_STATS_INFO: the queues of one broker, for the larger of read and write queue count."""
    return decode_body("topic stats", body, lambda stats: by_queue(stats, "offsetTable", _queue_bounds))


def decode_consume_stats(body: bytes | memoryview) -> dict[MessageQueue, ConsumeProgress]:
    """Answer to GET_CONSUME_STATS."""
    return decode_body("consume stats", body, lambda stats: by_queue(stats, "offsetTable", _consume_progress))


def _queue_bounds(value: object, name: str) -> QueueBounds:
    entry = as_object(value, name)
    stored_ms = max(0, int64(entry, "lastUpdateTimestamp"))  # a broker says -1 when the last message is gone
    return QueueBounds(int64(entry, "minOffset"), int64(entry, "maxOffset"), stored_ms)


def _consume_progress(value: object, name: str) -> ConsumeProgress:
    entry = as_object(value, name)
    return ConsumeProgress(
        broker_offset=int64(entry, "brokerOffset"),
        consumer_offset=int64(entry, "consumerOffset"),
        pull_offset=int64(entry, "pullOffset") if "pullOffset" in entry else None,
        last_timestamp_ms=int64(entry, "lastTimestamp"),
    )
