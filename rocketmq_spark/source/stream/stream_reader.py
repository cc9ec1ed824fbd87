"""RocketMQStreamReader: adapter between Spark's calls and the batch planner and partition reader, which do the work.

The class exists in three kinds of process. The planner process constructs and pickles it. The source runner creates the
group member, at the first call for an offset. Executors call only ``read``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_spark.diagnostics import (
    iterating_without_traceback,
    raising_without_traceback,
    set_log_context,
    task_log_context,
)
from rocketmq_spark.model import BrokerAddress, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.outage_notes import OutageNotes
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.outage_log import NAME_SERVERS, broker_subject
from rocketmq_spark.source.data_loss import LostRange
from rocketmq_spark.source.early_times import warn_of_early_times
from rocketmq_spark.source.partitioning import Task, tasks_of
from rocketmq_spark.source.schema import check_schema
from rocketmq_spark.source.skipped_ranges import check_skipped, skippable_ranges, without_skipped
from rocketmq_spark.source.stream.checkpoint_changes import planned_with, warnings_of
from rocketmq_spark.source.stream.control_folder import Resumable
from rocketmq_spark.source.stream.offsets import OffsetReader, SourceOffset
from rocketmq_spark.source.stream.progress import ProgressReporter, outages_of
from rocketmq_spark.spark_version import MAX_ROWS, ReadLimit, SupportsTriggerAvailableNow, max_rows, read_limit
from rocketmq_spark.wire.body.task_report import Recipient

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketmq_spark.source.stream.source_run import SourceRun

log = logging.getLogger(__name__)


@dataclass
class RocketMQInputPartition(InputPartition):
    """Ranges that one task reads, one after another. Plain data: all that the driver sends to an executor.

    ``masters``: broker addresses by broker name, as of the plan. ``logged``: complete ranges of the batch, which an
    error lists. ``batch_id``: identifies a plan of a batch. ``member``: recipient of the task's report, the member that
    planned the batch. ``reported_losses``: losses in the ranges that are already reported.
    """

    ranges: tuple[QueueRange, ...]
    masters: Mapping[str, BrokerAddress]
    logged: tuple[QueueRange, ...]
    batch_id: str
    member: Recipient
    reported_losses: tuple[LostRange, ...]


class RocketMQStreamReader(Resumable, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader with queue-based load balancing. Construction opens no connection, starts no thread and joins no
    group.

    Not thread-safe: Spark's source runner is one thread.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__()
        self._options = options
        self._schema = schema
        self._run: SourceRun | None = None
        self._checkpoint_id = uuid4().hex
        """Name of the checkpoint; replaced by the recorded one, if there is one, once the query has begun."""
        self._offsets = OffsetReader()
        self._progress = ProgressReporter()
        self._notes: set[tuple[str, str]] = set()
        """Plans of the running batch, and servers, of which tasks on this machine may have left outage notes."""
        self._planned_end: dict[str, Any] | None = None
        self._replayed_end: dict[str, Any] | None = None
        """End of the batch that a restart replays, until ``latestOffset`` is called: a later batch may have the same
        end, after an operator's reset."""

    def __reduce__(self) -> tuple[type[RocketMQStreamReader], tuple[ReadOptions, StructType]]:
        """Pickle only what executors need; the running member and the state of its batches stay in this process."""
        return type(self), (self._options, self._schema)

    # ------------------------------------------------------------------------------------------ source runner

    @raising_without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:
        """Check the user's schema, and return 'maxOffsetsPerTrigger' as a limit of rows, or without it
        ReadAllAvailable. If only 'minOffsetsPerTrigger' or 'maxBytesPerTrigger' is set, the limit is MAX_ROWS, which
        limits nothing. ReadAllAvailable would equal ``Trigger.Once``, which ignores both. Raises what
        ``check_schema`` does: this is Spark's first call, and PySpark would mask an earlier error."""
        check_schema(self._schema, self._options.property_columns)
        options = self._options
        has_limit = (options.min_offsets_per_trigger, options.max_bytes_per_trigger) != (None, None)
        return read_limit(options.max_offsets_per_trigger or (MAX_ROWS if has_limit else None))

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset without positions; send nothing. The first ``latestOffset`` finds where queues start."""
        return SourceOffset().to_json()

    @raising_without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Join the group unless this is done. Commit ``start`` to the group, wait for messages, and return the end of
        the next batch: see ``BatchPlanner.latest_offset``. Return ``start`` itself if there is nothing to read.

        Raises what ends the query, see ``docs/reference/errors.md``; OptionError[INVALID_OPTION_VALUE] for a ``limit``
        that is neither a number of rows nor unlimited.
        """
        self._replayed_end = None
        begin = self._offsets.read(start)
        end = self._started_run(begin).latest_offset(begin, max_rows(limit))
        if end is begin:
            return start
        return self._offsets.write(replace(end, planned_with=planned_with(self._options, self._checkpoint_id)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the fields that the query progress shows as ``latestOffset``, see ``ProgressReporter.report``. Send no
        request. None before the first ``latestOffset`` or ``partitions``, and after ``stop``."""
        if self._run is None:
            return None
        planner, epoch_ms = self._run.planner, int(time.time() * 1000)
        return self._progress.report(
            planner.backlog,
            planner.completed_after_rebalance,
            planner.losses,
            outages_of(self._run.member.outages, monotonic_ms(), epoch_ms),
            client_id=self._run.member.client_id,
            control=self._run.drain.control,
            now_ms=epoch_ms,
        )

    @raising_without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return tasks that read the ranges in ``end``: ``tasks_of`` cuts large ranges and joins small ones. ``start``
        has no effect, since a replay after a crash reads the same ranges. If ``end`` differs from that of the previous
        call of ``partitions``, delete the outage notes that tasks of the previous batch left.

        A call before the first ``latestOffset`` replays a batch. It joins the group (``BatchPlanner.recover``), and
        logs and omits the ranges in ``skipRanges``, which apply to no other batch. Raises DataLossError for deleted
        offsets of a replayed batch (with ``failOnDataLoss``). Raises OptionError for a checkpoint of other options, and
        for a range of ``skipRanges`` that overlaps a range of the replayed batch and differs from it.
        """
        offset = self._offsets.read(end)
        if end != self._planned_end:
            self._delete_notes()
            self._planned_end = end
        is_first_call = self._run is None
        if is_first_call:
            self._replayed_end = end
        run = self._started_run(offset)
        logged = list(offset.ranges())
        skipped = self._options.skip_ranges if end == self._replayed_end else ()
        check_skipped(logged, skipped)
        required = [one for one in logged if one not in skipped]
        reported_losses = run.recover(offset, required) if is_first_call else ()
        tasks = tasks_of(
            logged,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        batch_id = uuid4().hex
        subjects = {NAME_SERVERS, *(broker_subject(one.queue.broker_name) for one in required)}
        self._notes |= {(batch_id, subject) for subject in subjects}
        return [_partition(run, task, logged, batch_id, reported_losses) for task in without_skipped(tasks, skipped)]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: only the next ``latestOffset`` shows that ``end`` is completed, and commits it, acknowledged."""

    def stop(self) -> None:
        """Delete the outage notes of tasks, and stop the run. Ignore further ending signals in this process. Leave the
        group, which waits and raises as ``Member.leave_group`` does. Close all connections and delete the control
        folder. Idempotent."""
        self._delete_notes()
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _delete_notes(self) -> None:
        """Delete the outage notes that tasks of the ended batch have left."""
        for batch_id, subject in self._notes:
            OutageNotes(batch_id, subject).clear()
        self._notes.clear()

    def _started_run(self, checkpoint: SourceOffset) -> SourceRun:
        """Return the run. The first call creates it and logs changed options. The run installs handlers of ending
        signals, registers its ``stop`` for the exit, and starts to join the group without waiting. With
        ``availableNow`` it plans up to the ends that its first complete snapshot has. Later calls ignore
        ``checkpoint``. Raises OptionError[CHECKPOINT_OPTION_CHANGED], before anything else, if a changed option is an
        error (``warnings_of``)."""
        if self._run is None:
            from rocketmq_spark.source.stream.source_run import SourceRun

            warnings = warnings_of(checkpoint, self._options)
            checkpoint_id = None if checkpoint.planned_with is None else checkpoint.planned_with.checkpoint_id
            self._checkpoint_id = checkpoint_id or self._checkpoint_id
            self._run = SourceRun(
                self._options,
                self.control_before,
                checkpoint_id=self._checkpoint_id,
                may_stop_without_call=self.may_stop_without_call,
            )
            for warning in warnings:
                log.warning("CHECKPOINT_OPTION_CHANGED: %s", warning)
            warn_of_early_times(self._options)
            if self.is_available_now:
                self._run.planner.stop_at_current_end()
        return self._run

    # ------------------------------------------------------------------------------------------ executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Set the log context, and return an iterator over record batches. They have the messages of the partition's
        ranges that match the subscription, in order within each queue. It pulls when Spark iterates: see
        ``read_ranges``."""
        from rocketmq_spark.source.partition_reader import read_ranges

        assert isinstance(partition, RocketMQInputPartition)
        group = self._options.consumer_group
        set_log_context(
            self._options.log_level,
            group=group,
            clientId=partition.member.client_id,
            **task_log_context(TaskContext.get()),
        )
        batches = read_ranges(
            partition.ranges,
            self._options,
            self._schema,
            masters=partition.masters,
            logged=partition.logged,
            batch_id=partition.batch_id,
            reported_losses=partition.reported_losses,
            planned_by=partition.member,
            reports_sizes=self._options.max_bytes_per_trigger is not None and self._options.assigned is None,
        )
        return iterating_without_traceback(batches)


def _partition(
    run: SourceRun, task: Task, logged: Sequence[QueueRange], batch_id: str, reported_losses: Sequence[LostRange]
) -> RocketMQInputPartition:
    """Return the partition of ``task``. It has the known addresses of its brokers, the ranges of ``logged`` that its
    error may list (``skippable_ranges``), and the ``reported_losses`` in its queues. Send nothing."""
    master_addresses = run.planner.masters
    names = dict.fromkeys(one.queue.broker_name for one in task)
    masters = {name: master_addresses[name] for name in names if name in master_addresses}
    losses = tuple(one for one in reported_losses if any(one.queue == of_task.queue for of_task in task))
    return RocketMQInputPartition(task, masters, skippable_ranges(logged, task), batch_id, run.member.report_to, losses)
