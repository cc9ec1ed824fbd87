"""What Spark wants to be handed, in Arrow's words."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketmq_spark.source.schema import columns_of
from rocketmq_spark.wire.arrow.arrow_types import arrow_type


def arrow_schema(schema: StructType) -> pa.Schema:
    """What ``read`` must yield for a checked Spark schema: the user's names, our types, the user's nullability."""
    fields = zip(schema.fields, columns_of(schema), strict=True)
    return pa.schema([pa.field(field.name, arrow_type(column), nullable=field.nullable) for field, column in fields])
