"""The JSON of RocketMQ's bodies, which is not quite JSON: integers and whole objects serve as keys of objects.

    {"brokerAddrs":{0:"10.0.0.1:10911"}}
    {"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}

What is standard JSON goes through the standard library's scanner, value by value; only what is around it is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from rocketmq_spark.errors import LocalProtocolError, RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.bounds import BODY_BYTES, BODY_DEPTH, BODY_VALUES, check_values

MAX_DEPTH: Final = BODY_DEPTH.most
"""Of objects and arrays that are not standard JSON themselves."""

ObjectKey = tuple[tuple[str, object], ...]
"""An object that serves as a key: its items."""

_scan_json: Final = json.JSONDecoder().raw_decode
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_skip_blanks: Final = re.compile(r"[ \t\r\n]*").match


def parse_fastjson(body: bytes | memoryview, subject: str) -> object:
    """The value in ``body``. Object keys become ``ObjectKey``, integer keys stay integers.

    Raises RemoteProtocolError[BAD_BODY], which calls the body that of a ``subject``.
    """
    try:
        BODY_BYTES.check(len(body))
        text = str(body, "utf-8")
        check_values(text, BODY_VALUES)
        value, end = _value(text, 0, MAX_DEPTH)
        if _next(text, end) != len(text):
            raise _unexpected(text, end)
    except ValueError as error:
        raise RemoteProtocolError("BAD_BODY", subject=subject, problem=str(error)) from error
    return value


def _next(text: str, position: int) -> int:
    """The position of the next character that is no blank."""
    match = _skip_blanks(text, position)
    assert match is not None
    return match.end()


def _unexpected(text: str, position: int) -> ValueError:
    return ValueError(f"unexpected {text[position : position + 20] or 'end'!r} at character {position} of {len(text)}")


def _value(text: str, position: int, depth: int) -> tuple[object, int]:
    """The value that begins at ``position``, blanks allowed, and the position behind it."""
    begin = _next(text, position)
    try:
        return _scan_json(text, begin)
    except (ValueError, RecursionError):
        if depth <= 0 or text[begin : begin + 1] not in ("{", "["):
            raise _unexpected(text, begin) from None
    if text[begin] == "{":
        return _object(text, begin + 1, depth - 1)
    return _array(text, begin + 1, depth - 1)


def _object(text: str, position: int, depth: int) -> tuple[dict[object, object], int]:
    """``position`` is behind the brace; so is the one returned."""
    entries: dict[object, object] = {}
    while True:
        key, position = _key(text, _next(text, position), depth)
        entries[key], position = _value(text, _after(":", text, position), depth)
        position = _next(text, position)
        if text.startswith("}", position):
            return entries, position + 1
        position = _after(",", text, position)


def _array(text: str, position: int, depth: int) -> tuple[list[object], int]:
    """``position`` is behind the bracket; so is the one returned."""
    values: list[object] = []
    while True:
        value, position = _value(text, position, depth)
        values.append(value)
        position = _next(text, position)
        if text.startswith("]", position):
            return values, position + 1
        position = _after(",", text, position)


def _key(text: str, position: int, depth: int) -> tuple[str | int | ObjectKey, int]:
    key, end = _value(text, position, depth)
    if isinstance(key, dict) and not any(isinstance(value, (dict, list)) for value in key.values()):
        return tuple(key.items()), end
    if isinstance(key, (str, int)):
        return key, end
    raise _unexpected(text, position)


def _after(mark: str, text: str, position: int) -> int:
    position = _next(text, position)
    if not text.startswith(mark, position):
        raise _unexpected(text, position)
    return position + 1


# ---------------------------------------------------------------------------------------------------- writing


def write_fastjson(value: object) -> bytes:
    """``value`` as fastjson writes it; message queues may be values and keys. Raises LocalProtocolError[UNSENDABLE]."""
    try:
        return _write(value).encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError("UNSENDABLE", problem=f"a text in a body holds {error}") from error


def _write(value: object) -> str:
    match value:
        case Mapping():
            return "{" + ",".join(f"{_write(key)}:{_write(entry)}" for key, entry in value.items()) + "}"
        case MessageQueue(topic, broker_name, queue_id):
            return _to_json({"brokerName": broker_name, "queueId": queue_id, "topic": topic})
        case list() | tuple():
            return "[" + ",".join(map(_write, value)) + "]"
    return _to_json(value)
