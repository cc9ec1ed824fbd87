"""The settings of a topic. Source: ``common/TopicConfig.java``, ``common/attribute/TopicMessageType.java``,
``common/utils/CleanupPolicyUtils.java``."""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.remoting.typed import Object, as_text, table

FIFO: Final = "FIFO"
_NORMAL: Final = "NORMAL"
_MESSAGE_TYPE: Final = "message.type"
_CLEANUP_POLICY: Final = "cleanup.policy"
_DELETE: Final = "DELETE"
_COMPACTION: Final = "COMPACTION"


class TopicSettings(NamedTuple):
    """Of which type the topic's messages are, such as FIFO, NORMAL if nobody has said; and whether it is compacted:
    then it keeps the last message of each key, and none without keys."""

    message_type: str
    keeps_last_of_key: bool


def decode_topic_settings(body: bytes | memoryview) -> TopicSettings:
    """Answer to GET_TOPIC_CONFIG."""
    return decode_body("topic settings", body, _settings)


def _settings(topic: Object) -> TopicSettings:
    attributes = table(topic, "attributes") if topic.get("attributes") is not None else {}
    message_type = as_text(attributes.get(_MESSAGE_TYPE, _NORMAL), _MESSAGE_TYPE)
    policy = as_text(attributes.get(_CLEANUP_POLICY, _DELETE), _CLEANUP_POLICY)
    return TopicSettings(message_type, keeps_last_of_key=policy == _COMPACTION)
