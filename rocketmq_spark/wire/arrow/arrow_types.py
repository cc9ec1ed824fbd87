"""Arrow types of the message columns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from rocketmq_spark.wire.arrow.column_table import Column, ColumnType

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

_ARROW_TYPES: Final[Mapping[ColumnType, pa.DataType]] = MappingProxyType(
    {
        ColumnType.STRING: pa.string(),
        ColumnType.INT: pa.int32(),
        ColumnType.LONG: pa.int64(),
        ColumnType.BINARY: pa.binary(),
        ColumnType.TIMESTAMP: TIMESTAMP_TYPE,
        ColumnType.MAP: pa.map_(pa.string(), pa.string()),
    }
)


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type for ``column.type``; times are microseconds in UTC."""
    return _ARROW_TYPES[column.type]
