"""Features of the installed Spark, and substitutes for those that it lacks. No other module checks Spark's version.

Python sources exist since Spark 4.0; read limits, the start offset in ``latestOffset`` and a native ``availableNow``
since 4.2. The presence of modules and classes decides, not the version number: a vendor's Spark may have them in
another version. Importing this module raises OptionError[UNSUPPORTED_SPARK_VERSION] on Spark 3.5 and older.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from zipimport import zipimporter

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
"""Whether Spark passes the start offset and the read limit of a batch to ``latestOffset``."""

HAS_STREAM_ARROW_WRITER: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
"""False on Spark 4.0, which passes Arrow data to every ``DataSourceArrowWriter``, including a stream's writer."""

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
        """As in Spark 4.2, which calls ``prepareForTriggerAvailableNow`` of its subclasses."""


if TYPE_CHECKING or HAS_STREAM_ARROW_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """As in Spark 4.1."""


MAX_ROWS: Final = 2**63 - 1
"""Largest limit of rows."""


def read_limit(rows: int | None) -> ReadLimit:
    """Return the limit of ``rows`` rows, None: no limit. The inverse of ``max_rows``."""
    return ReadAllAvailable() if rows is None else ReadMaxRows(rows)


def max_rows(limit: ReadLimit) -> int | None:
    """Return the limit's number of rows, or None without a limit. Raises OptionError[INVALID_OPTION_VALUE] for another
    kind of limit."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return None
    raise OptionError("INVALID_OPTION_VALUE", option="read limit", value=repr(limit), expected="maxOffsetsPerTrigger")


def forget_zip_importers() -> None:
    """Remove the importers of ``pyspark.zip`` from Python's cache; the next import creates what it needs.

    Spark 4.0 and 4.1 call ``importlib.invalidate_caches`` in each task. Each cached importer then reads the directory
    of its archive again (``zipimporter.invalidate_caches``): 0.1 s of CPU time a task. Only those of an archive that
    does not change: without them Python would keep its old directory.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and importer.archive.endswith("pyspark.zip"):
            sys.path_importer_cache.pop(path, None)
