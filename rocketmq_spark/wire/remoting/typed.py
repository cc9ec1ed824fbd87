"""Typed access to parsed bodies. Every function raises ValueError, with the name, for a missing or wrongly typed
value."""

from __future__ import annotations

import reprlib
from typing import Final, TypeVar

T = TypeVar("T")

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Object = dict[object, object]


def as_object(value: object, name: str) -> Object:
    """Return ``value`` if it is a dict, or the dict that an ``ObjectKey`` represents. Raises ValueError, with ``name``,
    for another value."""
    return dict(value) if type(value) is tuple else _expect(dict, value, name)


def as_text(value: object, name: str) -> str:
    """Return ``value`` if it is a string. Raises ValueError, with ``name``, for another value."""
    return _expect(str, value, name)


def as_int64(value: object, name: str) -> int:
    """Return ``value`` if it is an integer, and no bool, of at most 64 bits, signed. Raises ValueError, with ``name``,
    for another value."""
    number = _expect(int, value, name)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"{name} has more than 64 bits")
    return number


def table(entry: Object, name: str) -> Object:
    """Return the object in field ``name``. Raises ValueError, with ``name``, if it is missing or of another type."""
    return as_object(entry.get(name), name)


def text(entry: Object, name: str) -> str:
    """Return the string in field ``name``. Raises ValueError if it is missing or of another type."""
    return as_text(entry.get(name), name)


def int64(entry: Object, name: str) -> int:
    """Return the integer in field ``name``. Raises ValueError if it is missing, of another type, or exceeds 64 bits."""
    return as_int64(entry.get(name), name)


def flag(entry: Object, name: str) -> bool:
    """Return the boolean in field ``name``. Raises ValueError if it is missing or of another type."""
    return _expect(bool, entry.get(name), name)


def array(entry: Object, name: str) -> list[object]:
    """Return the array in field ``name``. Raises ValueError if it is missing or of another type."""
    return _expect(list, entry.get(name), name)


def texts(entry: Object, name: str) -> list[str]:
    """Return the array of strings in field ``name``. Raises ValueError if it is missing or of another type."""
    return [as_text(value, name) for value in array(entry, name)]


def objects(entry: Object, name: str) -> list[Object]:
    """Return the array of objects in field ``name``. Raises ValueError, with ``name``, if it is missing, or it or an
    element is of another type."""
    return [as_object(value, name) for value in array(entry, name)]


def _expect(kind: type[T], value: object, name: str) -> T:
    """Return ``value`` if its type is exactly ``kind``. Raises ValueError, with ``name``, otherwise."""
    if type(value) is not kind:
        raise ValueError(f"{name} is {reprlib.repr(value)}, not of type {kind.__name__}")
    return value
