"""RocketMQBatchReader: adapter between Spark's calls for a batch read and the planner and partition reader.

Spark's planner process constructs it, calls ``partitions`` and pickles it with the result. Executors call only
``read``. The ends of the ranges are the same for all actions and attempts of one DataFrame, see ``batch_plan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_spark.diagnostics import (
    iterating_without_traceback,
    raising_without_traceback,
    set_log_context,
    task_log_context,
)
from rocketmq_spark.model import BrokerAddress, QueueRange
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.source.partitioning import Task, tasks_of
from rocketmq_spark.source.schema import check_schema
from rocketmq_spark.source.skipped_ranges import skippable_ranges

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class BatchInputPartition(InputPartition):
    """Ranges that one task reads, one after another. Plain data: all that the driver sends to an executor.

    ``masters``: broker addresses by broker name, as of the plan. ``planned``: ranges of the read that an error lists.
    """

    ranges: tuple[QueueRange, ...]
    masters: Mapping[str, BrokerAddress]
    planned: tuple[QueueRange, ...]


NOTHING: Final = BatchInputPartition((), {}, ())
"""Task of a read without messages: Spark would replace an empty list of tasks."""


class RocketMQBatchReader(DataSourceReader):
    """Batch reader of messages. Construction opens no connection, and raises what ``check_schema`` does. ``load_id``:
    ID of the ``load()``; readers with the same ID share one plan."""

    def __init__(self, options: BatchReadOptions, schema: StructType, load_id: str) -> None:
        check_schema(schema, options.property_columns)
        self._options = options
        self._schema = schema
        self._load_id = load_id

    @raising_without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Set the log context and return tasks that read all planned ranges, or one that reads nothing. The first call
        for a DataFrame requests routes and bounds, waits, and stores the plan on this machine. Later ones reuse the
        plan, or request again if it could not be stored.

        Raises OptionError for assigned queues that do not exist, and for start and end offsets that queues do not have.
        Raises RouteError, TransportError and BrokerError of unavailable topics and servers.
        """
        from rocketmq_spark.source.batch.batch_plan import plan_of_load

        options = self._options
        set_log_context(options.log_level, topics=options.shown_topics)
        plan = plan_of_load(options, self._load_id)
        tasks = tasks_of(
            plan.ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition
        )
        return [_partition(task, plan.ranges, plan.masters) for task in tasks] or [NOTHING]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Set the log context, and return an iterator over record batches. They have the messages of the partition's
        ranges that match the filter, in order within each queue. It pulls when Spark iterates: see ``read_ranges``."""
        from rocketmq_spark.source.partition_reader import read_ranges

        assert isinstance(partition, BatchInputPartition)
        set_log_context(
            self._options.log_level, topics=self._options.shown_topics, **task_log_context(TaskContext.get())
        )
        batches = read_ranges(
            partition.ranges,
            self._options,
            self._schema,
            masters=partition.masters,
            logged=partition.planned,
        )
        return iterating_without_traceback(batches)


def _partition(task: Task, planned: Sequence[QueueRange], masters: Mapping[str, BrokerAddress]) -> BatchInputPartition:
    """Return the partition of ``task``: with the known addresses of its brokers, and the ``planned`` ranges that its
    error may list (``skippable_ranges``)."""
    names = {one.queue.broker_name for one in task}
    return BatchInputPartition(
        task,
        {name: address for name, address in masters.items() if name in names},
        skippable_ranges(planned, task),
    )
