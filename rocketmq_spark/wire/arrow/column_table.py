"""The columns that a message has. The one place that knows their names, types and meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from rocketmq_spark.model import MessageExt

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
TIMESTAMP_LIMIT_MS: Final = (2**63 - 1) // 1000
"""Times further than this from 1970 have no microseconds in 64 bits; they are null."""


@dataclass(frozen=True, slots=True)
class Column:
    """One row of the table. ``field`` is the attribute of MessageExt, and of RecordColumns, that has the values;
    ``null_when`` is None for a column that never is null."""

    type: pa.DataType
    doc: str
    field: str
    null_when: str | None = None

    def value_in(self, message: MessageExt) -> object:
        """The value as ``pyarrow.array`` takes it for ``type``."""
        return _AS_ARROW.get(self.type, _unchanged)(getattr(message, self.field))


def _unchanged(value: Any) -> object:
    return value


def _microseconds(milliseconds: int) -> int | None:
    return milliseconds * 1000 if abs(milliseconds) <= TIMESTAMP_LIMIT_MS else None


_TIMESTAMP_NULL_WHEN: Final = "64 bits cannot hold its microseconds since 1970"

_STRING: Final = pa.string()
_MAP: Final = pa.map_(pa.string(), pa.string())

_AS_ARROW: Final[Mapping[pa.DataType, Callable[[Any], object]]] = {
    TIMESTAMP_TYPE: _microseconds,
    _MAP: lambda properties: list(properties.items()),
}

COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "topic": Column(_STRING, "Topic of the message.", "topic"),
        "brokerName": Column(_STRING, "Broker that stores it.", "broker_name"),
        "queueId": Column(pa.int32(), "Queue on that broker.", "queue_id"),
        "queueOffset": Column(pa.int64(), "Place in the queue.", "queue_offset"),
        "msgId": Column(_STRING, "The producer's id of it (UNIQ_KEY); without one, `offsetMsgId`.", "msg_id"),
        "keys": Column(_STRING, "Its keys, separated by spaces.", "keys", "it has none"),
        "tags": Column(_STRING, "Its tag.", "tags", "it has none"),
        "body": Column(
            pa.binary(), "Its body, decompressed.", "body", "it cannot be read, and `badMessages` is `null`"
        ),
        "properties": Column(_MAP, "All its properties, keys and tags among them.", "properties"),
        "bornTimestamp": Column(
            TIMESTAMP_TYPE, "When the producer made it, by its own clock.", "born_timestamp_ms", _TIMESTAMP_NULL_WHEN
        ),
        "storeTimestamp": Column(
            TIMESTAMP_TYPE, "When the broker stored it.", "store_timestamp_ms", _TIMESTAMP_NULL_WHEN
        ),
        "reconsumeTimes": Column(pa.int32(), "How often it was sent back.", "reconsume_times"),
        "bornHost": Column(_STRING, "The producer's `ip:port`.", "born_host"),
        "storeHost": Column(_STRING, "The broker's `ip:port`.", "store_host"),
        "offsetMsgId": Column(_STRING, "Id made of the broker's address and the place there.", "offset_msg_id"),
        "commitLogOffset": Column(pa.int64(), "Place in the broker's commit log.", "commit_log_offset"),
        "sysFlag": Column(pa.int32(), "RocketMQ's flags, without the one for a compressed body.", "sys_flag"),
        "flag": Column(pa.int32(), "The producer's own flag.", "flag"),
        "bodyCRC": Column(pa.int32(), "CRC-32 of the body as stored, without the top bit.", "body_crc"),
    }
)

DEFAULT_COLUMNS: Final = tuple(COLUMNS)[:12]
"""``topic`` to ``reconsumeTimes``: what a reader without a schema of its own gets."""
