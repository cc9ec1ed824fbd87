"""Table of the message columns: names, types and descriptions.

``arrow_types`` has their Arrow types, ``source.schema`` their Spark types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

from rocketmq_spark.model import MessageExt

_OF_PROPERTY: Final = "properties."

FIRST_TIMESTAMP_MS: Final = -59_011_459_200_000
LAST_TIMESTAMP_MS: Final = 250_246_627_199_999
"""Times before 0100-01-01 and after 9899-12-31 (UTC) are null. Outside the years 1 to 9999 of Python and SQL,
``collect`` would fail for all rows. The century at each end is for time zones, for the day after a time, which Python
needs for daylight saving time, and for begins and ends of windows."""


class ColumnType(Enum):
    """Type of a column. TIMESTAMP: microseconds since 1970, UTC; MAP: text to text."""

    STRING = auto()
    INT = auto()
    LONG = auto()
    BINARY = auto()
    TIMESTAMP = auto()
    MAP = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """One row of the table.

    ``field`` is the attribute of MessageExt and RecordColumns that has the values, or ``properties.NAME``.
    ``null_when`` is None for a column that is never null.
    """

    type: ColumnType
    doc: str
    field: str
    null_when: str | None = None

    def value_in(self, message: MessageExt) -> object:
        """Return the column's value in ``message``, as ``pyarrow.array`` accepts it. Return None for a missing property
        or a time out of range."""
        if (name := self.property_name) is not None:
            return message.properties.get(name)
        return self.arrow_value(getattr(message, self.field))

    def arrow_value(self, value: Any) -> object:
        """Return ``value``, of an attribute of MessageExt, as ``pyarrow.array`` accepts it: a time in ms as
        microseconds, a dict as a list of pairs, all else unchanged. Return None for None or a time out of range."""
        return None if value is None else _AS_ARROW.get(self.type, _unchanged)(value)

    @property
    def property_name(self) -> str | None:
        """Return the name of the property, or None if the column is no property."""
        return self.field.removeprefix(_OF_PROPERTY) if self.field.startswith(_OF_PROPERTY) else None


def of_property(name: str) -> Column:
    """Return the STRING column of message property ``name``, null in messages without it."""
    return Column(_STRING, f"Message property `{name}`.", _OF_PROPERTY + name, "the message does not have the property")


def _unchanged(value: Any) -> object:
    """Return ``value`` itself."""
    return value


def _microseconds(milliseconds: int) -> int | None:
    """Return ms as microseconds, or None before FIRST_TIMESTAMP_MS or after LAST_TIMESTAMP_MS."""
    return milliseconds * 1000 if FIRST_TIMESTAMP_MS <= milliseconds <= LAST_TIMESTAMP_MS else None


_TIMESTAMP_NULL_WHEN: Final = "the time is before 0100-01-01 or after 9899-12-31 (UTC)"

_STRING: Final = ColumnType.STRING
_TIMESTAMP: Final = ColumnType.TIMESTAMP

_AS_ARROW: Final[Mapping[ColumnType, Callable[[Any], object]]] = {
    ColumnType.TIMESTAMP: _microseconds,
    ColumnType.MAP: lambda properties: list(properties.items()),
}

COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "topic": Column(_STRING, "Topic of the message.", "topic"),
        "brokerName": Column(_STRING, "Name of the broker that stores the message.", "broker_name"),
        "queueId": Column(ColumnType.INT, "ID of the queue on that broker.", "queue_id"),
        "queueOffset": Column(ColumnType.LONG, "Offset of the message in the queue.", "queue_offset"),
        "msgId": Column(
            _STRING,
            "Message ID (UNIQ_KEY) that the producer assigned, else the broker. Without one, `offsetMsgId`: RocketMQ 5 "
            "brokers assign none to the messages of a batch, and RocketMQ 4 brokers none at all.",
            "msg_id",
        ),
        "keys": Column(_STRING, "Message keys, separated by spaces.", "keys", "the message has no keys"),
        "tags": Column(_STRING, "Message tag.", "tags", "the message has no tag"),
        "body": Column(
            ColumnType.BINARY,
            "Message body, decompressed.",
            "body",
            "the message is undecodable and `badMessages` is `null`",
        ),
        "properties": Column(ColumnType.MAP, "All message properties, including keys and tags.", "properties"),
        "bornTimestamp": Column(
            ColumnType.TIMESTAMP,
            "Time when the producer created the message, by the producer's clock. For watermarks use `storeTimestamp`: "
            "a producer's clock can be wrong.",
            "born_timestamp_ms",
            _TIMESTAMP_NULL_WHEN,
        ),
        "storeTimestamp": Column(
            _TIMESTAMP, "Time when the broker stored the message.", "store_timestamp_ms", _TIMESTAMP_NULL_WHEN
        ),
        "reconsumeTimes": Column(
            ColumnType.INT,
            "Number of times that the message was sent back for retry. With `loadBalance=message`: number of earlier "
            "deliveries that were not acknowledged.",
            "reconsume_times",
        ),
        "bornHost": Column(_STRING, "`ip:port` of the producer.", "born_host"),
        "storeHost": Column(_STRING, "`ip:port` of the broker.", "store_host"),
        "offsetMsgId": Column(
            _STRING, "Message ID derived from the broker's address and `commitLogOffset`.", "offset_msg_id"
        ),
        "commitLogOffset": Column(
            ColumnType.LONG, "Offset of the message in the broker's commit log.", "commit_log_offset"
        ),
        "sysFlag": Column(
            ColumnType.INT, "RocketMQ's system flags, without the flag for a compressed body.", "sys_flag"
        ),
        "flag": Column(ColumnType.INT, "Flag that the producer set.", "flag"),
        "bodyCRC": Column(ColumnType.INT, "CRC-32 of the stored body, without the top bit.", "body_crc"),
    }
)

RECEIPT_HANDLE: Final = "receiptHandle"

RECEIVED_COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        RECEIPT_HANDLE: Column(
            _STRING,
            "RocketMQ receipt handle of this delivery; `rocketmq_spark.send_back` requires it. Null if the receipt "
            "handle that a proxy returned may belong to another message.",
            "receipt_handle",
        )
    }
)
"""Further columns with ``loadBalance=message``. No decoder of stored messages returns them."""

PROPERTIES: Final = "properties"

DEFAULT_COLUMNS: Final = tuple(name for name in tuple(COLUMNS)[:12] if name != PROPERTIES)
"""The columns without a user-specified schema: ``topic`` to ``reconsumeTimes``, without the map."""


def default_columns(*, include_properties: bool) -> tuple[str, ...]:
    """Return the names of ``DEFAULT_COLUMNS``; ``include_properties``: with ``properties`` in addition, at its place in
    ``COLUMNS``."""
    return tuple(name for name in COLUMNS if name in DEFAULT_COLUMNS or (include_properties and name == PROPERTIES))
