"""Messages of ``rocketmq_spark.send``: each gets an ID, and all are checked before the first is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import RESERVED_PROPERTIES, Message
from rocketmq_spark.wire.message.batch import message_properties
from rocketmq_spark.wire.message.properties import UNIQ_KEY, encode_properties

Body = str | bytes | bytearray | memoryview


def outgoing_messages(
    topic: str,
    bodies: Body | Iterable[Body],
    *,
    tags: str | None,
    keys: str | Sequence[str] | None,
    properties: Mapping[str, str],
    next_id: Callable[[], str],
) -> Iterator[Message]:
    """Yield a message for each body, with the same tags and properties and a new ID of ``next_id``. ``keys``: one text
    for all messages, or an ordered iterable with one for each.

    A generator: nothing is checked before its first step, which reads all bodies. This step raises
    LocalProtocolError[INVALID_MESSAGE] for arguments of other types, for another number of keys than of bodies, and for
    properties reserved by RocketMQ. A body that is empty or neither text nor bytes raises it at its own message, after
    the previous ones are yielded, and so does a body or properties that cannot be encoded.
    """
    each_body = _each_body(bodies)
    each_keys = [keys] * len(each_body) if keys is None or isinstance(keys, str) else _each_keys(keys)
    if len(each_keys) != len(each_body):
        raise _invalid_message(f"{len(each_keys)} keys were given for {len(each_body)} messages")
    if not isinstance(properties, Mapping):
        raise _invalid_message(f"properties are a mapping, and not {type(properties).__name__}")
    for name in properties:
        if name in RESERVED_PROPERTIES:
            raise _invalid_message(f"property {name!r} is RocketMQ's own; pass tags and keys as arguments")
    for body, own_keys in zip(each_body, each_keys, strict=True):
        data = _encoded(body)
        if not data:
            raise _invalid_message("a body is empty, and brokers reject it")
        message = Message(topic, data, tags, own_keys, {**properties, UNIQ_KEY: next_id()})
        encode_properties(message_properties(message))
        yield message


def _each_body(bodies: Body | Iterable[Body]) -> list[Body]:
    """Return the bodies as a list. A single body becomes a list of one; an iterable is consumed. Raises
    LocalProtocolError[INVALID_MESSAGE] for any other value."""
    if isinstance(bodies, Body):
        return [bodies]
    if not isinstance(bodies, Iterable):
        raise _invalid_message(f"messages are one body or several, and not {type(bodies).__name__}")
    return list(bodies)


def _each_keys(keys: Iterable[str]) -> list[str]:
    """Return ``keys``, one for each message, as a list; their own types are not checked. Raises
    LocalProtocolError[INVALID_MESSAGE] for text, bytes, a mapping, a set, which has no order, and anything that is not
    iterable."""
    if not isinstance(keys, Iterable) or isinstance(keys, Body | Mapping | Set):
        raise _invalid_message(f"keys are text, or a sequence of one for each message, and not {type(keys).__name__}")
    return list(keys)


def _encoded(body: Body) -> bytes:
    """Return a body as bytes, text in UTF-8. Raises LocalProtocolError[INVALID_MESSAGE] for another type, or for text
    with lone surrogates."""
    if not isinstance(body, Body):
        raise _invalid_message(f"a body must be text or bytes, not {type(body).__name__}")
    if not isinstance(body, str):
        return bytes(body)
    try:
        return body.encode()
    except UnicodeEncodeError as error:
        raise _invalid_message(f"a body is no text: {error.reason}") from error


def message_id(message: Message) -> str:
    """Return the ID that ``outgoing_messages`` gave the message, which readers get as ``msgId``."""
    return message.properties[UNIQ_KEY]


def _invalid_message(problem: str) -> LocalProtocolError:
    return LocalProtocolError("INVALID_MESSAGE", problem=problem)
