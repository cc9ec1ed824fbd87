"""A Python source that does nothing: one row, made on the executor. What a query on it takes, any takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

COLUMNS = "body BINARY, queueOffset BIGINT"


class EmptySource(DataSource):
    """``spark.readStream.format("empty")``."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return OneRow()


class OneRow(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One batch."""

    def initialOffset(self) -> dict[str, Any]:
        return {"end": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """There is nothing to look at."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"end": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes, int]]:
        yield b"x", 0
