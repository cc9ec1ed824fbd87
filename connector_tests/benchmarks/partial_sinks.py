"""Sinks that do a part of what ours does: take the rows from Spark, or encode them too. What is made is dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter
from pyspark.sql.types import StructType

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.send_batches import RowTarget, SendBatch, named_queue
from rocketmq_spark.sink.topic_lookup import TopicRequirement
from rocketmq_spark.sink.write_task import Columns, WriteTask, write_rows
from rocketmq_spark.sink.writer import TaskCommitMessage, columns_in


class CountingSink(DataSource):
    """``df.write.format("counting")``: what any Arrow sink in Python takes."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return CountingWriter()


class CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        return TaskCommitMessage(sum(map(len, iterator)))


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

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        context = TaskContext.get()
        assert context is not None
        task = WriteTask("benchmark", context.partitionId())
        return TaskCommitMessage(write_rows(iterator, Columns(*self._columns), task, self._options, Dropping()))


class Dropping:
    """A sender that knows every topic and sends nothing."""

    @property
    def topics(self) -> Dropping:
        return self

    def find_problems(
        self, requirements: Collection[TopicRequirement], *, first_only: bool
    ) -> Mapping[TopicRequirement, str]:
        return {}

    def resolve_queue(self, target: RowTarget) -> MessageQueue | None:
        return named_queue(target)

    def send(self, batch: SendBatch) -> None:
        """Drop it."""

    def finish(self) -> None:
        """Nothing is on its way."""
