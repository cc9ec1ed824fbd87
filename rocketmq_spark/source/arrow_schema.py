"""What Spark wants to be handed, in Arrow's words."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import MapType, StructField, StructType

from rocketmq_spark.source.schema import columns_of
from rocketmq_spark.wire.arrow.arrow_types import arrow_type
from rocketmq_spark.wire.arrow.column_table import Column


def arrow_schema(schema: StructType) -> pa.Schema:
    """What ``read`` must yield for a checked Spark schema: the user's names, our types."""
    fields = zip(schema.fields, columns_of(schema), strict=True)
    return pa.schema([pa.field(field.name, _type_of(field, column)) for field, column in fields])


def _type_of(field: StructField, column: Column) -> pa.DataType:
    type_ = arrow_type(column)
    if isinstance(field.dataType, MapType) and not field.dataType.valueContainsNull:
        return pa.map_(type_.key_type, pa.field("value", type_.item_type, nullable=False))
    return type_
