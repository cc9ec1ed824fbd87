"""Conversion of headers to and from maps of texts, by one table for each class, built from its dataclass fields.

    @header
    class SearchOffsetRequest(Header):
        queue_id: int = wire("queueId")

Integers are sent as decimal text, booleans as ``true`` and ``false``; fields that are None are omitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, cast, dataclass_transform

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.typed import INT64_MAX, INT64_MIN

T = TypeVar("T", bound="Header")


class _Row(NamedTuple):
    attribute: str
    wire_name: str
    write: Callable[[Any], str]
    read: Callable[[str], object]
    is_required: bool


def wire(name: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that is named ``name`` on the wire. A field without ``default`` is required."""
    return dataclasses.field(default=default, metadata={"wire": name})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def header(cls: type[T]) -> type[T]:
    """Convert ``cls`` to a frozen keyword-only dataclass with slots, set its ``rows`` from the fields declared by
    ``wire``, and return it, a new class."""
    frozen: Any = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
    frozen.rows = tuple(map(_row, dataclasses.fields(frozen)))
    return cast(type[T], frozen)


class Header:
    """Base class of the headers of requests and responses: dataclasses that are sent as extFields, by the table
    ``rows``."""

    __slots__ = ()
    rows: ClassVar[tuple[_Row, ...]] = ()

    def to_fields(self) -> dict[str, str]:
        """Return the header as extFields, in the order of definition, without fields that are None."""
        fields = {}
        for attribute, name, write, _, _ in self.rows:
            value = getattr(self, attribute)
            if value is not None:
                fields[name] = write(value)
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Read the header from extFields. Unknown names are ignored, a missing optional field has its default.

        Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER] for a missing required field or an invalid value.
        """
        values = {}
        for attribute, name, _, read, is_required in cls.rows:
            if name in fields:
                try:
                    values[attribute] = read(fields[name])
                except ValueError as error:
                    raise _invalid_header(cls, f"'{name}' is {fields[name][:100]!r}") from error
            elif is_required:
                raise _invalid_header(cls, f"'{name}' is missing")
        return cls(**values)


def _invalid_header(cls: type[Header], problem: str) -> RemoteProtocolError:
    """Return, not raise, RemoteProtocolError[MALFORMED_RESPONSE.HEADER] with the name of ``cls``."""
    return RemoteProtocolError("MALFORMED_RESPONSE.HEADER", subject=cls.__name__, problem=problem)


def _read_int(text: str) -> int:
    """Parse a decimal integer as Python's ``int``. Raises ValueError for other text or more than 64 bits, signed."""
    value = int(text)
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError
    return value


def _write_bool(value: bool) -> str:
    return "true" if value else "false"


def _read_bool(text: str) -> bool:
    """Return True for "true" in any case, False for any other text. Source:
    ``java/lang/Boolean.java#parseBoolean``."""
    return text.lower() == "true"


_KINDS: Final[Mapping[str, tuple[Callable[[Any], str], Callable[[str], object]]]] = {
    "str": (str, str),
    "int": (int.__repr__, _read_int),
    "bool": (_write_bool, _read_bool),
}
"""By the type's name: evaluating the annotations of all headers would take 17 ms in each process."""


def _row(field: dataclasses.Field[Any]) -> _Row:
    """Return the table row of a field: its name here and on the wire, its conversions to and from text, and whether it
    is required. ``field.type`` is text, such as ``int | None``; its first type with a kind determines the conversions.
    Without such a type, raises StopIteration."""
    kind = next(kind for kind in str(field.type).split(" | ") if kind in _KINDS)
    write, read = _KINDS[kind]
    return _Row(field.name, field.metadata["wire"], write, read, field.default is dataclasses.MISSING)
