"""The columns that a message has. The one place that knows their names, types and meaning.

Arrow's types of them are in ``arrow_types``, Spark's in ``source.schema``: who asks what there is needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

from rocketmq_spark.model import MessageExt

_OF_PROPERTY: Final = "properties."

FIRST_TIMESTAMP_MS: Final = -62_135_424_000_000
LAST_TIMESTAMP_MS: Final = 253_402_127_999_999
"""Times before 0001-01-03 and after 9999-12-29 (UTC) are null. In some time zone they are beyond the years 1 to 9999 of
Python and of SQL, and ``collect`` fails for all rows; Python also looks a day ahead of a time for its summer time."""


class ColumnType(Enum):
    """What a column holds. TIMESTAMP: microseconds since 1970, UTC; MAP: of text to text."""

    STRING = auto()
    INT = auto()
    LONG = auto()
    BINARY = auto()
    TIMESTAMP = auto()
    MAP = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """One row of the table. ``field`` is the attribute of MessageExt, and of RecordColumns, that has the values, or
    ``properties.NAME``; ``null_when`` is None for a column that never is null."""

    type: ColumnType
    doc: str
    field: str
    null_when: str | None = None

    def value_in(self, message: MessageExt) -> object:
        """The value as ``pyarrow.array`` takes it for a column of this type."""
        if (name := self.property_name) is not None:
            return message.properties.get(name)
        return _AS_ARROW.get(self.type, _unchanged)(getattr(message, self.field))

    @property
    def property_name(self) -> str | None:
        """Of which property it is."""
        return self.field.removeprefix(_OF_PROPERTY) if self.field.startswith(_OF_PROPERTY) else None


def of_property(name: str) -> Column:
    """The column of one property."""
    return Column(_STRING, f"Its property `{name}`.", _OF_PROPERTY + name, "it has none")


def _unchanged(value: Any) -> object:
    return value


def _microseconds(milliseconds: int) -> int | None:
    return milliseconds * 1000 if FIRST_TIMESTAMP_MS <= milliseconds <= LAST_TIMESTAMP_MS else None


_TIMESTAMP_NULL_WHEN: Final = "it is before 0001-01-03 or after 9999-12-29 (UTC)"

_STRING: Final = ColumnType.STRING
_TIMESTAMP: Final = ColumnType.TIMESTAMP

_AS_ARROW: Final[Mapping[ColumnType, Callable[[Any], object]]] = {
    ColumnType.TIMESTAMP: _microseconds,
    ColumnType.MAP: lambda properties: list(properties.items()),
}

COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "topic": Column(_STRING, "Topic of the message.", "topic"),
        "brokerName": Column(_STRING, "Broker that stores it.", "broker_name"),
        "queueId": Column(ColumnType.INT, "Queue on that broker.", "queue_id"),
        "queueOffset": Column(ColumnType.LONG, "Place in the queue.", "queue_offset"),
        "msgId": Column(_STRING, "The producer's id of it (UNIQ_KEY); without one, `offsetMsgId`.", "msg_id"),
        "keys": Column(_STRING, "Its keys, separated by spaces.", "keys", "it has none"),
        "tags": Column(_STRING, "Its tag.", "tags", "it has none"),
        "body": Column(
            ColumnType.BINARY, "Its body, decompressed.", "body", "it cannot be read, and `badMessages` is `null`"
        ),
        "properties": Column(ColumnType.MAP, "All its properties, keys and tags among them.", "properties"),
        "bornTimestamp": Column(
            ColumnType.TIMESTAMP,
            "When the producer made it, by its own clock, which may be wrong: for watermarks use `storeTimestamp`.",
            "born_timestamp_ms",
            _TIMESTAMP_NULL_WHEN,
        ),
        "storeTimestamp": Column(_TIMESTAMP, "When the broker stored it.", "store_timestamp_ms", _TIMESTAMP_NULL_WHEN),
        "reconsumeTimes": Column(ColumnType.INT, "How often it was sent back.", "reconsume_times"),
        "bornHost": Column(_STRING, "The producer's `ip:port`.", "born_host"),
        "storeHost": Column(_STRING, "The broker's `ip:port`.", "store_host"),
        "offsetMsgId": Column(_STRING, "Id made of the broker's address and the place there.", "offset_msg_id"),
        "commitLogOffset": Column(ColumnType.LONG, "Place in the broker's commit log.", "commit_log_offset"),
        "sysFlag": Column(ColumnType.INT, "RocketMQ's flags, without the one for a compressed body.", "sys_flag"),
        "flag": Column(ColumnType.INT, "The producer's own flag.", "flag"),
        "bodyCRC": Column(ColumnType.INT, "CRC-32 of the body as stored, without the top bit.", "body_crc"),
    }
)

RECEIPT_HANDLE: Final = "receiptHandle"

RECEIVED_COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        RECEIPT_HANDLE: Column(
            _STRING,
            "By what servers know that the message was handed out; `rocketmq_spark.send_back` needs it. Null where "
            "a proxy's may be that of another message.",
            "receipt_handle",
        )
    }
)
"""What messages have beside ``COLUMNS`` where a group shares them. No decoder knows it: it is in no message."""

PROPERTIES: Final = "properties"

DEFAULT_COLUMNS: Final = tuple(name for name in tuple(COLUMNS)[:12] if name != PROPERTIES)
"""``topic`` to ``reconsumeTimes``, without the map: what a reader without a schema of its own gets."""


def default_columns(*, include_properties: bool) -> tuple[str, ...]:
    """``DEFAULT_COLUMNS``, and the map in its place if it is wanted."""
    return tuple(name for name in COLUMNS if name in DEFAULT_COLUMNS or (include_properties and name == PROPERTIES))
