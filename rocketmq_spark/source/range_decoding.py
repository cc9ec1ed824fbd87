"""Conversion of pulled messages of a range to rows: the offsets that a batch covers, those that are missing, and
incremental decoding before a batch is complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.model import QueueRange
from rocketmq_spark.pull.pull_request import PulledRange
from rocketmq_spark.wire.arrow.columns import BatchBuilder, ColumnDecoder

QUEUE_OFFSET: Final = "queueOffset"

BATCH_BYTES: Final = 8 * 1024 * 1024
"""Encoded size at which pulled messages become a record batch. Spark's JVM takes a tenth less for batches of 8 MiB than
for batches of 4 MiB; 16 MiB gain nothing more."""

DECODED_AT_ONCE_BYTES: Final = 256 * 1024
"""Encoded size at which pulled messages are decoded, while they are in the processor's cache. A decoder that cannot add
to a batch decodes a complete batch instead."""

EXPECTED_BYTES: Final = BATCH_BYTES + 2 * DECODED_AT_ONCE_BYTES
"""Maximum encoded size of a batch, unless a response is larger than a broker's default limit."""


RECORD_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an Arrow record batch, unless one row is larger. Spark's JVM reads a batch into direct memory at
once."""


class ExpectedOffsets(NamedTuple):
    """Offsets ``[begin_offset, end_offset)``, each of which must be a row, except those in ``absent``: these are lost,
    or never belonged to a message."""

    begin_offset: int
    end_offset: int
    absent: tuple[range, ...] = ()

    @classmethod
    def from_pulled(cls, collected: Sequence[PulledRange]) -> ExpectedOffsets:
        """Return the offsets of ``collected``, which are adjacent ranges in ascending order."""
        lost = (
            range(pulled.begin_offset, pulled.end_offset) for pulled in collected if pulled.is_lost or pulled.is_vacant
        )
        return cls(collected[0].begin_offset, collected[-1].end_offset, tuple(lost))

    def followed_by(self, following: ExpectedOffsets) -> ExpectedOffsets:
        """Return these offsets together with ``following``, which begin where these end."""
        return ExpectedOffsets(self.begin_offset, following.end_offset, self.absent + following.absent)

    def missing(self, found: Sequence[pa.RecordBatch]) -> list[tuple[int, int]]:
        """Return half-open ranges of offsets that are neither absent nor rows of ``found``, which has each at most
        once."""
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
    """Return the non-empty bodies to decode, and for each body the offsets that its response covers."""
    found = [pulled for pulled in collected if pulled.body]
    return [pulled.body for pulled in found], [pulled.response_range for pulled in found]


def drop_duplicates(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the first row of each queue offset, in ascending order.

    Bodies of neighbouring pulls may share messages: a filtered response extends as far as its size limit allows, and a
    broker returns a complete inner batch for a pull of any part of it.
    """
    offsets = batch.column(QUEUE_OFFSET).to_numpy()
    if np.all(offsets[1:] > offsets[:-1]):
        return batch
    _, first = np.unique(offsets, return_index=True)
    return batch.take(pa.array(first))


def in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch, or slices of it with at most ``RECORD_BATCH_BYTES`` or one row each."""
    if batch.num_rows <= 1 or batch.nbytes <= RECORD_BATCH_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    for half in (batch.slice(0, middle), batch.slice(middle)):
        yield from in_parts(half)


class PartialBatch:
    """Next batch of ``queue_range``, decoded incrementally before all of it is pulled.

    If the decoder rejects a part, the caller keeps that part and all later ones until ``finish``.

    Not thread-safe.
    """

    def __init__(self, decoder: ColumnDecoder, queue_range: QueueRange) -> None:
        self._decoder = decoder
        self._range = queue_range
        self._growing: BatchBuilder | None = None
        self._expected: ExpectedOffsets | None = None
        self._is_refused = False
        self.size_bytes = 0
        """Encoded size of the added messages."""

    def add(self, collected: Sequence[PulledRange]) -> bool:
        """Decode the next pulled ranges. Return False if they were not added and remain with the caller."""
        if self._is_refused:
            return False
        expected = ExpectedOffsets.from_pulled(collected)
        if self._growing is None:
            most_rows = self._range.end_offset - expected.begin_offset
            self._growing = self._decoder.batch_builder(EXPECTED_BYTES, most_rows)
        bodies, response_range = bodies_and_ranges(collected)
        if self._growing is None or not self._growing.add(
            bodies, expected.begin_offset, expected.end_offset, response_range
        ):
            self._is_refused = True
            return False
        self._expected = expected if self._expected is None else self._expected.followed_by(expected)
        self.size_bytes += sum(map(len, bodies))
        return True

    def finish(self) -> tuple[pa.RecordBatch, ExpectedOffsets] | None:
        """Return the rows and their expected offsets; None if there are none. The next ``add`` starts another batch."""
        batch_builder, expected = self._growing, self._expected
        self._growing, self._expected, self._is_refused, self.size_bytes = None, None, False, 0
        return None if batch_builder is None or expected is None else (batch_builder.finish(), expected)
