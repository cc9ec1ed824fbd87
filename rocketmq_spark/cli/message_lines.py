"""Messages as commands print and repeat them. Pure."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any, Final

from rocketmq_spark.condition import cut, one_line
from rocketmq_spark.model import RESERVED_PROPERTIES, RETRY_TOPIC_PREFIX, Message, MessageExt

DEAD_LETTER_ORIGIN: Final = "DLQ_ORIGIN_TOPIC"
RETRY_ORIGIN: Final = "RETRY_TOPIC"


def text_line(message: MessageExt) -> str:
    """Return store time, topic, queue and offset, message ID, tags, keys and body on one line; tags and keys only if
    there are any. A body that is not in UTF-8 is in base64; long values are cut."""
    body = _text_or_none(message.body)
    parts = {
        "tags": message.tags,
        "keys": message.keys,
        "base64" if body is None else "body": base64.b64encode(message.body).decode() if body is None else body,
    }
    place = f"{message.topic}@{message.broker_name}:{message.queue_id} offset {message.queue_offset}"
    shown = (f"{name}={one_line(cut(value))}" for name, value in parts.items() if value is not None)
    return " ".join((_time_text(message.store_timestamp_ms), one_line(place), one_line(message.msg_id), *shown))


def json_line(message: MessageExt) -> str:
    """Return the message as a JSON object on one line, uncut: ``body`` as text, or ``bodyBase64`` if it is not in
    UTF-8."""
    body = _text_or_none(message.body)
    fields: dict[str, Any] = {
        "topic": message.topic,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.msg_id,
        "storeTimestamp": _time_text(message.store_timestamp_ms),
        "tags": message.tags,
        "keys": message.keys,
        "properties": dict(message.properties),
    }
    content = {"bodyBase64": base64.b64encode(message.body).decode()} if body is None else {"body": body}
    return json.dumps(fields | content)


def origin_topic(message: MessageExt) -> str | None:
    """Return the topic to which a dead letter was first sent; None if the message names none, or a retry topic."""
    properties = message.properties
    topic = properties.get(RETRY_ORIGIN) or properties.get(DEAD_LETTER_ORIGIN)
    return None if topic is None or topic.startswith(RETRY_TOPIC_PREFIX) else topic


def redriven(message: MessageExt, topic: str) -> Message:
    """Return a new message for ``topic`` with body, tags, keys, flag and user properties of a dead letter, and without
    RocketMQ's own properties, among them its message ID and its number of retries."""
    properties = {name: value for name, value in message.properties.items() if name not in RESERVED_PROPERTIES}
    return Message(topic, message.body, message.tags, message.keys, properties, message.flag)


def _text_or_none(body: bytes) -> str | None:
    """Return the body as text; None if it is not in UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _time_text(time_ms: int) -> str:
    """Return a time (Unix ms) in ISO 8601, in UTC with milliseconds; the number as text if it is outside of the range
    of dates."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
