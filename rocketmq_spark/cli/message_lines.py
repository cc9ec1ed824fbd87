"""Messages as commands print them. Pure."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any, TypeAlias

from rocketmq_spark.condition import cut, one_line
from rocketmq_spark.model import MessageExt
from rocketmq_spark.source.dead_letter import PROBLEM
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage

StoredMessage: TypeAlias = MessageExt | UndecodableMessage


def message_of(stored: StoredMessage) -> MessageExt:
    """Return the message; an undecodable one has body and sysFlag as stored."""
    return stored.message if isinstance(stored, UndecodableMessage) else stored


def text_line(stored: StoredMessage, target: str | None = None) -> str:
    """Return store time, place, ``target`` unless it is None, message ID, tags and keys, if there are any, and body on
    one line. A binary body is in base64. Target, tags, keys and body are cut after 200 characters. An undecodable
    message has its problem instead of the body, a dead letter of ``badMessages`` before the body."""
    message = message_of(stored)
    parts = {"tags": message.tags, "keys": message.keys, "badMessage": message.properties.get(PROBLEM)}
    if isinstance(stored, UndecodableMessage):
        parts["undecodable"] = stored.problem
    elif (body := _text_or_none(message.body)) is not None:
        parts["body"] = body
    else:
        parts["base64"] = base64.b64encode(message.body).decode()
    shown = (f"{name}={one_line(cut(value))}" for name, value in parts.items() if value is not None)
    targets = () if target is None else (f"target={one_line(cut(target))}",)  # before all other text of producers
    time_text = _time_text(message.store_timestamp_ms)
    return " ".join((time_text, place_text(message), *targets, one_line(message.msg_id), *shown))


def place_text(message: MessageExt) -> str:
    """Return ``TOPIC@BROKER:QUEUE offset OFFSET`` on one line."""
    return one_line(f"{message.topic}@{message.broker_name}:{message.queue_id} offset {message.queue_offset}")


def json_line(stored: StoredMessage) -> str:
    """Return the message as a JSON object on one line: ``body`` as text, or ``bodyBase64`` if it is not in UTF-8. An
    undecodable message has ``problem``, and its body as stored in ``storedBodyBase64``."""
    message = message_of(stored)
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
    return json.dumps(fields | _body_fields(stored))


def _body_fields(stored: StoredMessage) -> dict[str, str]:
    """Return ``body`` as text, or ``bodyBase64`` if it is not in UTF-8; of an undecodable message ``problem`` and
    ``storedBodyBase64``."""
    if isinstance(stored, UndecodableMessage):
        return {"problem": stored.problem, "storedBodyBase64": base64.b64encode(stored.message.body).decode()}
    if (body := _text_or_none(stored.body)) is not None:
        return {"body": body}
    return {"bodyBase64": base64.b64encode(stored.body).decode()}


def _text_or_none(body: bytes) -> str | None:
    """Return the body as text, or None if it is not in UTF-8."""
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
