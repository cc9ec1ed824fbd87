"""Decoding of JSON bodies, and their common elements.

Bodies are the JSON of requests and responses other than messages. Every ``decode_`` raises
RemoteProtocolError[MALFORMED_RESPONSE.BODY]. Every ``encode_`` raises LocalProtocolError[INVALID_MESSAGE], except in
``batch_ack``; it writes fields in the order of their names, sets in a fixed order. Functions that read a part of a body
raise ValueError, which ``decode_body`` converts.

Source: ``remoting/protocol/body/*.java`` and its neighbours ``route``, ``admin``, ``heartbeat``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.bounds import QUEUE_ID
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson
from rocketmq_spark.wire.remoting.typed import Object, as_object, int64, table, text

T = TypeVar("T")


def decode_body(subject: str, body: bytes | memoryview, build: Callable[[Object], T]) -> T:
    """Parse ``body`` as a JSON object of RocketMQ's dialect, and return the result of ``build`` with it.

    Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY], which calls the body ``subject``, for invalid JSON, for a value
    that is no object, and instead of a ValueError of ``build``.
    """
    value = parse_fastjson(body, subject)
    try:
        return build(as_object(value, "it"))
    except ValueError as error:
        raise RemoteProtocolError("MALFORMED_RESPONSE.BODY", subject=subject, problem=str(error)) from error


def by_queue(entry: Object, name: str, read: Callable[[object, str], T]) -> dict[MessageQueue, T]:
    """Return the object in field ``name`` as a dict by queue. Its keys are queues, as objects or as texts of objects;
    ``read(value, name)`` converts each value. Raises ValueError if the field is missing or a key is no queue, and the
    errors of ``read``. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY] for a text that begins with ``{`` and cannot
    be parsed."""
    rows = table(entry, name).items()
    return {message_queue(as_object(_key(key), "a key of " + name)): read(value, name) for key, value in rows}


def _key(key: object) -> object:
    """Return the object in a key that is a text beginning with ``{``: standard JSON allows only texts as keys. Return
    any other key unchanged. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY] for a text that cannot be parsed."""
    if isinstance(key, str) and key.startswith("{"):
        return parse_fastjson(key.encode(), "key")
    return key


def message_queue(entry: Object) -> MessageQueue:
    """Return the queue that an object of a body describes. Raises ValueError for a missing or wrongly typed field, and
    for an ID that is negative or above QUEUE_ID."""
    queue = MessageQueue(text(entry, "topic"), text(entry, "brokerName"), int64(entry, "queueId"))
    QUEUE_ID.check(queue.queue_id)
    return queue
