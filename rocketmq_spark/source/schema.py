"""The columns of the source, for Spark and for Arrow. What there is stands in ``wire.arrow.column_table``; here it gets
Spark's types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketmq_spark.errors import OptionError
from rocketmq_spark.wire.arrow.column_table import COLUMNS, DEFAULT_COLUMNS

_SPARK_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.binary(): BinaryType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
    pa.map_(pa.string(), pa.string()): MapType(StringType(), StringType()),
}


def spark_type(column: str) -> DataType:
    """Spark's type of a column, by the name that ``COLUMNS`` gives it."""
    return _SPARK_TYPES[COLUMNS[column].type]


def default_schema() -> StructType:
    """The columns that a reader without a schema of its own gets."""
    return StructType([StructField(name, spark_type(name), nullable=True) for name in DEFAULT_COLUMNS])


def check_schema(schema: StructType) -> None:
    """A user schema may pick and order any columns, in any case. Raises OptionError[UNKNOWN_COLUMN] for another name,
    OptionError[BAD_COLUMN_TYPE] for another type."""
    unknown = [field.name for field in schema.fields if _canonical(field.name) is None]
    if unknown:
        raise OptionError("UNKNOWN_COLUMN", columns=", ".join(unknown), available=_available())
    for field in schema.fields:
        expected = spark_type(_known(field.name))
        if field.dataType != expected:
            raise OptionError(
                "BAD_COLUMN_TYPE",
                column=field.name,
                given=field.dataType.simpleString().upper(),
                expected=expected.simpleString().upper(),
                available=_available(),
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """What ``read`` must yield for a checked Spark schema: the user's names, our types, the user's nullability."""
    return pa.schema(
        [pa.field(field.name, COLUMNS[_known(field.name)].type, nullable=field.nullable) for field in schema.fields]
    )


def canonical_names(schema: StructType) -> tuple[str, ...]:
    """The names of ``COLUMNS`` behind the user's spelling, in the user's order."""
    return tuple(_known(field.name) for field in schema.fields)


_BY_LOWER: Final = {name.lower(): name for name in COLUMNS}


def _canonical(name: str) -> str | None:
    return _BY_LOWER.get(name.lower())


def _known(name: str) -> str:
    return _BY_LOWER[name.lower()]


def _available() -> str:
    return _listed(f"{name} {spark_type(name).simpleString().upper()}" for name in COLUMNS)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)
