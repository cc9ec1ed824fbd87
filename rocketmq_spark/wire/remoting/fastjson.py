"""The JSON dialect of RocketMQ's bodies (fastjson): keys of objects may be integers and whole objects.

    {"brokerAddrs":{0:"10.0.0.1:10911"}}
    {"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}

The standard library's scanner reads each value that is standard JSON; this module reads only the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from rocketmq_spark.errors import LocalProtocolError, RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.bounds import BODY_BYTES, BODY_DEPTH, BODY_VALUES, check_values

MAX_DEPTH: Final = BODY_DEPTH.maximum
"""Maximum nesting of objects and arrays that are not themselves standard JSON."""

ObjectKey = tuple[tuple[str, object], ...]
"""An object that is a key: its items."""

STANDARD_ATTEMPTS: Final = 256
"""Maximum number of values that are given to the standard library and are not standard JSON. Its error
counts the lines before the position, so without a limit time would grow with the square of the body."""

_scan_json: Final = json.JSONDecoder().raw_decode
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_skip_blanks: Final = re.compile(r"[ \t\r\n]*").match
_has_surrogate: Final = re.compile(r"\\u[dD][89a-fA-F]").search
_starts_other: Final = re.compile(r"\{[ \t\r\n]*[^\"}]").match
"""Matches an object whose first key is not one of standard JSON."""


def parse_fastjson(body: bytes | memoryview, subject: str) -> object:
    """Parse the one value in ``body``, in UTF-8. Keys that are objects become ``ObjectKey``, integer keys stay
    integers. ``subject``: name of the body, for errors.

    Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY] for invalid text, an escaped lone surrogate, and more than
    BODY_BYTES, BODY_VALUES or BODY_DEPTH allow.
    """
    try:
        BODY_BYTES.check(len(body))
        text = str(body, "utf-8")
        check_values(text, BODY_VALUES)
        value = _Reader(text).read_all()
        if _has_surrogate(text) is not None:
            _check_texts(value)
        return value
    except ValueError as error:
        raise RemoteProtocolError("MALFORMED_RESPONSE.BODY", subject=subject, problem=str(error)) from error


def _check_texts(value: object) -> None:
    """Raise UnicodeEncodeError, a ValueError, if ``value`` has a text that no request, row or file can have: one with
    half of a surrogate pair. Else do nothing."""
    unchecked = [value]
    while unchecked:
        match unchecked.pop():
            case str() as text:
                text.encode()
            case dict() as entries:
                unchecked += [*entries, *entries.values()]
            case list() | tuple() as values:
                unchecked += values


class _Reader:
    """Recursive parser of the value in ``text``, for ``parse_fastjson``. Methods return the parsed value and the
    position after it. Not thread-safe."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._attempts_left = STANDARD_ATTEMPTS

    def read_all(self) -> object:
        """Parse the text as one value. Raises ValueError, also for text after it."""
        value, end = self._value(0, MAX_DEPTH)
        if self._next(end) != len(self._text):
            raise self._unexpected(end)
        return value

    def _next(self, position: int) -> int:
        """Return the first position from ``position`` on that has no blank; the text's length if there is none."""
        match = _skip_blanks(self._text, position)
        assert match is not None
        return match.end()

    def _unexpected(self, position: int) -> ValueError:
        """Return, not raise, the error for the text at ``position``, with its next 20 characters."""
        seen = self._text[position : position + 20] or "end"
        return ValueError(f"unexpected {seen!r} at character {position} of {len(self._text)}")

    def _value(self, position: int, depth: int) -> tuple[object, int]:
        """Read the value that begins at ``position``, after optional blanks: with the standard library if it is
        standard JSON, until STANDARD_ATTEMPTS values were not. ``depth``: number of further levels of other objects and
        arrays that are accepted. Raises ValueError, also beyond ``depth``."""
        begin = self._next(position)
        is_container = self._text[begin : begin + 1] in ("{", "[")
        if not is_container or (self._attempts_left > 0 and _starts_other(self._text, begin) is None):
            try:
                return _scan_json(self._text, begin)
            except (ValueError, RecursionError):
                self._attempts_left -= 1
        if not is_container or depth <= 0:
            raise self._unexpected(begin)
        return self._object(begin + 1, depth - 1) if self._text[begin] == "{" else self._array(begin + 1, depth - 1)

    def _object(self, position: int, depth: int) -> tuple[dict[object, object], int]:
        """Read an object as a dict. ``position`` is after its opening brace, the returned position after the closing
        one. Of a repeated key the last value counts. Raises ValueError."""
        entries: dict[object, object] = {}
        if self._text.startswith("}", self._next(position)):
            return entries, self._next(position) + 1
        while True:
            key, position = self._key(self._next(position), depth)
            entries[key], position = self._value(self._after(":", position), depth)
            position = self._next(position)
            if self._text.startswith("}", position):
                return entries, position + 1
            position = self._after(",", position)

    def _array(self, position: int, depth: int) -> tuple[list[object], int]:
        """Read an array. ``position`` is after its opening bracket, the returned position after the closing one. Raises
        ValueError, also for an extra comma."""
        values: list[object] = []
        if self._text.startswith("]", self._next(position)):
            return values, self._next(position) + 1
        while True:
            value, position = self._value(position, depth)
            values.append(value)
            position = self._next(position)
            if self._text.startswith("]", position):
                return values, position + 1
            position = self._after(",", position)

    def _key(self, position: int, depth: int) -> tuple[str | int | ObjectKey, int]:
        """Read the key at ``position``: a text, an integer, or an object as a tuple of its items. Raises ValueError for
        another value, also for an object that contains objects or arrays."""
        key, end = self._value(position, depth)
        if isinstance(key, dict) and not any(isinstance(value, (dict, list)) for value in key.values()):
            return tuple(key.items()), end
        if isinstance(key, (str, int)) and not isinstance(key, bool):
            return key, end
        raise self._unexpected(position)

    def _after(self, mark: str, position: int) -> int:
        """Skip blanks and ``mark``; return the position after ``mark``. Raises ValueError if it is missing."""
        position = self._next(position)
        if not self._text.startswith(mark, position):
            raise self._unexpected(position)
        return position + 1


# ---------------------------------------------------------------------------------------------------- writing


def write_fastjson(value: object) -> bytes:
    """Encode ``value`` as fastjson does, in UTF-8. Message queues may be values and keys. Keys are not converted to
    text. Raises LocalProtocolError[INVALID_MESSAGE] for text that is not valid Unicode, TypeError for a value that JSON
    does not have."""
    try:
        return _write(value).encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError("INVALID_MESSAGE", problem=f"a text in a body holds {error}") from error


def _write(value: object) -> str:
    """Return ``value`` as fastjson text; a MessageQueue as an object, also as a key. Raises TypeError for a value that
    JSON does not have."""
    match value:
        case Mapping():
            return "{" + ",".join(f"{_write(key)}:{_write(entry)}" for key, entry in value.items()) + "}"
        case MessageQueue(topic, broker_name, queue_id):
            return _to_json({"brokerName": broker_name, "queueId": queue_id, "topic": topic})
        case list() | tuple():
            return "[" + ",".join(map(_write, value)) + "]"
    return _to_json(value)
