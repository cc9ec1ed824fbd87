"""Columns of rows to send, identified by name, in any order and any case. Other columns are an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rocketmq_spark.errors import OptionError

BODY: Final = "body"
TOPIC: Final = "topic"
TAGS: Final = "tags"
KEYS: Final = "keys"
PROPERTIES: Final = "properties"
BROKER_NAME: Final = "brokerName"
QUEUE_ID: Final = "queueId"
SHARDING_KEY: Final = "shardingKey"
DELAY_LEVEL: Final = "delayLevel"
DELAY_SECONDS: Final = "delaySeconds"
DELIVER_TIMESTAMP: Final = "deliverTimestamp"

_INTEGERS: Final = ("int", "bigint", "smallint", "tinyint")
_VOID: Final = "void"
"""Type of a column that is null in each row, such as ``NULL AS tags``."""
_LENGTH_OR_COLLATION: Final = re.compile(r"\b(?:var)?char\(\d+\)|\bstring collate [\w.]+")

HASHED_TYPES: Final = ("binary", "boolean", "date", "int", "bigint", "smallint", "string", "timestamp", "tinyint")
"""Column types supported for message IDs: each of their values has exactly one text."""


@dataclass(frozen=True, slots=True)
class SinkColumn:
    """One row of the table ``SINK_COLUMNS``. ``types``: names of Spark SQL types."""

    types: tuple[str, ...]
    doc: str
    alias: str | None = None


SINK_COLUMNS: Final[Mapping[str, SinkColumn]] = MappingProxyType(
    {
        BODY: SinkColumn(("binary", "string"), "Message body; a STRING is encoded as UTF-8.", alias="value"),
        TOPIC: SinkColumn(("string",), "Topic of the message. Option `topic` overrides it."),
        TAGS: SinkColumn(("string",), "Message tag."),
        KEYS: SinkColumn(
            ("string", "array<string>"),
            "Message keys. A STRING is split at spaces; in an ARRAY, no element may contain a space.",
            alias="key",
        ),
        PROPERTIES: SinkColumn(
            ("map<string,string>",), "Further message properties; names that RocketMQ reserves are not allowed."
        ),
        BROKER_NAME: SinkColumn(("string",), "Broker that stores the message; requires `queueId`."),
        QUEUE_ID: SinkColumn(
            _INTEGERS, "Queue on that broker; requires `brokerName`. Rows of one task for one queue keep their order."
        ),
        SHARDING_KEY: SinkColumn(
            ("string",),
            "Rows with the same value go to the same queue, those of one task in order; `queueId` overrides it. The "
            "queue is the one that `SelectMessageQueueByHash` of the Java client selects.",
        ),
        DELAY_LEVEL: SinkColumn(
            _INTEGERS,
            "Delay level of the delivery: by default 1 is 1 s and 3 is 10 s. A level above the broker's highest is "
            "treated as the highest.",
        ),
        DELAY_SECONDS: SinkColumn(
            _INTEGERS,
            "Delay of the delivery in seconds. Requires RocketMQ 5; older brokers deliver the message immediately.",
        ),
        DELIVER_TIMESTAMP: SinkColumn(
            ("timestamp",), "Time of the delivery. Requires RocketMQ 5; older brokers deliver the message immediately."
        ),
    }
)

_BY_SPELLING: Final = {
    spelling: name
    for name, column in SINK_COLUMNS.items()
    for spelling in (name.lower(), column.alias)
    if spelling is not None
}


def columns_and_ids(
    fields: Sequence[tuple[str, str]], *, has_topic: bool, id_columns: Sequence[str]
) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return the results of ``resolve_columns`` (positions of message columns by name) and ``id_positions`` (positions
    of ID columns), in this order, and raise their errors.

    ``id_positions`` is called first, because a misspelt ID column makes the intended one an unknown column.
    """
    positions = id_positions(fields, id_columns)
    return resolve_columns(fields, has_topic=has_topic, id_columns=id_columns), positions


def resolve_columns(
    fields: Sequence[tuple[str, str]], *, has_topic: bool, id_columns: Sequence[str] = ()
) -> dict[str, int]:
    """Return the position in ``fields`` of each column of ``SINK_COLUMNS`` that is there, by its name in that table.
    ``fields``: (name, Spark SQL type) of the rows' columns; names match in any case, and by alias. Columns in
    ``id_columns`` may have other names. ``has_topic``: option ``topic`` is set, so column ``topic`` is optional.

    Raises OptionError[UNSUPPORTED_SINK_COLUMN | UNSUPPORTED_SINK_COLUMN_TYPE | DUPLICATE_COLUMN_ALIAS]; type ``void``
    is supported except for ``body``. Raises OptionError[MISSING_SINK_COLUMN] without ``body`` or a topic, and for one
    of ``brokerName`` and ``queueId`` alone. Raises the errors of ``id_positions``.
    """
    id_column_positions = id_positions(fields, id_columns)
    extra = {position for position in id_column_positions if fields[position][0].lower() not in _BY_SPELLING}
    present = [(position, name, type_) for position, (name, type_) in enumerate(fields) if position not in extra]
    unknown = [name for _, name, _ in present if name.lower() not in _BY_SPELLING]
    if unknown:
        raise OptionError("UNSUPPORTED_SINK_COLUMN", columns=", ".join(unknown), available=available())
    spelt: dict[str, str] = {}
    positions: dict[str, int] = {}
    for position, spelling, actual_type in present:
        name = _BY_SPELLING[spelling.lower()]
        if name in positions:
            raise OptionError("DUPLICATE_COLUMN_ALIAS", first=spelt[name], second=spelling, column=name)
        if name == BODY or actual_type != _VOID:
            _check_type(spelling, actual_type, SINK_COLUMNS[name].types)
        spelt[name], positions[name] = spelling, position
    _check_complete(positions, has_topic)
    return positions


def id_positions(fields: Sequence[tuple[str, str]], id_columns: Sequence[str]) -> tuple[int, ...]:
    """Return the position in ``fields`` of each of ``id_columns``, the columns that determine message IDs, in the order
    of ``id_columns``; () without any. ``fields``: (name, Spark SQL type) of the rows' columns. Names match as in
    ``position_of``.

    Raises OptionError[INVALID_OPTION_VALUE] for a missing column, OptionError[UNSUPPORTED_SINK_COLUMN_TYPE] for a type
    not in HASHED_TYPES, OptionError[AMBIGUOUS_COLUMN].
    """
    names = [name for name, _ in fields]
    positions = []
    for name in id_columns:
        position = position_of(name, names)
        if position is None:
            expected = f"columns of the rows: {', '.join(names)}"
            raise OptionError("INVALID_OPTION_VALUE", option="messageIdColumns", value=name, expected=expected)
        _check_type(name, fields[position][1], HASHED_TYPES)
        positions.append(position)
    return tuple(positions)


def position_of(name: str, names: Sequence[str]) -> int | None:
    """Return the position in ``names`` of the exact ``name``, or without it of ``name`` in another case, or None.

    Raises OptionError[AMBIGUOUS_COLUMN] if several names have the exact spelling. Without the exact spelling, raises it
    if several names differ in case only, which ``spark.sql.caseSensitive`` allows.
    """
    exact = [position for position, one in enumerate(names) if one == name]
    found = exact or [position for position, one in enumerate(names) if one.lower() == name.lower()]
    if len(found) > 1:
        raise OptionError("AMBIGUOUS_COLUMN", column=name, columns=", ".join(names[position] for position in found))
    return found[0] if found else None


def _check_complete(positions: Mapping[str, int], has_topic: bool) -> None:
    """Raise OptionError[MISSING_SINK_COLUMN] for the first missing column: ``body``; ``topic``, unless option ``topic``
    is set (``has_topic``); ``brokerName`` or ``queueId``, if only one of the two is present."""
    missing = {
        "column 'body'": BODY not in positions,
        "column 'topic' or option 'topic'": TOPIC not in positions and not has_topic,
        "column 'brokerName', required with 'queueId'": QUEUE_ID in positions and BROKER_NAME not in positions,
        "column 'queueId', required with 'brokerName'": BROKER_NAME in positions and QUEUE_ID not in positions,
    }
    for column, is_missing in missing.items():
        if is_missing:
            raise OptionError("MISSING_SINK_COLUMN", missing=column, available=available())


def _check_type(spelling: str, actual: str, expected: Sequence[str]) -> None:
    """Raise OptionError[UNSUPPORTED_SINK_COLUMN_TYPE] unless ``actual``, a Spark SQL type, is one of ``expected``.
    Strings of any length and collation count as ``string``, and ``array<void>`` as ``array<string>``."""
    plain = _LENGTH_OR_COLLATION.sub("string", actual).replace(f"array<{_VOID}>", "array<string>")
    if plain not in expected:
        raise OptionError(
            "UNSUPPORTED_SINK_COLUMN_TYPE",
            column=spelling,
            given=actual.upper(),
            expected=_listed(expected),
            available=available(),
        )


def available() -> str:
    """Return all columns with their types, as text for an error."""
    return ", ".join(f"{_spellings(name)} {_listed(column.types)}" for name, column in SINK_COLUMNS.items())


def _spellings(name: str) -> str:
    """Return the name of a column of SINK_COLUMNS, with its alias if it has one: "body (or value)"."""
    alias = SINK_COLUMNS[name].alias
    return name if alias is None else f"{name} (or {alias})"


def _listed(types: Iterable[str]) -> str:
    """Return ``types`` in upper case: "BINARY or STRING"."""
    return " or ".join(one.upper() for one in types)
