"""What is read of a message."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructType

from rocketmq_spark.source.schema import default_schema

ALL: Final = default_schema()
"""What a reader without a schema gets."""
FLAT: Final = StructType([field for field in ALL if field.name != "properties"])
"""Without the map, as Kafka's columns are without headers."""
BODY_ONLY: Final = StructType([ALL["queueOffset"], ALL["body"]])
