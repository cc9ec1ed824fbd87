"""The reader of a query whose options are refused: it says so at Spark's first call, and does nothing else.

Raised by ``streamReader`` itself, PySpark would hide the error behind an UnboundLocalError.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from rocketmq_spark.errors import OptionError


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``error`` from every call that Spark may make first."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def getDefaultReadLimit(self) -> NoReturn:
        raise self._error

    def prepareForTriggerAvailableNow(self) -> NoReturn:
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        raise self._error
