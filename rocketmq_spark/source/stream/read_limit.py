"""What Spark asks for at most."""

from __future__ import annotations

from rocketmq_spark.errors import OptionError
from rocketmq_spark.spark_version import ReadAllAvailable, ReadLimit, ReadMaxRows


def read_limit(rows: int | None) -> ReadLimit:
    """What ``max_rows`` says again."""
    return ReadAllAvailable() if rows is None else ReadMaxRows(rows)


def max_rows(limit: ReadLimit) -> int | None:
    """None: all that there is. Raises OptionError[BAD_OPTION_VALUE] for a limit of another kind."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return None
    raise OptionError("BAD_OPTION_VALUE", option="read limit", value=repr(limit), expected="maxOffsetsPerTrigger")
