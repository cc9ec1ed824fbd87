"""Adapter for Spark versions that do not pass the start of a batch to ``latestOffset``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketmq_spark.source.start_tracking import StartTracker
from rocketmq_spark.source.stream.shown_progress import PROGRESS, with_progress
from rocketmq_spark.spark_version import SPARK_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketmq_spark.spark_version import ReadLimit


log = logging.getLogger(__name__)


class LimitedReader(Protocol):
    """Stream reader with the calls of Spark 4.2, and ``resume`` and ``mark_idle`` of ``Resumable``."""

    def getDefaultReadLimit(self) -> ReadLimit: ...

    def resume(self, shown: Mapping[str, Any]) -> None: ...

    def initialOffset(self) -> dict[str, Any]: ...

    def reportLatestOffset(self) -> dict[str, Any] | None: ...

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...

    def mark_idle(self) -> None: ...

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]: ...

    def commit(self, end: dict[str, Any]) -> None: ...

    def stop(self) -> None: ...

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...


class StartTrackingReader(DataSourceStreamReader):
    """Adapter from the calls of Spark 4.0 and 4.1 to those of Spark 4.2 on ``reader``.

    The row limit of the options applies to each batch. Not thread-safe: Spark's source runner is one thread.
    """

    def __init__(self, reader: LimitedReader) -> None:
        self._reader = reader
        self._tracker = StartTracker(SPARK_VERSION)
        self._has_logged_one_batch = False
        self._has_logged_messages_left = False

    def __reduce__(self) -> tuple[type[StartTrackingReader], tuple[LimitedReader]]:
        """Pickle the reader alone, for executors; the state of the query stays in the source runner."""
        return type(self), (self._reader,)

    def initialOffset(self) -> dict[str, Any]:
        """Return the reader's initial offset. Raises OptionError[UNSUPPORTED_SPARK_SETTING] if Spark does not make this
        call here (``TRANSITIONS``)."""
        self._tracker.record_initial()
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as Spark 4.0 and 4.1 call it
        """Plan a batch from the tracked start and return its end, with the progress fields that Spark shows. If there
        is nothing to read, return the tracked start (of a new query: the initial offset), and mark a request of
        ``run_available_now`` as reached. The first call of a new query resumes the reader. A second call before Spark
        has logged the first batch returns the same offset. Raises OptionError[UNSUPPORTED_SPARK_SETTING], and what the
        reader raises.
        """
        limit = self._reader.getDefaultReadLimit()
        is_new_batch = self._tracker.record_latest()
        start = self._tracker.start
        if start is not None and not is_new_batch:
            return start
        if start is None:
            self._reader.resume({})
        begin = self._reader.initialOffset() if start is None else start
        end = self._reader.latestOffset(begin, limit)
        self._log_one_batch()
        if end == begin:
            self._reader.mark_idle()
        else:
            report = self._reader.reportLatestOffset() or {}
            self._log_messages_left(report.get("lag", report.get("prefetched")))
            end = with_progress(end, report)
        self._tracker.record_returned(end)
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of the batch; [] if Spark only reports the offset of a restart. The first call of a
        restarted query resumes the reader from the progress fields of ``end``. Raises
        OptionError[UNSUPPORTED_SPARK_SETTING], and what the reader raises."""
        is_restart = self._tracker.start is None
        is_batch = self._tracker.record_partitions(start, end)
        if is_restart:
            self._reader.resume(end.get(PROGRESS) or {})
        if not is_batch:
            return []
        tasks = self._reader.partitions(start, end)
        self._log_one_batch()
        return tasks

    def _log_one_batch(self) -> None:
        """Log at level INFO, once for this reader, that this Spark version runs availableNow and once as one batch,
        committed by the next start. The query's trigger is unknown here, so this is logged with any."""
        if self._has_logged_one_batch:
            return
        self._has_logged_one_batch = True
        log.info(
            "SINGLE_BATCH_TRIGGER: Spark %s runs a query with trigger 'availableNow' or 'once' as one batch. The next "
            "start of the query commits this batch to the group. To read and commit all available messages, use "
            "rocketmq_spark.run_available_now",
            SPARK_VERSION,
        )

    def _log_messages_left(self, messages: int | None) -> None:
        """Log, once, that messages are left, unless their number ``messages`` is 0. None: unknown."""
        if messages == 0 or self._has_logged_messages_left:
            return
        self._has_logged_messages_left = True
        log.info(
            "SINGLE_BATCH_INCOMPLETE: %s available messages are not in this batch. With trigger 'availableNow' or "
            "'once', Spark %s ends the run after this batch. To read all of them, use rocketmq_spark.run_available_now",
            "Some" if messages is None else messages,
            SPARK_VERSION,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the reader's batches of a task, on an executor."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Pass ``end`` to the reader's ``commit``."""
        self._reader.commit(end)

    def stop(self) -> None:
        """Stop the reader."""
        self._reader.stop()
