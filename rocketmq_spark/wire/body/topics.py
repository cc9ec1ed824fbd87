"""Settings and statistics of topics: queue bounds, and the progress of groups.

Source: ``common/TopicConfig.java``, ``common/attribute/TopicMessageType.java``,
``common/utils/CleanupPolicyUtils.java``, ``remoting/protocol/admin/TopicStatsTable.java``,
``remoting/protocol/admin/ConsumeStats.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.body.decoding import by_queue, decode_body
from rocketmq_spark.wire.remoting.typed import Object, as_object, as_text, int64, table, texts

FIFO: Final = "FIFO"
_NORMAL: Final = "NORMAL"
_MESSAGE_TYPE: Final = "message.type"
_CLEANUP_POLICY: Final = "cleanup.policy"
_DELETE: Final = "DELETE"
_COMPACTION: Final = "COMPACTION"
_QUEUE_TYPE: Final = "queue.type"
_BATCH_QUEUE: Final = "BatchCQ"


class TopicSettings(NamedTuple):
    """Message type of the topic, such as FIFO; NORMAL if unset. A compacted topic keeps the last message of each key,
    and none without keys. Batch consume queues have one entry for a batch of messages."""

    message_type: str
    keeps_last_of_key: bool
    has_batch_queues: bool = False


def decode_topic_settings(body: bytes | memoryview) -> TopicSettings:
    """Decode the settings in the response to GET_TOPIC_CONFIG; unset ones have their defaults. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("topic settings", body, _settings)


def _settings(topic: Object) -> TopicSettings:
    """Return the settings of a topic from its attributes; unset, they are NORMAL, not compacted, and without batch
    consume queues. Raises ValueError for an attribute that is not text."""
    attributes = table(topic, "attributes") if topic.get("attributes") is not None else {}
    message_type = as_text(attributes.get(_MESSAGE_TYPE, _NORMAL), _MESSAGE_TYPE)
    policy = as_text(attributes.get(_CLEANUP_POLICY, _DELETE), _CLEANUP_POLICY)
    queue_type = as_text(attributes.get(_QUEUE_TYPE, ""), _QUEUE_TYPE)
    return TopicSettings(message_type, policy == _COMPACTION, queue_type == _BATCH_QUEUE)


def decode_topic_names(body: bytes | memoryview) -> list[str]:
    """Decode the response to GET_ALL_TOPIC_LIST_FROM_NAMESERVER: all topics in the server's order, system topics
    included. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]. Source: ``remoting/protocol/body/TopicList.java``."""
    return decode_body("topic list", body, lambda topics: texts(topics, "topicList"))


@dataclass(frozen=True, slots=True)
class ConsumeProgress:
    """Progress of a group in one queue. Source: ``remoting/protocol/admin/OffsetWrapper.java``.

    ``broker_offset``: the queue's max offset. ``consumer_offset``: the group's committed offset, also 0 without one.
    ``last_timestamp_ms``: store time of the message before ``consumer_offset``, 0 if the message is deleted.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int | None
    last_timestamp_ms: int


def decode_topic_stats(body: bytes | memoryview) -> dict[MessageQueue, QueueBounds]:
    """Decode the response to GET_TOPIC_STATS_INFO: bounds of one broker's queues, up to the larger of read and write
    queue count. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("topic stats", body, lambda stats: by_queue(stats, "offsetTable", _queue_bounds))


def decode_consume_stats(body: bytes | memoryview) -> dict[MessageQueue, ConsumeProgress]:
    """Decode the response to GET_CONSUME_STATS: a group's progress by queue of one broker. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("consume stats", body, lambda stats: by_queue(stats, "offsetTable", _consume_progress))


def _queue_bounds(value: object, name: str) -> QueueBounds:
    """Return a queue's bounds; the store time is 0 if the last message is deleted. Raises ValueError for a missing or
    wrongly typed field."""
    entry = as_object(value, name)
    stored_ms = max(0, int64(entry, "lastUpdateTimestamp"))  # -1 if the last message is deleted
    return QueueBounds(int64(entry, "minOffset"), int64(entry, "maxOffset"), stored_ms)


def _consume_progress(value: object, name: str) -> ConsumeProgress:
    """Return a group's progress in one queue; ``pull_offset`` is None if it is missing. Raises ValueError for any other
    missing or wrongly typed field."""
    entry = as_object(value, name)
    return ConsumeProgress(
        broker_offset=int64(entry, "brokerOffset"),
        consumer_offset=int64(entry, "consumerOffset"),
        pull_offset=int64(entry, "pullOffset") if "pullOffset" in entry else None,
        last_timestamp_ms=int64(entry, "lastTimestamp"),
    )
