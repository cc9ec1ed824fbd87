"""What is read of a message."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructType

from rocketmq_spark.source.schema import default_schema

DEFAULT: Final = default_schema()
"""What a reader without a schema gets."""
LIKE_KAFKA: Final = StructType(
    [DEFAULT[name] for name in ("keys", "body", "topic", "brokerName", "queueId", "queueOffset", "storeTimestamp")]
)
"""What Kafka's default columns tell: key, value, topic, partition, offset, timestamp."""
BODY_ONLY: Final = StructType([DEFAULT["queueOffset"], DEFAULT["body"]])
