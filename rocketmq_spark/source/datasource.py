"""Entry point for Spark: ``format("rocketmq")``.

Spark constructs it eagerly in ``.load()`` (with a user schema: at ``start()``), in a separate process, and pickles it
into further processes. It holds only the user's options and opens no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar
from uuid import uuid4

from pyspark.sql.types import StructType

from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.diagnostics import raising_without_traceback, without_traceback
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import BatchReadOptions, RangeReadOptions, ReadOptions, ViewOptions, WriteOptions
from rocketmq_spark.options.table import unknown_names
from rocketmq_spark.options.view_read import VIEW
from rocketmq_spark.spark_version import HAS_READ_LIMITS, DataSource, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamWriter, DataSourceWriter, InputPartition

    from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
    from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader


T = TypeVar("T")

SPARK_SINK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of any streaming sink, in lower case."""

CONSUMER_GROUP: Final = "consumergroup"

ANY_GROUP: Final = "g"
"""Valid name of a group."""

ADDED_BY_CREATE_TABLE: Final = "provider"
"""Option that Spark adds for CREATE TABLE only."""


class RocketMQDataSource(DataSource):
    """Apache RocketMQ as a batch and streaming source, and as a batch and streaming sink.

    All options are checked here, before any socket is opened. The constructor raises no OptionError: Spark constructs
    the same class to write, and sink options are no errors of a reader. ``schema`` raises it at ``.load()``, for an
    unknown, missing or contradictory option. There Spark does not pass whether the read is a batch or a stream. So an
    option that only one of them accepts may be an error later, when the read starts.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Parse ``options`` for each kind of read. Keep an OptionError for later instead of raising it."""
        super().__init__(dict(options))
        self._checked: ReadOptions | OptionError = _parse_or_error(_stream_options, options)
        self._checked_batch: BatchReadOptions | OptionError = _parse_or_error(BatchReadOptions.parse, options)
        self._checked_view: ViewOptions | OptionError | None = (
            _parse_or_error(ViewOptions.parse, options) if VIEW in map(str.lower, options) else None
        )
        self._load_id = uuid4().hex
        """The same in all pickled copies of this source, and so in all actions on one DataFrame."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def read_options(self) -> ReadOptions:
        """Return the options of a streaming read. Raises OptionError if they are invalid."""
        return _valid(self._checked)

    def batch_read_options(self) -> BatchReadOptions:
        """Return the options of a batch read. Raises OptionError if they are invalid."""
        return _valid(self._checked_batch)

    def _any_read_options(self) -> RangeReadOptions:
        """Return the options of a streaming read, or else of a batch read, if these are valid. A missing consumer group
        counts as set: Spark does not pass here which read it is, and only a stream needs the group.

        If neither is valid, raises the OptionError of the read that accepts more of the names, also for a missing
        group. If both accept as many, raises that of a stream if a consumer group is set, else of a batch read.
        """
        has_group = CONSUMER_GROUP in (name.lower() for name in self.options)
        with_group = {**self.options, CONSUMER_GROUP: ANY_GROUP}
        of_stream = self._checked if has_group else _parse_or_error(_stream_options, with_group)
        for options in (of_stream, self._checked_batch):
            if not isinstance(options, OptionError):
                return options
        unknown_to_stream, unknown_to_batch = (
            len(unknown_names(table, self.options)) for table in (ReadOptions, BatchReadOptions)
        )
        is_stream = unknown_to_stream < unknown_to_batch or (unknown_to_stream == unknown_to_batch and has_group)
        return self.read_options() if is_stream else self.batch_read_options()

    def write_options(self) -> WriteOptions:
        """Return the parsed options of a write, without those of Spark's own sinks. Raises what ``WriteOptions.parse``
        does, and OptionError[UNSUPPORTED_OPERATION] for CREATE TABLE."""
        configured = {name: value for name, value in self.options.items() if name.lower() not in SPARK_SINK_OPTIONS}
        _check_no_table(configured)
        return WriteOptions.parse(configured)

    @raising_without_traceback
    def schema(self) -> StructType:
        """Return the schema of a query without a user schema: with the option ``view`` the columns of the view,
        otherwise those of messages. Raises OptionError if the options of the view are invalid, without ``view`` as
        ``_any_read_options`` does."""
        from rocketmq_spark.source.schema import default_schema, view_schema

        if self._checked_view is not None:
            return view_schema(_valid(self._checked_view).view)
        options = self._any_read_options()
        return default_schema(include_properties=options.include_properties, property_columns=options.property_columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of ``schema``, the user's or the default one; before Spark 4.2 in a ``StartTrackingReader``.
        Raises nothing: if the options are invalid, the calls of the returned reader raise their OptionError."""
        if isinstance(self._checked, OptionError):
            return FailingReader(self._checked)
        if HAS_READ_LIMITS:
            return _limited_reader(self._checked, schema)
        from rocketmq_spark.source.start_tracking_reader import StartTrackingReader

        return StartTrackingReader(_limited_reader(self._checked, schema))

    @raising_without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader of ``schema``, the user's or the default one: of messages, or with the option ``view``
        of that view. Raises OptionError if the options or the schema are invalid."""
        if self._checked_view is not None:
            from rocketmq_spark.source.view_reader import RocketMQViewReader

            return RocketMQViewReader(_valid(self._checked_view), schema)
        options = self.batch_read_options()
        from rocketmq_spark.source.batch.batch_reader import RocketMQBatchReader

        return RocketMQBatchReader(options, schema, self._load_id)

    @raising_without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a batch writer. Raises OptionError if the options or the columns of ``schema`` are invalid, and with
        ``overwrite``, which is not supported."""
        options = self.write_options()
        from rocketmq_spark.sink.writer import RocketMQWriter

        return RocketMQWriter(options, schema, overwrite)

    @raising_without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a streaming writer. With ``overwrite`` (mode complete) each batch appends the complete result to the
        topic. Raises OptionError if the options or the columns of ``schema`` are invalid."""
        options = self.write_options()
        from rocketmq_spark.sink.writer import RocketMQStreamWriter

        return RocketMQStreamWriter(options, schema)

    def __repr__(self) -> str:
        """Return a text with the options of a streaming read, without secrets, or with their OptionError."""
        return f"<RocketMQDataSource {self._checked!r}>"


def _limited_reader(options: ReadOptions, schema: StructType) -> RocketMQPopReader | RocketMQStreamReader:
    """Return a new reader with the methods that Spark 4.2 calls, which accept read limits: RocketMQPopReader with
    ``loadBalance=message``, else RocketMQStreamReader. Open no connection."""
    if options.is_message_based:
        from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader

        return RocketMQPopReader(options, schema)
    from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader

    return RocketMQStreamReader(options, schema)


def _parse_or_error(parse: Callable[[Mapping[str, str]], T], options: Mapping[str, str]) -> T | OptionError:
    """Parse the options of a read by ``parse``. Return an OptionError, without traceback, instead of raising it, also
    for the options of CREATE TABLE."""
    try:
        _check_no_table(options)
        return parse(options)
    except OptionError as error:
        return without_traceback(error)


def _stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a stream, and check ``allocateStrategy`` and the start position. Open no connection. Raises
    OptionError."""
    read_options = ReadOptions.parse(options)
    strategy_of(read_options)
    starting_point(read_options)
    return read_options


def _valid(options: T | OptionError) -> T:
    """Return parsed ``options``. Raises the OptionError that ``_parse_or_error`` returned instead of options."""
    if isinstance(options, OptionError):
        raise options
    return options


def _check_no_table(options: Mapping[str, str]) -> None:
    """Raise OptionError[UNSUPPORTED_OPERATION] for the options of CREATE TABLE: ``provider``, in any letter case, is
    among them."""
    if ADDED_BY_CREATE_TABLE in (name.lower() for name in options):
        raise OptionError("UNSUPPORTED_OPERATION", operation="CREATE TABLE")


def register(spark: Any) -> None:
    """Register the source in ``spark``, a session that does not discover it.

    Driver and executors must have the package installed: ``--py-files`` is not enough for streaming reads.
    """
    spark.dataSource.register(RocketMQDataSource)


class FailingReader(DataSourceStreamReader):
    """Reader whose calls raise ``error``: all that Spark may call first, including an unsupported old Spark version."""

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
