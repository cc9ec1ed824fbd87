"""The settings of a topic. Source: ``common/TopicConfig.java``, ``common/attribute/TopicMessageType.java``."""

from __future__ import annotations

from typing import Final

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.remoting.typed import Object, as_text, table

FIFO: Final = "FIFO"
_NORMAL: Final = "NORMAL"
_MESSAGE_TYPE: Final = "message.type"


def decode_message_type(body: bytes | memoryview) -> str:
    """Answer to GET_TOPIC_CONFIG: of which type the topic's messages are, such as FIFO; NORMAL if nobody has said."""
    return decode_body("topic settings", body, _message_type)


def _message_type(topic: Object) -> str:
    attributes = table(topic, "attributes") if topic.get("attributes") is not None else {}
    return as_text(attributes.get(_MESSAGE_TYPE, _NORMAL), _MESSAGE_TYPE)
