"""What the Spark that runs us has, and what takes the place of what it lacks. No other module asks for its version.

Python sources came with Spark 4.0; read limits, the start of a batch in ``latestOffset`` and a real ``availableNow``
with 4.2. What is there is decided by the modules and classes that are there: a vendor's Spark may have them in another
version. Importing this module raises OptionError[UNSUPPORTED_SPARK_VERSION] on Spark 3.5 and older.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import pyspark.version

from rocketmq_spark.errors import OptionError

SPARK_VERSION: Final[str] = pyspark.version.__version__

try:
    from pyspark.sql import datasource
    from pyspark.sql.datasource import DataSource as DataSource
    from pyspark.sql.datasource import DataSourceStreamReader as DataSourceStreamReader
except ImportError as problem:
    raise OptionError(
        "UNSUPPORTED_SPARK_VERSION",
        version=SPARK_VERSION,
        host=platform.node(),
        python=f"Python {platform.python_version()} ({sys.executable})",
        missing="pyspark.sql.datasource",
    ) from problem

HAS_READ_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark passes ``latestOffset`` where the batch begins, and how much it may hold."""

HAS_STREAM_ARROW_WRITER: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Spark 4.0 does not have it, and passes Arrow to whatever is a ``DataSourceArrowWriter``, a stream's writer too."""

if TYPE_CHECKING or HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """As in Spark 4.2."""

    class ReadAllAvailable(ReadLimit):
        """As in Spark 4.2."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """As in Spark 4.2."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """As in Spark 4.2, where it makes Spark call ``prepareForTriggerAvailableNow``."""


if TYPE_CHECKING or HAS_STREAM_ARROW_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """As in Spark 4.1."""


def read_limit(rows: int | None) -> ReadLimit:
    """What ``max_rows`` says again."""
    return ReadAllAvailable() if rows is None else ReadMaxRows(rows)


def max_rows(limit: ReadLimit) -> int | None:
    """None: all that there is. Raises OptionError[INVALID_OPTION_VALUE] for a limit of another kind."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return None
    raise OptionError("INVALID_OPTION_VALUE", option="read limit", value=repr(limit), expected="maxOffsetsPerTrigger")
