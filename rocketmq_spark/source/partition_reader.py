"""Reader that executors run: pulls the ranges of a partition and converts them to Arrow record batches.

A pool of the worker process keeps connections between tasks; all other state is that of one task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketmq_spark.model import BrokerAddress, QueueRange
from rocketmq_spark.options import RangeReadOptions
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient, shared_pull_client
from rocketmq_spark.pull.outage_notes import OutageNotes
from rocketmq_spark.pull.range_puller import RangePuller, new_range_puller
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.source.data_loss import LostRange, report_losses
from rocketmq_spark.source.range_decoding import in_parts
from rocketmq_spark.source.range_reader import RangeReader
from rocketmq_spark.source.schema import arrow_schema, canonical_names
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.spark_version import forget_zip_importers
from rocketmq_spark.wire.body.task_report import Recipient

SMALL_BATCH_ROWS: Final = 4_096
SMALL_BATCH_BYTES: Final = 1024 * 1024
"""Batches below both limits are merged: each batch costs Spark as much as some thousand rows."""

PREFETCHED_RANGES: Final = 8
"""Number of a task's ranges with a pull in flight while an earlier one is read; each buffers one response (256 KiB)."""


def read_ranges(
    ranges: Sequence[QueueRange],
    options: RangeReadOptions,
    schema: StructType,
    *,
    masters: Mapping[str, BrokerAddress] = MappingProxyType({}),
    logged: Sequence[QueueRange] = (),
    batch_id: str | None = None,
    reported_losses: Sequence[LostRange] = (),
    planned_by: Recipient | None = None,
    reports_sizes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Pull ``ranges`` and yield the messages that match the subscription, in batches of the schema
    ``arrow_schema(schema)``. A generator: it pulls on iteration, and applies ``badMessages``. At its end, also by an
    error or ``close``, it logs losses and reports them to the member ``planned_by``; it waits, and ignores errors.

    Parameters
    ----------
    masters : broker addresses by broker name, as of the plan
    logged : complete ranges of the batch, which an error lists
    batch_id : tasks and attempts with the same ID share the time that a broker may be unresponsive; None: not shared
    reported_losses : ranges that the driver has reported as lost; they are not reported again
    planned_by : member that gets a report of losses, and with ``reports_sizes`` of sizes; None: none

    Raises DataLossError (``failOnDataLoss``), TransportError[LOGGED_BATCH_UNREADABLE], RemoteProtocolError
    [UNDECODABLE_MESSAGE_BODY | SQL_FILTER_UNUSABLE | CORRUPT_MESSAGE.QUEUE], the errors of ``DeadLetterSender.send``.
    """
    forget_zip_importers()
    client = shared_pull_client(options)
    puller_for = partial(
        _puller,
        client=client,
        options=options,
        masters=masters,
        batch_id=batch_id,
    )
    target, columns = arrow_schema(schema), canonical_names(schema, options.property_columns)
    record = TaskRecord(reports_sizes=reports_sizes)
    readers = (
        RangeReader(queue_range, client, puller_for, options, columns, logged, record, reported_losses)
        for queue_range in ranges
    )
    batches = chain.from_iterable(reader.batches() for reader in _prefetch(readers))
    try:
        for batch in merge_small_batches(batches):
            yield from in_parts(pa.RecordBatch.from_arrays(batch.columns, schema=target))
    finally:
        report_losses(record.lost, is_failure=False)
        if planned_by is not None and any(report := record.report()):
            client.report(planned_by, ranges[0].queue, report)


def _puller(
    queue_range: QueueRange,
    is_filtered: bool,
    *,
    client: ExecutorPullClient,
    options: RangeReadOptions,
    masters: Mapping[str, BrokerAddress],
    batch_id: str | None,
) -> RangePuller:
    """Create the puller of a range; send nothing. ``is_filtered``: it pulls with the topic's filter. With ``batch_id``
    it shares the time that a broker may be unresponsive with other tasks of the batch."""
    address = masters.get(queue_range.queue.broker_name)
    waited = None if batch_id is None else partial(OutageNotes, batch_id)
    return new_range_puller(queue_range, client, options, monotonic_ms, address, waited, is_filtered=is_filtered)


def _prefetch(readers: Iterable[RangeReader]) -> Iterator[RangeReader]:
    """Start the readers and yield them in order. When one is yielded, up to ``PREFETCHED_RANGES`` later ones have sent
    their first pulls."""
    started: deque[RangeReader] = deque()
    for reader in readers:
        reader.start()
        started.append(reader)
        if len(started) > PREFETCHED_RANGES:
            yield started.popleft()
    yield from started


def merge_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order. Merge consecutive batches smaller than ``SMALL_BATCH_ROWS`` and
    ``SMALL_BATCH_BYTES``, until the merged one reaches either limit. Omit empty batches."""
    small: list[pa.RecordBatch] = []
    row_count = size_bytes = 0
    for batch in filter(len, batches):
        batch_bytes = batch.nbytes
        is_small = _is_small(batch.num_rows, batch_bytes)
        if small and not (is_small and _is_small(row_count, size_bytes)):
            yield _combine(small)
            small, row_count, size_bytes = [], 0, 0
        if is_small:
            small.append(batch)
            row_count, size_bytes = row_count + batch.num_rows, size_bytes + batch_bytes
        else:
            yield batch
    if small:
        yield _combine(small)


def _is_small(row_count: int, size_bytes: int) -> bool:
    """Return whether both are less than the limits ``SMALL_BATCH_ROWS`` and ``SMALL_BATCH_BYTES``."""
    return row_count < SMALL_BATCH_ROWS and size_bytes < SMALL_BATCH_BYTES


def _combine(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch with the rows of ``batches``, at least one, in order."""
    if len(batches) == 1:
        return batches[0]
    (one,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return one
