"""``format("rocketmq")``: the door through which Spark comes in.

Spark builds it eagerly in ``.load()`` (with a user schema: at ``start()``), in a process of its own, and pickles it
into others. It holds the user's options and nothing else; it opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.options import ReadOptions

if TYPE_CHECKING:
    from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader


class RocketMQDataSource(DataSource):
    """Apache RocketMQ as a streaming source.

    Every option is checked here, before any socket is opened: an unknown name, a missing or a contradictory one is an
    OptionError, which Spark shows where ``.load()`` was called.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.read_options = ReadOptions.parse(dict(options))
        strategy_of(self.read_options)
        starting_point(self.read_options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        from rocketmq_spark.source.schema import default_schema

        return default_schema()

    def streamReader(self, schema: StructType) -> RocketMQStreamReader:
        from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader

        return RocketMQStreamReader(self.read_options, schema)

    def __repr__(self) -> str:
        return f"<RocketMQDataSource {self.read_options!r}>"


def register(spark: Any) -> None:
    """Register the source by hand, for sessions whose Python path Spark does not scan (``--py-files``)."""
    spark.dataSource.register(RocketMQDataSource)
