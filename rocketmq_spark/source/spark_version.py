"""Which Spark is needed: one that has what our stream reader is built on. A vendor's may have it in another version."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from rocketmq_spark.errors import OptionError

NEEDED: Final = "pyspark.sql.streaming.datasource"
"""Admission control for Python sources: read limits, and AvailableNow. PySpark 4.0 and 4.1 do not have it."""


def check_spark() -> None:
    """Raises OptionError[SPARK_TOO_OLD]."""
    if find_spec(NEEDED) is None:
        import pyspark

        raise OptionError("SPARK_TOO_OLD", version=pyspark.__version__, missing=NEEDED)
