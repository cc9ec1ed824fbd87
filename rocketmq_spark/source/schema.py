"""Columns of messages, and of views, with Spark's types. ``wire.arrow.column_table`` and ``inspection.views`` define
them.

``load()`` runs this module in a separate process, so only ``arrow_schema_of``, which executors call, imports Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

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
from rocketmq_spark.inspection.views import VIEWS
from rocketmq_spark.wire.arrow.column_table import COLUMNS, Column, ColumnType, default_columns, of_property

if TYPE_CHECKING:
    import pyarrow as pa

_SPARK_TYPES: Final[dict[ColumnType, DataType]] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.LONG: LongType(),
    ColumnType.BINARY: BinaryType(),
    ColumnType.TIMESTAMP: TimestampType(),
    ColumnType.MAP: MapType(StringType(), StringType()),
}


def spark_type(column: Column) -> DataType:
    """Return Spark's type of a column."""
    return _SPARK_TYPES[column.type]


def default_schema(*, include_properties: bool = False, property_columns: Sequence[str] = ()) -> StructType:
    """Return the columns of a reader without a user schema, all nullable: the default ones (``default_columns``), then
    ``property_columns``. Raises OptionError[INVALID_OPTION_VALUE] for a property column with the name of another
    column."""
    _check_property_columns(property_columns)
    columns = {name: COLUMNS[name] for name in default_columns(include_properties=include_properties)}
    columns |= {name: of_property(name) for name in property_columns}
    return StructType([StructField(name, spark_type(column), nullable=True) for name, column in columns.items()])


def _check_property_columns(property_columns: Sequence[str]) -> None:
    """Raise OptionError[INVALID_OPTION_VALUE] for a property column with the name of a column of the source, in any
    letter case."""
    for name in property_columns:
        if name.lower() in _BY_LOWER:
            expected = f"names other than those of the source's columns, in any case: {', '.join(COLUMNS)}"
            raise OptionError("INVALID_OPTION_VALUE", option="propertyColumns", value=name, expected=expected)


def check_schema(schema: StructType, property_columns: Sequence[str] = ()) -> None:
    """Check a user schema, which may select and order any columns, in any letter case.

    Raises OptionError[UNKNOWN_COLUMN] for another name, OptionError[UNSUPPORTED_COLUMN_TYPE] for another type,
    OptionError[EMPTY_SCHEMA | NON_NULLABLE_COLUMN], and OptionError[INVALID_OPTION_VALUE] for a property column with
    the name of another column.
    """
    _check_property_columns(property_columns)
    _check_columns(schema, _columns_by_lower(property_columns))


def _check_columns(schema: StructType, columns: Mapping[str, tuple[str, Column]]) -> None:
    """Check a user schema that selects from ``columns``, names and columns by the name in lower case.

    Raises OptionError[UNKNOWN_COLUMN | UNSUPPORTED_COLUMN_TYPE | EMPTY_SCHEMA | NON_NULLABLE_COLUMN].
    """
    available = ", ".join(f"{name} {_type_name(spark_type(column))}" for name, column in columns.values())
    if not schema.fields:
        raise OptionError("EMPTY_SCHEMA", available=available)
    unknown = [field.name for field in schema.fields if field.name.lower() not in columns]
    if unknown:
        raise OptionError("UNKNOWN_COLUMN", columns=", ".join(unknown), available=available)
    for field in schema.fields:
        expected = spark_type(columns[field.name.lower()][1])
        if field.dataType not in (expected, _without_null_values(expected)):
            actual_type, expected_type = _type_name(field.dataType), _type_name(expected)
            raise OptionError(
                "UNSUPPORTED_COLUMN_TYPE",
                column=field.name,
                given=actual_type,
                expected=expected_type,
                available=available,
            )
        if not field.nullable:
            raise OptionError("NON_NULLABLE_COLUMN", column=field.name)


def _without_null_values(type_: DataType) -> DataType:
    """Return ``type_``; for a map type, the same with values that cannot be null, as those of properties never are."""
    return MapType(type_.keyType, type_.valueType, False) if isinstance(type_, MapType) else type_


def canonical_names(schema: StructType, property_columns: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the columns of a checked schema, as ``COLUMNS`` and ``property_columns`` spell them, in the
    order of the schema."""
    columns = _columns_by_lower(property_columns)
    return tuple(columns[field.name.lower()][0] for field in schema.fields)


_BY_LOWER: Final = {name.lower(): (name, column) for name, column in COLUMNS.items()}


def _columns_by_lower(property_columns: Sequence[str]) -> dict[str, tuple[str, Column]]:
    """Return name and column of all ``COLUMNS``, then of ``property_columns``, by the name in lower case."""
    return {**_BY_LOWER, **{name.lower(): (name, of_property(name)) for name in property_columns}}


def _type_name(type_: DataType) -> str:
    """Return the type as in SQL, such as ``MAP<STRING,STRING>``."""
    return type_.simpleString().upper()


def view_schema(view: str) -> StructType:
    """Return all columns of ``view``, nullable, in the order of ``VIEWS``."""
    return StructType([StructField(name, spark_type(column), nullable=True) for name, column in VIEWS[view].items()])


def check_view_schema(schema: StructType, view: str) -> None:
    """Check a user schema, which may select and order the columns of ``view``, in any letter case.

    Raises OptionError[UNKNOWN_COLUMN | UNSUPPORTED_COLUMN_TYPE | EMPTY_SCHEMA | NON_NULLABLE_COLUMN].
    """
    _check_columns(schema, _view_columns_by_lower(view))


def view_columns(schema: StructType, view: str) -> list[Column]:
    """Return the columns of a checked schema, in its order."""
    columns = _view_columns_by_lower(view)
    return [columns[field.name.lower()][1] for field in schema.fields]


def _view_columns_by_lower(view: str) -> dict[str, tuple[str, Column]]:
    """Return name and column of all columns of ``view``, by the name in lower case."""
    return {name.lower(): (name, column) for name, column in VIEWS[view].items()}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that ``read`` must yield for a checked Spark schema: user's names, source's types. A name
    that is not in ``COLUMNS``, in any letter case, is a property."""
    names = (field.name for field in schema.fields)
    columns = [_BY_LOWER[name.lower()][1] if name.lower() in _BY_LOWER else of_property(name) for name in names]
    return arrow_schema_of(schema, columns)


def arrow_schema_of(schema: StructType, columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of a checked Spark schema: the field names of ``schema`` with the types of ``columns``,
    in the same order. Fields are nullable; values of a map are as nullable as in ``schema``."""
    import pyarrow as pa

    fields = zip(schema.fields, columns, strict=True)
    return pa.schema([pa.field(field.name, _arrow_type(field, column)) for field, column in fields])


def _arrow_type(field: StructField, column: Column) -> pa.DataType:
    """Return the Arrow type of a column, with non-nullable map values if the user's ``field`` has them."""
    import pyarrow as pa

    from rocketmq_spark.wire.arrow.arrow_types import arrow_type

    type_ = arrow_type(column)
    if isinstance(field.dataType, MapType) and not field.dataType.valueContainsNull:
        return pa.map_(type_.key_type, pa.field("value", type_.item_type, nullable=False))
    return type_
