"""The columns that a row may have which is to be sent: by name, in any order and any case. Others are an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rocketmq_spark.errors import OptionError

BODY: Final = "body"
TOPIC: Final = "topic"
TAGS: Final = "tags"
KEYS: Final = "keys"
PROPERTIES: Final = "properties"


@dataclass(frozen=True, slots=True)
class SinkColumn:
    """One row of the table. ``types`` in Spark's words."""

    types: tuple[str, ...]
    doc: str
    alias: str | None = None


SINK_COLUMNS: Final[Mapping[str, SinkColumn]] = MappingProxyType(
    {
        BODY: SinkColumn(("binary", "string"), "The message's body; text is sent in UTF-8.", alias="value"),
        TOPIC: SinkColumn(("string",), "Where it is sent. Option `topic` wins over it."),
        TAGS: SinkColumn(("string",), "Its tag."),
        KEYS: SinkColumn(("string", "array<string>"), "Its keys; several are separated by spaces.", alias="key"),
        PROPERTIES: SinkColumn(
            ("map<string,string>",), "More properties, of any names but those that RocketMQ has taken for itself."
        ),
    }
)

_BY_SPELLING: Final = {
    spelling: name
    for name, column in SINK_COLUMNS.items()
    for spelling in (name.lower(), column.alias)
    if spelling is not None
}


def resolve_columns(fields: Iterable[tuple[str, str]], *, has_topic: bool) -> dict[str, int]:
    """Where each column of ``SINK_COLUMNS`` stands that a schema has, given its names and Spark types in order.

    Raises OptionError[UNKNOWN_COLUMN | UNWRITABLE_COLUMN | SAME_COLUMNS | NOTHING_TO_SEND]; the last also where there
    is neither a topic column nor option ``topic`` (``has_topic``).
    """
    spelt: dict[str, str] = {}
    positions: dict[str, int] = {}
    given = list(fields)
    unknown = [name for name, _ in given if name.lower() not in _BY_SPELLING]
    if unknown:
        raise OptionError("UNKNOWN_COLUMN", columns=", ".join(unknown), available=available())
    for position, (spelling, given_type) in enumerate(given):
        name = _BY_SPELLING[spelling.lower()]
        if name in positions:
            raise OptionError("SAME_COLUMNS", first=spelt[name], second=spelling, meaning=name)
        _check_type(name, spelling, given_type)
        spelt[name], positions[name] = spelling, position
    if BODY not in positions:
        raise OptionError("NOTHING_TO_SEND", missing="a column 'body'", available=available())
    if TOPIC not in positions and not has_topic:
        raise OptionError("NOTHING_TO_SEND", missing="a column 'topic' or option 'topic'", available=available())
    return positions


def _check_type(name: str, spelling: str, given: str) -> None:
    expected = SINK_COLUMNS[name].types
    if given not in expected:
        raise OptionError(
            "UNWRITABLE_COLUMN",
            column=spelling,
            given=given.upper(),
            expected=_listed(expected),
            available=available(),
        )


def available() -> str:
    """All columns with their types, for an error."""
    return ", ".join(f"{_spellings(name)} {_listed(column.types)}" for name, column in SINK_COLUMNS.items())


def _spellings(name: str) -> str:
    alias = SINK_COLUMNS[name].alias
    return name if alias is None else f"{name} (or {alias})"


def _listed(types: Iterable[str]) -> str:
    return " or ".join(one.upper() for one in types)
