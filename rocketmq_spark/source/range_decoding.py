"""Conversion of pulled ranges to rows, as they arrive or a batch at once, with the offsets that a batch must have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import QueueRange
from rocketmq_spark.pull.pull_request import READ, PulledRange
from rocketmq_spark.wire.arrow.columns import BatchBuilder, BatchTooLargeError, ColumnDecoder
from rocketmq_spark.wire.arrow.record_index import frame_records
from rocketmq_spark.wire.arrow.slices import Positions
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.message.stored_message import MAX_OFFSET, check_layout

QUEUE_OFFSET: Final = "queueOffset"
COMMIT_LOG_OFFSET: Final = "commitLogOffset"

BATCH_BYTES: Final = 8 * 1024 * 1024
"""Encoded size at which pulled messages become a record batch. Spark's JVM needs a tenth less for batches of 8 MiB than
for batches of 4 MiB; 16 MiB gain nothing more."""

DECODED_AT_ONCE_BYTES: Final = 256 * 1024
"""Encoded size at which pulled messages are decoded, while they are in the processor's cache. A decoder that cannot add
to a batch decodes a complete batch instead."""

EXPECTED_BYTES: Final = BATCH_BYTES + 2 * DECODED_AT_ONCE_BYTES
"""Maximum encoded size of a batch, unless a response is larger than a broker's default limit."""

RECORD_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an Arrow record batch, unless one row is larger. Spark's JVM reads a batch into direct memory at
once."""


class ShiftedOffsetsError(ValueError):
    """Filtered responses have messages at positions smaller than their stored offsets. Exactly the rows before
    ``begin_offset`` have been yielded."""

    def __init__(self, begin_offset: int) -> None:
        super().__init__(f"messages are at positions below their stored offsets, from {begin_offset} on or later")
        self.begin_offset = begin_offset


class PlaceCheck(NamedTuple):
    """Condition on rows of filtered responses, which only an unfiltered pull of the message at the offset ``position``
    can check. Until it holds, the rows that follow may not be yielded. ``later_place``: commit log offset of the first
    row beyond ``position``. ``begin_offset``: that of the pulled range."""

    begin_offset: int
    position: int
    later_place: int

    def check(self, limit: int | None) -> None:
        """Raise ShiftedOffsetsError, with ``begin_offset``, if ``later_place`` is less than ``limit``: the commit log
        offset of the message at ``position``, plus 1 if its stored queue offset is larger; None if unknown."""
        if limit is not None and self.later_place < limit:
            raise ShiftedOffsetsError(self.begin_offset)


class ExpectedOffsets(NamedTuple):
    """Offsets ``[begin_offset, end_offset)``, each of which must be a row, except those in ``absent``: these are lost,
    or never belonged to a message."""

    begin_offset: int
    end_offset: int
    absent: tuple[range, ...] = ()

    @classmethod
    def from_pulled(cls, collected: Sequence[PulledRange]) -> ExpectedOffsets:
        """Return the offsets of ``collected``: at least one range, each beginning where the one before ends. Lost and
        vacant ranges are ``absent``."""
        lost = (range(pulled.begin_offset, pulled.end_offset) for pulled in collected if pulled.kind is not READ)
        return cls(collected[0].begin_offset, collected[-1].end_offset, tuple(lost))

    def followed_by(self, following: ExpectedOffsets) -> ExpectedOffsets:
        """Return these offsets together with ``following``, which begin where these end."""
        return ExpectedOffsets(self.begin_offset, following.end_offset, self.absent + following.absent)

    def missing(self, found: Sequence[pa.RecordBatch]) -> list[tuple[int, int]]:
        """Return, in ascending order, half-open ranges of offsets that are neither absent nor rows of ``found``; [] if
        there are none. Each offset may be in one row of ``found`` only."""
        if sum(batch.num_rows for batch in found) + sum(map(len, self.absent)) >= self.end_offset - self.begin_offset:
            return []
        offsets = [batch.column(QUEUE_OFFSET).to_numpy() for batch in found]
        begins = np.concatenate([*offsets, np.array([one.start for one in self.absent], np.int64)])
        ends = np.concatenate(
            [*(batch_offsets + 1 for batch_offsets in offsets), np.array([one.stop for one in self.absent], np.int64)]
        )
        order = np.argsort(begins)
        reached = np.append(self.begin_offset, np.maximum.accumulate(ends[order]))
        resumed = np.append(begins[order], self.end_offset)
        is_gap = reached < resumed
        return list(zip(reached[is_gap].tolist(), resumed[is_gap].tolist(), strict=True))


def overlapping(collected: Sequence[PulledRange], begin_offset: int, end_offset: int) -> list[PulledRange]:
    """Return the pulled ranges that have an offset in ``[begin_offset, end_offset)``."""
    return [pulled for pulled in collected if pulled.begin_offset < end_offset and pulled.end_offset > begin_offset]


def bodies_and_ranges(collected: Sequence[PulledRange]) -> tuple[list[memoryview], list[tuple[int, int]]]:
    """Return the non-empty bodies to decode, and for each body the half-open range of offsets that its response
    covers."""
    found = [pulled for pulled in collected if pulled.body]
    return [pulled.body for pulled in found], [pulled.response_range for pulled in found]


def drop_duplicates(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the first row of each queue offset, by ascending offset; ``batch`` itself if its offsets are unique and
    ascending.

    Bodies of consecutive pulls may share messages. A filtered response extends as far as its size limit allows. A
    broker returns a complete inner batch for a pull of any part of it.
    """
    offsets = batch.column(QUEUE_OFFSET).to_numpy()
    if np.all(offsets[1:] > offsets[:-1]):
        return batch
    _, first = np.unique(offsets, return_index=True)
    return batch.take(pa.array(first))


def placed_rows(batch: pa.RecordBatch, begin_offset: int, end_offset: int) -> tuple[pa.RecordBatch, PlaceCheck | None]:
    """Return each row with a queue offset less than ``end_offset`` once, by ascending offset, and a condition that the
    caller must check, or None. The rows are a slice of ``batch``, not a copy, if they are unique and in order.

    ``batch`` has all rows of filtered responses to pulls of ``[begin_offset, end_offset)``. It may have later rows, of
    ``end_offset`` or larger, and not of the last returned row's inner batch. If it has any, there is a condition.

    Raises ShiftedOffsetsError, with ``begin_offset``, if stored queue offsets do not ascend in the order of the commit
    log.
    """
    offsets, places = (batch.column(name).to_numpy() for name in (QUEUE_OFFSET, COMMIT_LOG_OFFSET))
    order, count, condition = _checked_order(offsets, places, begin_offset, end_offset)
    return batch.slice(0, count) if order is None else batch.take(pa.array(order[:count])), condition


def _checked_order(
    offsets: Positions, places: Positions, begin_offset: int, end_offset: int
) -> tuple[Positions | None, int, PlaceCheck | None]:
    """Return the row numbers of ``_in_log_order(offsets, places)``, how many of them, from the first on, have an offset
    less than ``end_offset``, and the condition. ``offsets`` and ``places`` are the rows' queue offsets and commit log
    offsets. For the other arguments, the condition, and the error, see ``placed_rows``."""
    order, offsets, places = _in_log_order(offsets, places)
    if np.any(offsets[1:] <= offsets[:-1]):
        raise ShiftedOffsetsError(begin_offset)
    count = int(np.searchsorted(offsets, end_offset))
    later = places[count:][places[count:] > places[count - 1]] if count else places
    return order, count, PlaceCheck(begin_offset, end_offset - 1, int(later[0])) if len(later) else None


def _in_log_order(offsets: Positions, places: Positions) -> tuple[Positions | None, Positions, Positions]:
    """Return (row numbers, queue offsets, commit log offsets) of the rows, each once, by ascending commit log offset,
    then queue offset. The row numbers are None if the rows are in this order already."""
    if np.all(offsets[1:] > offsets[:-1]) and np.all(places[1:] >= places[:-1]):
        return None, offsets, places
    order = np.lexsort((offsets, places))
    offsets, places = offsets[order], places[order]
    is_first = np.append(True, (offsets[1:] != offsets[:-1]) | (places[1:] != places[:-1]))
    return order[is_first], offsets[is_first], places[is_first]


def in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield ``batch`` itself if it has at most ``RECORD_BATCH_BYTES`` or one row. Otherwise yield slices of it, in
    order, each within that size or of one row."""
    if batch.num_rows <= 1 or batch.nbytes <= RECORD_BATCH_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    for half in (batch.slice(0, middle), batch.slice(middle)):
        yield from in_parts(half)


DecodedRows: TypeAlias = tuple[pa.RecordBatch, list[UndecodableMessage]]
"""Rows, each once, and the undecodable messages among them."""


class DecodedRanges(NamedTuple):
    """Rows of adjacent pulled ranges, and the offsets that they must have. ``batches``: decoded as they are consumed.
    A ``PlaceCheck`` is for the caller to check before the rows that follow it."""

    expected: ExpectedOffsets
    batches: Iterator[PlaceCheck | DecodedRows]


class RangeDecoder:
    """Decoder of what is pulled of ``queue_range``, in batches of ``BATCH_BYTES``. It holds all pulled ranges that are
    not in a batch yet, decoded or not.

    Where the decoder has a builder, ranges are decoded as they arrive. Once it rejects one, that range and all later
    ones of the batch are decoded when the batch ends.

    ``is_unfiltered``: whether the pulls have no filter, so that stored offsets are positions. If False, the decoder has
    queue offset and commit log offset as columns, and ``finish`` yields conditions, see ``placed_rows``.

    It sends no request. Not thread-safe.
    """

    def __init__(self, decoder: ColumnDecoder, queue_range: QueueRange, *, is_unfiltered: bool = True) -> None:
        self._decoder = decoder
        self._range = queue_range
        self._is_unfiltered = is_unfiltered
        self._collected: list[PulledRange] = []
        self._collected_bytes = 0
        self._builder: BatchBuilder | None = None
        self._expected: ExpectedOffsets | None = None
        """Offsets of the ranges in the builder."""
        self._decoded_bytes = 0
        self._is_rejected = False

    @property
    def max_displacement(self) -> int:
        """Return how many messages the broker stores in the queue and does not deliver, as far as decoded ranges show.
        It is the maximum so far, also of earlier batches; 0 without any. See ``ColumnDecoder``."""
        return self._decoder.max_displacement

    def add(self, pulled: PulledRange) -> bool:
        """Add the next pulled range; decode what is collected once it reaches ``DECODED_AT_ONCE_BYTES``. Return whether
        the bodies that are decoded, or those that are not, reach ``BATCH_BYTES``: if so, call ``finish``."""
        self._collected.append(pulled)
        self._collected_bytes += len(pulled.body)
        if self._collected_bytes >= DECODED_AT_ONCE_BYTES:
            self._decode_collected()
        return max(self._collected_bytes, self._decoded_bytes) >= BATCH_BYTES

    def finish(self) -> Iterator[DecodedRanges]:
        """Yield all rows of the added ranges in at most two parts; nothing if none were added. The first part has the
        ranges in the builder. The second one has all later ranges, and decodes them while its ``batches`` are iterated,
        which may raise RemoteProtocolError[CORRUPT_MESSAGE.QUEUE]. Both may raise ShiftedOffsetsError. A generator: its
        first step decodes into the builder and resets the decoder, so that the next ``add`` starts another batch."""
        if self._collected:
            self._decode_collected()
        builder, expected, collected = self._builder, self._expected, self._collected
        self._builder, self._expected, self._collected, self._is_rejected = None, None, [], False
        self._decoded_bytes = self._collected_bytes = 0
        if builder is not None and expected is not None:
            rows = self._each_once(builder.finish(), [], expected.begin_offset, expected.end_offset)
            yield DecodedRanges(expected, iter(rows))
        if collected:
            expected = ExpectedOffsets.from_pulled(collected)
            offsets = expected.begin_offset, expected.end_offset
            yield DecodedRanges(expected, self._decode(collected, *offsets, self._decoded_to(expected.end_offset)))

    def _decode_collected(self) -> None:
        """Move the collected ranges, at least one, into the builder, decoded. If the decoder has no builder, or the
        builder rejects them, keep them for ``finish``, and do nothing in later calls for this batch."""
        if self._is_rejected:
            return
        expected = ExpectedOffsets.from_pulled(self._collected)
        if self._builder is None:
            most_rows = self._range.end_offset - expected.begin_offset
            self._builder = self._decoder.batch_builder(EXPECTED_BYTES, most_rows)
        bodies, response_ranges = bodies_and_ranges(self._collected)
        if self._builder is None or not self._builder.add(
            bodies, expected.begin_offset, self._decoded_to(expected.end_offset), response_ranges
        ):
            self._is_rejected = True
            return
        self._expected = expected if self._expected is None else self._expected.followed_by(expected)
        self._decoded_bytes += self._collected_bytes
        self._collected, self._collected_bytes = [], 0

    def _decoded_to(self, end_offset: int) -> int:
        """Return the exclusive end of the stored offsets to decode, of ranges that end at ``end_offset``. It is
        ``end_offset``, or MAX_OFFSET for filtered responses, whose stored offsets may be larger than positions."""
        return end_offset if self._is_unfiltered else MAX_OFFSET

    def _each_once(
        self, batch: pa.RecordBatch, found: list[UndecodableMessage], begin_offset: int, end_offset: int
    ) -> list[PlaceCheck | DecodedRows]:
        """Return each row once, by ascending offset, with the undecodable messages ``found``. Of filtered responses
        return only rows before ``end_offset``, after the condition on them; see ``placed_rows``, also for the error."""
        if self._is_unfiltered:
            return [(drop_duplicates(batch), found)]
        rows, condition = placed_rows(batch, begin_offset, end_offset)
        return [(rows, found)] if condition is None else [condition, (rows, found)]

    def _decode(
        self, collected: Sequence[PulledRange], begin_offset: int, end_offset: int, decoded_to: int
    ) -> Iterator[PlaceCheck | DecodedRows]:
        """Yield the rows of ``[begin_offset, end_offset)`` as ``_each_once`` returns them. If the messages before
        ``decoded_to`` are too large to decode together, decode parts, repeatedly. Split the offsets at
        ``BatchTooLargeError.split_at``. If it is unknown, first omit messages beyond ``end_offset``, then halve. Raises
        ShiftedOffsetsError, and RemoteProtocolError[CORRUPT_MESSAGE.QUEUE], also for one offset that is too large."""
        bodies, response_ranges = bodies_and_ranges(collected)
        try:
            batch, found = self._decoder.decode_with_undecodable(bodies, begin_offset, decoded_to, response_ranges)
        except BatchTooLargeError as error:
            if decoded_to != end_offset:
                yield from self._place_checks(bodies, begin_offset, end_offset)
            split_at = [offset for offset in error.split_at if offset < end_offset]
            if decoded_to == end_offset and not split_at:
                first = overlapping(collected, begin_offset, end_offset)[0]
                split_at = self._halves(error, first, begin_offset, end_offset)
        except RemoteProtocolError as error:
            raise self._corrupt(self._first_damaged(collected), error.summary) from error
        else:
            found = [message for message in found if message.row_count(range(begin_offset, end_offset))]
            yield from self._each_once(batch, found, begin_offset, end_offset)
            return
        for begin, end in pairwise((begin_offset, *split_at, end_offset)):
            yield from self._decode(self._with_stored(collected, begin, end), begin, end, end)

    def _place_checks(self, bodies: Sequence[memoryview], begin_offset: int, end_offset: int) -> list[PlaceCheck]:
        """Return the condition of ``placed_rows``, if there is one, or raise its error, without decoded rows; of an
        inner batch only the first message is compared. Return [] for unfiltered responses."""
        if self._is_unfiltered:
            return []
        head = frame_records(bodies).head
        places = head["queue_offset"].astype(np.int64), head["commit_log_offset"].astype(np.int64)
        _, _, condition = _checked_order(*places, begin_offset, end_offset)
        return [] if condition is None else [condition]

    def _with_stored(self, collected: Sequence[PulledRange], begin_offset: int, end_offset: int) -> list[PulledRange]:
        """Return the pulled ranges that may have a message stored for an offset in ``[begin_offset, end_offset)``; for
        filtered responses also those of lower positions."""
        return overlapping(collected, begin_offset if self._is_unfiltered else 0, end_offset)

    def _halves(self, error: BatchTooLargeError, first: PulledRange, begin_offset: int, end_offset: int) -> list[int]:
        """Return the offset at which to split in halves. Raises RemoteProtocolError[CORRUPT_MESSAGE.QUEUE] for one
        offset."""
        if end_offset - begin_offset == 1:
            raise self._corrupt(first, str(error)) from error
        return [(begin_offset + end_offset) // 2]

    def _corrupt(self, pulled: PulledRange, problem: str) -> RemoteProtocolError:
        """Return the error for a damaged response, with the first offset of ``pulled``."""
        return RemoteProtocolError(
            "CORRUPT_MESSAGE.QUEUE", queue=str(self._range.queue), offset=pulled.begin_offset, problem=problem
        )

    def _first_damaged(self, collected: Sequence[PulledRange]) -> PulledRange:
        """Return the first range whose body the scalar decoder rejects, or the first of all if it rejects none. The
        error counts messages within its body."""
        for pulled in collected:
            try:
                check_layout(pulled.body, broker_name=self._range.queue.broker_name)
            except RemoteProtocolError:
                return pulled
        return collected[0]
