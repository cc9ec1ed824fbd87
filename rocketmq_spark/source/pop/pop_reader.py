"""RocketMQPopReader: Spark's streaming reader for message-based load balancing.

Like ``RocketMQStreamReader`` it exists in three kinds of process: the planner pickles it, the source runner receives
messages with it, and executors call only ``read``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_spark.diagnostics import (
    iterating_without_traceback,
    raising_without_traceback,
    set_log_context,
    task_log_context,
)
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.pop.message_tasks import Part, extra_string_columns, tasks_of
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.schema import canonical_names, check_schema
from rocketmq_spark.source.stream.control_folder import Resumable
from rocketmq_spark.spark_version import ReadLimit, SupportsTriggerAvailableNow, max_rows, read_limit
from rocketmq_spark.wire.arrow.column_table import RECEIPT_HANDLE

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketmq_spark.source.pop.pop_run import PopRun


@dataclass
class MessagesPartition(InputPartition):
    """The messages that one task decodes: plain data, all that the driver sends to an executor.

    ``client_id``: the client that received them.
    """

    parts: tuple[Part, ...]
    client_id: str


class RocketMQPopReader(Resumable, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's streaming reader for message-based load balancing; its run in the source runner is a ``PopRun``.

    Its constructor opens no connection and starts no thread. Not thread-safe: Spark's source runner is one thread.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__()
        self._options = options
        self._schema = schema
        self._run: PopRun | None = None
        self._last: tuple[dict[str, Any], PopOffset] | None = None

    def __reduce__(self) -> tuple[type[RocketMQPopReader], tuple[ReadOptions, StructType]]:
        """Pickle options and schema, which executors need, but no messages."""
        return type(self), (self._options, self._schema)

    # ------------------------------------------------------------------------------------------ source runner

    @raising_without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:
        """Check the user's schema and return the read limit by ``maxOffsetsPerTrigger``, unlimited without it. Raises
        what ``check_schema`` does: this is Spark's first call, and PySpark would mask an earlier error."""
        check_schema(self._schema, extra_string_columns(self._options))
        return read_limit(self._options.max_offsets_per_trigger)

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset without messages; send nothing. The first ``latestOffset`` receives messages."""
        return PopOffset(self._options.consumer_group).to_json()

    @raising_without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Start to receive unless this is done. Acknowledge the batch that ends at ``start``, wait for messages, put
        them into the next batch, and return its end: see ``PopRun.latest_offset``. Return ``start`` itself if there are
        none, or if a stop was requested.

        Raises what ends the query, see ``docs/reference/errors.md``; OptionError[INVALID_OPTION_VALUE] for a ``limit``
        that is neither a number of rows nor unlimited.
        """
        begin = self._read(start)
        end = self._started_run().latest_offset(begin, max_rows(limit))
        if end is begin:
            return start
        value = end.to_json()
        self._last = value, end
        return value

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the fields that the query progress shows as ``latestOffset``, see ``PopRun.report``; send nothing.
        None before the first ``latestOffset`` or ``partitions``, and after ``stop`` or a signal."""
        return None if self._run is None else self._run.report(int(time.time() * 1000))

    @raising_without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the messages of the batch that ends at ``end`` as tasks, and mark the batch as logged in the spool;
        ``start`` is ignored. See ``PopRun.batch``, also for errors. An earlier start's batch that is not in the spool
        has no tasks: release its messages and wait."""
        run = self._started_run()
        messages = run.batch(self._read(end))
        max_messages = self._options.max_records_per_partition
        with_handles = RECEIPT_HANDLE in canonical_names(self._schema, extra_string_columns(self._options))
        return [
            MessagesPartition(parts, run.client_id)
            for parts in tasks_of(messages, max_messages, with_handles=with_handles)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: this is only a hint. The next ``latestOffset`` completes the batch that ends at ``end``."""

    def stop(self) -> None:
        """End the run, if there is one. Acknowledge completed messages, release prefetched ones, and wait for both up
        to 10 s. Then close all connections, and remove the control folder. Idempotent."""
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _read(self, value: dict[str, Any]) -> PopOffset:
        """Parse an offset, and cache the last one with its value. An equal value, as in idle calls, returns the same
        object. Raises what ``PopOffset.from_json`` does."""
        if self._last is None or self._last[0] != value:
            self._last = value, PopOffset.from_json(value, self._options)
        return self._last[1]

    def _started_run(self) -> PopRun:
        """Return the run. The first call creates it, with its signal handlers, control folder and spool folder, but
        starts no receiving: the run's first call does."""
        if self._run is None:
            from rocketmq_spark.source.pop.pop_run import PopRun

            self._run = PopRun(self._options, self.control_before, is_available_now=self.is_available_now)
        return self._run

    # ------------------------------------------------------------------------------------------ executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Set the log context, and return an iterator that decodes the messages of the partition into Arrow batches:
        see ``read_parts``. Runs on an executor."""
        from rocketmq_spark.source.pop.message_reader import read_parts

        assert isinstance(partition, MessagesPartition)
        group = self._options.consumer_group
        set_log_context(
            self._options.log_level, group=group, clientId=partition.client_id, **task_log_context(TaskContext.get())
        )
        return iterating_without_traceback(read_parts(partition.parts, self._options, self._schema))
