"""Columns of a view, with Spark's types. ``inspection.views`` defines them."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from rocketmq_spark.inspection.views import VIEWS
from rocketmq_spark.source.schema import check_columns, spark_type
from rocketmq_spark.wire.arrow.column_table import Column


def view_schema(view: str) -> StructType:
    """Return all columns of ``view``, nullable, in the order of ``VIEWS``."""
    return StructType([StructField(name, spark_type(column), nullable=True) for name, column in VIEWS[view].items()])


def check_view_schema(schema: StructType, view: str) -> None:
    """Check a user schema, which may select and order the columns of ``view``, in any case.

    Raises OptionError[UNKNOWN_COLUMN | UNSUPPORTED_COLUMN_TYPE | EMPTY_SCHEMA | NON_NULLABLE_COLUMN].
    """
    check_columns(schema, {name.lower(): (name, column) for name, column in VIEWS[view].items()})


def view_columns(schema: StructType, view: str) -> list[Column]:
    """Return the columns of a checked schema, in its order."""
    by_lower = {name.lower(): column for name, column in VIEWS[view].items()}
    return [by_lower[field.name.lower()] for field in schema.fields]
