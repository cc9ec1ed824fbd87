"""The writers that Spark calls. They are created where a query is planned, and pickled for the executors' tasks.

A commit has nothing to do: a task succeeds only after all its rows are stored.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketmq_spark.diagnostics import raising_without_traceback, set_log_context, task_log_context
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.columns import columns_and_ids
from rocketmq_spark.spark_version import DataSourceStreamArrowWriter, forget_zip_importers

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties of a micro-batch's tasks."""


@dataclass(frozen=True)
class TaskCommitMessage(WriterCommitMessage):
    """Number of rows that a task has written."""

    row_count: int


class RocketMQWriter(DataSourceArrowWriter):
    """Writer of a batch DataFrame. Message IDs are unique to each write; the attempts of its tasks share them."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        """Raises OptionError[UNSUPPORTED_SAVE_MODE] for ``overwrite``, and the errors of ``columns_and_ids``."""
        if overwrite:
            raise OptionError("UNSUPPORTED_SAVE_MODE", topic=options.topic or "(column 'topic')")
        self._options = options
        self._columns = columns_in(schema, options)
        self._job = f"write {uuid.uuid4()}"

    @raising_without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        """Send the rows of one task, and return their number once the brokers have stored them. Raises the errors of
        ``write_rows``."""
        return _write(iterator, self._columns, self._job, self._options)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Writer of micro-batches. When a micro-batch is written again, each row has the same message ID as before."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Raises the errors of ``columns_and_ids``."""
        self._options = options
        self._columns = columns_in(schema, options)

    @raising_without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        """Send the rows of one task of a micro-batch, and return their number once the brokers have stored them. Raises
        OptionError[MESSAGE_ID_UNAVAILABLE], before anything is sent, if Spark provides no query ID or batch ID and no
        ``messageIdColumns`` are set. Raises the errors of ``write_rows``."""
        from rocketmq_spark.sink.message_ids import micro_batch

        context = _task_context()
        of_columns = bool(self._options.message_id_columns)
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        job = micro_batch(query_id, batch_id, of_columns=of_columns)
        return _write(iterator, self._columns, job, self._options)


def columns_in(schema: StructType, options: WriteOptions) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return the positions of the message columns in ``schema``, by name, and the positions of the columns that
    determine message IDs. Raises the errors of ``columns_and_ids``."""
    fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    return columns_and_ids(fields, has_topic=options.topic is not None, id_columns=options.message_id_columns)


def _write(
    iterator: Iterator[pa.RecordBatch],
    columns: tuple[Mapping[str, int], tuple[int, ...]],
    job: str,
    options: WriteOptions,
) -> TaskCommitMessage:
    """Set the log context of this process, and send the rows of the running task. Return their number, invalid ones
    included, once the brokers have stored them. ``columns``: as ``columns_in`` returns them. ``job``: see ``task_key``.
    Raises the errors of ``write_rows``."""
    from rocketmq_spark.sink.batch_sender import BatchSender
    from rocketmq_spark.sink.write_task import Columns, WriteTask, write_rows

    forget_zip_importers()
    context = _task_context()
    topic = {} if options.topic is None else {"topic": options.topic}
    set_log_context(options.log_level, producerGroup=options.producer_group, **topic, **task_log_context(context))
    task = WriteTask(job, context.partitionId())
    return TaskCommitMessage(
        write_rows(iterator, Columns(*columns), task, options, BatchSender.of_this_process(options))
    )


def _task_context() -> TaskContext:
    """Return Spark's context of the running task. Outside of tasks an assertion fails."""
    context = TaskContext.get()
    assert context is not None
    return context
