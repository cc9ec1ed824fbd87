"""RangeReader: pulls one range of a task, decodes it, and applies ``badMessages`` and reports losses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Final, TypeAlias

import pyarrow as pa

from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import RangeReadOptions
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient
from rocketmq_spark.pull.pull_request import READ, PulledRange, RangeKind
from rocketmq_spark.pull.range_puller import RangePuller
from rocketmq_spark.remoting.retry import is_broker_outage
from rocketmq_spark.source.data_loss import (
    OMITTED,
    RETENTION,
    TAIL_LOST,
    VACANT,
    LossCause,
    LostRange,
    deleted,
    report_losses,
)
from rocketmq_spark.source.range_decoding import (
    COMMIT_LOG_OFFSET,
    QUEUE_OFFSET,
    ExpectedOffsets,
    PlaceCheck,
    RangeDecoder,
    ShiftedOffsetsError,
)
from rocketmq_spark.source.skipped_ranges import as_skip_ranges
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.source.undecodable_messages import UndecodableMessages
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.body.subscription import tags_of
from rocketmq_spark.wire.implementation import column_decoder
from rocketmq_spark.wire.message.stored_message import first_offsets

log = logging.getLogger(__name__)

CAUSE_OF: Final[Mapping[RangeKind, LossCause]] = MappingProxyType(
    {RangeKind.DELETED: RETENTION, RangeKind.PRESUMED_LOST: TAIL_LOST, RangeKind.VACANT: VACANT}
)
"""Cause of a loss by the kind of the pulled range."""

PullerFor: TypeAlias = Callable[[QueueRange, bool], RangePuller]
"""Creates the puller of a range, with the subscription's filter if the flag is set."""


class RangeReader:
    """Reader of one range of a task: decodes pulled ranges, and reports lost, missing and undecodable messages.

    With a filter, the last message is also pulled unfiltered. If its stored offset exceeds its position, the broker
    delivers messages at positions smaller than their stored offsets (see ``record_index``). If the broker was restarted
    before this message, the filtered responses show it (see ``placed_rows``). Only unfiltered responses show the
    positions, so the rest of the range is then pulled without a filter by tags. A filter by SQL92 is only at the
    broker.

    Not thread-safe.
    """

    def __init__(
        self,
        queue_range: QueueRange,
        client: ExecutorPullClient,
        puller_for: PullerFor,
        options: RangeReadOptions,
        columns: tuple[str, ...],
        logged: Sequence[QueueRange],
        record: TaskRecord,
        reported_losses: Sequence[LostRange],
    ) -> None:
        self._range = queue_range
        self._options = options
        self._columns = columns
        self._filter = options.filter_of(queue_range.queue.topic)
        self._tags = tags_of(self._filter)
        self._is_filtered = self._tags is not None or self._filter.is_sql
        self._puller_for = puller_for
        self._puller = puller_for(queue_range, self._is_filtered)
        self._last = puller_for(_last_of(queue_range), False) if self._is_filtered else None
        self._last_commit_log_offset: int | None = None
        self._undecodable = UndecodableMessages(queue_range.queue, options, client.cluster)
        self._client = client
        self._logged = logged
        self._record = record
        self._reported_losses = reported_losses

    def start(self) -> None:
        """Send the first pulls of the range and, with a filter, the pull of its last message. Wait for connections, not
        for responses."""
        self._puller.start()
        if self._last is not None:
            self._last.start()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Pull the range and yield its rows in batches of the required columns. A generator: it waits for pulls on
        iteration, applies ``badMessages``, and adds what was read and lost to the task's record. Raises DataLossError
        (``failOnDataLoss``), TransportError[LOGGED_BATCH_UNREADABLE], RemoteProtocolError[UNDECODABLE_MESSAGE_BODY |
        SQL_FILTER_UNUSABLE | CORRUPT_MESSAGE.QUEUE], what ``DeadLetterSender.send`` does."""
        if self._last is not None and self._detect_shift(self._last):
            yield from self._read_unfiltered(self._range)
            return
        try:
            yield from self._read(self._range, self._puller, is_unfiltered=not self._is_filtered)
        except ShiftedOffsetsError as error:
            rest = QueueRange(self._range.queue, error.begin_offset, self._range.end_offset)
            yield from self._read_unfiltered(rest)

    def _read_unfiltered(self, rest: QueueRange) -> Iterator[pa.RecordBatch]:
        """Discard the recorded losses of ``rest``, pull it without the filter by tags, and yield as ``batches`` does.
        Raises the same errors; before any pull, RemoteProtocolError[SQL_FILTER_UNUSABLE] for a filter by SQL92."""
        self._check_is_not_sql()
        self._record.forget_losses(rest)
        yield from self._read(rest, self._puller_for(rest, False), is_unfiltered=True)

    def _read(self, some: QueueRange, puller: RangePuller, *, is_unfiltered: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range ``some`` as ``batches`` does, as ``puller`` pulls them. Raises what ``batches``
        does, and ShiftedOffsetsError if filtered responses show messages at positions smaller than their stored
        offsets."""
        columns = self._column_decoder(is_unfiltered=is_unfiltered)
        decoder = RangeDecoder(columns, some, is_unfiltered=is_unfiltered)
        for pulled in self._pulled(puller):
            self._record.add_read(self._range.queue, pulled.end_offset - pulled.begin_offset, len(pulled.body))
            if pulled.kind is not READ:
                self._report(pulled.begin_offset, pulled.end_offset, CAUSE_OF[pulled.kind])
            if decoder.add(pulled):
                yield from self._finish_batch(decoder)
        yield from self._finish_batch(decoder)

    def _check_is_not_sql(self) -> None:
        """Raise RemoteProtocolError[SQL_FILTER_UNUSABLE] if the filter is by SQL92. The caller has found messages at
        positions smaller than their stored offsets."""
        if self._filter.is_sql:
            raise RemoteProtocolError("SQL_FILTER_UNUSABLE", queue=str(self._range.queue))

    def _column_decoder(self, *, is_unfiltered: bool) -> ColumnDecoder:
        """Return a decoder of the required columns and the queue offset, with the tag filter of the topic. For filtered
        bodies it also decodes the commit log offset."""
        queue = self._range.queue
        offsets = (QUEUE_OFFSET,) if is_unfiltered else (QUEUE_OFFSET, COMMIT_LOG_OFFSET)
        return column_decoder()(
            tuple(dict.fromkeys((*self._columns, *offsets))),
            broker_name=queue.broker_name,
            tags=self._tags,
            is_unfiltered=is_unfiltered,
            restores_origin=queue.topic == self._options.retry_topic,
        )

    def _finish_batch(self, decoder: RangeDecoder) -> Iterator[pa.RecordBatch]:
        """Decode what ``decoder`` collected, check its conditions by pulls, apply ``badMessages``, and yield the rows.
        Then log how many messages the broker stores and never delivers, each number once per queue. Without a filter,
        pull expected offsets that had no row again, wait, and report them (``_check_missing``)."""
        for expected, batches in decoder.finish():
            found: list[pa.RecordBatch] = []
            for decoded in batches:
                if isinstance(decoded, PlaceCheck):
                    decoded.check(self._place_limit_at(decoded.position))
                    continue
                batch, undecodable = decoded
                found.append(batch.select([QUEUE_OFFSET]))
                yield self._undecodable.apply_mode(batch, undecodable).select(list(self._columns))
            if decoder.max_displacement:
                _warn_of_undelivered(self._range.queue, decoder.max_displacement)
            self._report_missing(expected, found)

    def _detect_shift(self, last: RangePuller) -> bool:
        """Wait for the unfiltered pull of the last message, and record its commit log offset (None: there is no
        message). Return whether its stored offset exceeds its position; False without a message."""
        (pulled,) = self._pulled(last)
        offsets = first_offsets(pulled.body)
        if offsets is None:
            return False
        queue_offset, self._last_commit_log_offset = offsets
        return queue_offset >= self._range.end_offset

    def _place_limit_at(self, offset: int) -> int | None:
        """Return the commit log offset of the message at ``offset``, plus 1 if its stored offset exceeds ``offset``, or
        None without a message. Pull it alone, unfiltered, and wait. ``_detect_shift`` has pulled the range's last
        one."""
        if offset == self._range.end_offset - 1:
            return self._last_commit_log_offset
        offsets = first_offsets(self._pull_alone(offset).body)
        if offsets is None:
            return None
        queue_offset, commit_log_offset = offsets
        return commit_log_offset + (queue_offset > offset)

    def _pulled(self, puller: RangePuller) -> Iterator[PulledRange]:
        """Yield the ranges that ``puller`` pulls, waiting for each. Raises TransportError[LOGGED_BATCH_UNREADABLE],
        with the ranges to skip, for an outage of the broker in a streaming read, and other errors of
        ``RangePuller.pull`` as they are."""
        try:
            yield from puller.pull()
        except RocketMQError as error:
            if not (self._options.replays_batches and is_broker_outage(error)):
                raise
            broker_ranges = self._logged_at_this_broker()
            raise TransportError(
                "LOGGED_BATCH_UNREADABLE",
                range=str(self._range),
                cause=error.summary,
                skip_ranges=as_skip_ranges(broker_ranges or [self._range]),
            ) from error

    def _report_missing(self, expected: ExpectedOffsets, found: Sequence[pa.RecordBatch]) -> None:
        """Without a filter, report the ``expected`` offsets that are missing in ``found`` and not absent
        (``_check_missing``). With a filter do nothing."""
        if not self._is_filtered:
            for begin, end in expected.missing(found):
                self._check_missing(QueueRange(self._range.queue, begin, end))

    def _check_missing(self, missing: QueueRange) -> None:
        """Report missing offsets as vacant or as omitted by the broker (``_report``), after unfiltered pulls of single
        offsets. Pull the last one, which may show that all are vacant. If it does not, pull each one."""
        begin_offset, end_offset = missing.begin_offset, missing.end_offset
        last = self._vacant_from(end_offset - 1)
        if last is not None and last <= begin_offset:
            self._report(begin_offset, end_offset, VACANT)
            return
        offsets = range(begin_offset, end_offset)
        for is_vacant, offset_run in groupby(offsets, lambda offset: self._vacant_from(offset) is not None):
            run_offsets = list(offset_run)
            self._report(run_offsets[0], run_offsets[-1] + 1, VACANT if is_vacant else OMITTED)

    def _vacant_from(self, offset: int) -> int | None:
        """Pull ``offset`` alone and without filter, and wait. Return the first of the vacant offsets up to ``offset``,
        which is the end of the message before, or None if a message may have ``offset``."""
        return self._pull_alone(offset).vacant_from

    def _pull_alone(self, offset: int) -> PulledRange:
        """Pull ``offset`` alone and without filter, wait, and return the result. Raises what ``_pulled`` does."""
        (pulled,) = self._pulled(self._puller_for(_one_offset(self._range.queue, offset), False))
        return pulled

    def _report(self, begin_offset: int, end_offset: int, cause: LossCause) -> None:
        """Add the offsets to the losses of the task's record, vacant ones always, lost ones unless a reported loss
        of the driver contains them. With ``failOnDataLoss`` and offsets that are not vacant, request the bounds of the
        batch's other queues at this broker and wait. Then raise DataLossError[DATA_LOSS.OFFSETS_UNAVAILABLE |
        DATA_LOSS.QUEUE_TRUNCATED | DATA_LOSS.OFFSETS_OMITTED], reported or not, which lists their losses too."""
        lost = LostRange(self._range.queue, begin_offset, end_offset, cause)
        if cause != VACANT and self._options.fail_on_data_loss:
            report_losses([lost, *self._lost_in_other_queues()], is_failure=True)
        if cause == VACANT or not any(lost in reported for reported in self._reported_losses):
            self._record.add_loss(lost)

    def _lost_in_other_queues(self) -> tuple[LostRange, ...]:
        """Request the bounds of the batch's other queues at this broker, wait, and return the deleted parts of their
        ranges. Other tasks find these, and one error lists all. Queues of unresponsive brokers are omitted."""
        other_ranges = [one for one in self._logged_at_this_broker() if one.queue != self._range.queue]
        bounds = self._client.query_bounds({one.queue for one in other_ranges})
        return deleted(other_ranges, bounds)

    def _logged_at_this_broker(self) -> list[QueueRange]:
        """Return the batch's ranges of queues of this broker, this queue's too; [] if the batch is not logged."""
        broker_name = self._range.queue.broker_name
        return [one for one in self._logged if one.queue.broker_name == broker_name]


def _last_of(queue_range: QueueRange) -> QueueRange:
    """Return the range of the last offset of ``queue_range``, which is not empty."""
    return _one_offset(queue_range.queue, queue_range.end_offset - 1)


def _one_offset(queue: MessageQueue, offset: int) -> QueueRange:
    return QueueRange(queue, offset, offset + 1)


@lru_cache(maxsize=1_024)
def _warn_of_undelivered(queue: MessageQueue, count: int) -> None:
    """Log that the broker stores ``count`` messages without delivering them to any consumer, once per queue and count
    in a process (of the last 1,024)."""
    log.warning(
        "MESSAGES_UNREADABLE: Broker stores messages of queue=%s count=%d that it delivers to no consumer, most likely "
        "because their producer set flags of an IPv6 host; all other messages are read",
        queue,
        count,
    )
