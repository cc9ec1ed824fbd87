"""``format("rocketmq")``: the door through which Spark comes in.

Spark builds it eagerly in ``.load()`` (with a user schema: at ``start()``), in a process of its own, and pickles it
into others. It holds the user's options and nothing else; it opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.types import StructType

from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.diagnostics import raising_without_traceback, without_traceback
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions, WriteOptions
from rocketmq_spark.spark_version import HAS_READ_LIMITS, DataSource, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, InputPartition

    from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
    from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader


SPARK_SINK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of any streaming sink, in lower case."""

ADDED_BY_CREATE_TABLE: Final = "provider"
"""Spark puts it among the options of CREATE TABLE, and of nothing else."""


class RocketMQDataSource(DataSource):
    """Apache RocketMQ as a streaming source, and as a sink of batches and streams.

    Every option is checked here, before any socket is opened: an unknown name, a missing or a contradictory one is an
    OptionError, which Spark shows where ``.load()`` was called. It is raised when Spark begins to read, because Spark
    builds the same class to write, and options of a sink are no mistakes of a reader.

    Raises OptionError[UNSUPPORTED_OPERATION] where it is asked to read a batch.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._checked: ReadOptions | OptionError = _checked(dict(options))

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def read_options(self) -> ReadOptions:
        """The options of a reader. Raises OptionError where they are none."""
        if isinstance(self._checked, OptionError):
            raise self._checked
        return self._checked

    def write_options(self) -> WriteOptions:
        """The options of a writer. Raises OptionError where they are none."""
        configured = {name: value for name, value in self.options.items() if name.lower() not in SPARK_SINK_OPTIONS}
        _check_no_table(configured)
        return WriteOptions.parse(configured)

    def schema(self) -> StructType:
        """Where the user gives none. Raises OptionError where the options are none of a reader."""
        options = self.read_options()
        from rocketmq_spark.source.schema import default_schema

        return default_schema(include_properties=options.include_properties, property_columns=options.property_columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For the ``schema`` that the user gave, else ours. Refused options are raised by the reader's first call."""
        if isinstance(self._checked, OptionError):
            return FailingReader(self._checked)
        if HAS_READ_LIMITS:
            return _limited_reader(self._checked, schema)
        from rocketmq_spark.source.start_tracking_reader import StartTrackingReader

        return StartTrackingReader(_limited_reader(self._checked, schema))

    def reader(self, schema: StructType) -> NoReturn:
        raise OptionError("UNSUPPORTED_OPERATION", operation="spark.read or SELECT")

    @raising_without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Of a batch; ``overwrite`` is what it cannot do. Raises OptionError where the options are none of a writer."""
        options = self.write_options()
        from rocketmq_spark.sink.writer import RocketMQWriter

        return RocketMQWriter(options, schema, overwrite)

    @raising_without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """``overwrite`` in output mode complete: a topic gets the whole result each time, behind what is there."""
        options = self.write_options()
        from rocketmq_spark.sink.writer import RocketMQStreamWriter

        return RocketMQStreamWriter(options, schema)

    def __repr__(self) -> str:
        return f"<RocketMQDataSource {self._checked!r}>"


def _limited_reader(options: ReadOptions, schema: StructType) -> RocketMQPopReader | RocketMQStreamReader:
    """The reader with the calls of Spark 4.2."""
    if options.is_message_based:
        from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader

        return RocketMQPopReader(options, schema)
    from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader

    return RocketMQStreamReader(options, schema)


def _checked(options: Mapping[str, str]) -> ReadOptions | OptionError:
    try:
        _check_no_table(options)
        read_options = ReadOptions.parse(options)
        strategy_of(read_options)
        starting_point(read_options)
    except OptionError as error:
        return without_traceback(error)
    return read_options


def _check_no_table(options: Mapping[str, str]) -> None:
    if ADDED_BY_CREATE_TABLE in (name.lower() for name in options):
        raise OptionError("UNSUPPORTED_OPERATION", operation="CREATE TABLE")


def register(spark: Any) -> None:
    """Register the source in a session that does not discover it.

    Driver and executors must have the package installed: ``--py-files`` is not enough for streaming reads.
    """
    spark.dataSource.register(RocketMQDataSource)


class FailingReader(DataSourceStreamReader):
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
