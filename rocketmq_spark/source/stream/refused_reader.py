"""The reader of a query whose options are refused: it says so at Spark's first call, and does nothing else.

Raised by ``streamReader`` itself, PySpark would hide the error behind an UnboundLocalError.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketmq_spark.errors import OptionError


class RefusedReader(DataSourceStreamReader):
    """Raises ``error`` from every call that Spark may make first, also one that is too old for us."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def getDefaultReadLimit(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> NoReturn:
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        raise self._error
