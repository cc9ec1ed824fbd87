"""Options: ``table`` defines rows, ``kinds`` the kinds of values; the other modules hold the rows, by use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from rocketmq_spark.options.batch_read import BatchReadOptions
from rocketmq_spark.options.connection import ConnectionOptions
from rocketmq_spark.options.read import ReadOptions
from rocketmq_spark.options.read_rules import BROADCASTING
from rocketmq_spark.options.table import ACCEPTED_BY
from rocketmq_spark.options.view_read import ViewOptions
from rocketmq_spark.options.write import WriteOptions

__all__ = [
    "BROADCASTING",
    "USES",
    "BatchReadOptions",
    "ConnectionOptions",
    "RangeReadOptions",
    "ReadOptions",
    "ViewOptions",
    "WriteOptions",
]

RangeReadOptions: TypeAlias = ReadOptions | BatchReadOptions
"""Options of reads of planned offset ranges."""

USES: Final[Mapping[str, type[ConnectionOptions]]] = MappingProxyType(
    {call: table for table, calls in ACCEPTED_BY.items() for call in calls}
)
"""The calls that accept options, each with its table of options."""
