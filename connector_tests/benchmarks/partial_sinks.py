"""Sinks that do a part of what ours does: take the rows from Spark, or encode them too. What is made is dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter
from pyspark.sql.types import StructType

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.send_batches import Place, SendBatch, named_queue
from rocketmq_spark.sink.topic_checks import Wanted
from rocketmq_spark.sink.write_task import Columns, Task, write_rows
from rocketmq_spark.sink.writer import Stored, columns_in


class CountingSink(DataSource):
    """``df.write.format("counting")``: what any Arrow sink in Python takes."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return CountingWriter()


class CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Stored:
        return Stored(sum(map(len, iterator)))


class EncodingSink(DataSource):
    """``df.write.format("encoding")``: with the options of ours."""

    @classmethod
    def name(cls) -> str:
        return "encoding"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return EncodingWriter(WriteOptions.parse(dict(self.options)), schema)


class EncodingWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_in(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Stored:
        context = TaskContext.get()
        assert context is not None
        task = Task("benchmark", context.partitionId())
        return Stored(write_rows(iterator, Columns(*self._columns), task, self._options, Dropping()))


class Dropping:
    """A sender that knows every topic and sends nothing."""

    def problems(self, wanted: Collection[Wanted], *, first_only: bool) -> Mapping[Wanted, str]:
        return {}

    def queue_of(self, place: Place) -> MessageQueue | None:
        return named_queue(place)

    def send(self, batch: SendBatch) -> None:
        """Drop it."""

    def finish(self) -> None:
        """Nothing is on its way."""
