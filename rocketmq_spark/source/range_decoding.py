"""What was pulled of a range becomes rows: which offsets a batch answers for, which of them are missing, and what is
decoded before all of a batch is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.model import QueueRange
from rocketmq_spark.pull.pull_request import PulledRange
from rocketmq_spark.wire.arrow.columns import ColumnDecoder, GrowingBatch

QUEUE_OFFSET: Final = "queueOffset"

BATCH_BYTES: Final = 8 * 1024 * 1024
"""Encoded size at which pulled messages become a record batch. Spark's JVM takes a tenth less for those of 8 MiB than
for those of 4; 16 bring nothing more."""

DECODED_AT_ONCE_BYTES: Final = 256 * 1024
"""While it is in the processor's cache. A decoder that cannot add to a batch waits for a whole one."""

EXPECTED_BYTES: Final = BATCH_BYTES + 2 * DECODED_AT_ONCE_BYTES
"""What a batch has at most where no answer is larger than what a broker gives by default."""


RECORD_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Of one Arrow record batch, unless a row has more. Spark's JVM reads a batch into direct memory at once."""


class Promised(NamedTuple):
    """The offsets ``[begin_offset, end_offset)``, each of which is a row but for those that are ``absent``: they are
    lost, or have never been a message's."""

    begin_offset: int
    end_offset: int
    absent: tuple[range, ...] = ()

    @classmethod
    def by(cls, gathered: Sequence[PulledRange]) -> Promised:
        """By ranges that touch."""
        lost = (
            range(pulled.begin_offset, pulled.end_offset) for pulled in gathered if pulled.is_lost or pulled.is_vacant
        )
        return cls(gathered[0].begin_offset, gathered[-1].end_offset, tuple(lost))

    def and_then(self, behind: Promised) -> Promised:
        """With those that touch these from behind."""
        return Promised(self.begin_offset, behind.end_offset, self.absent + behind.absent)

    def left_out(self, found: Sequence[pa.RecordBatch]) -> list[tuple[int, int]]:
        """Half-open ranges of offsets that are neither rows of ``found``, where each is at most once, nor absent."""
        if sum(batch.num_rows for batch in found) + sum(map(len, self.absent)) >= self.end_offset - self.begin_offset:
            return []
        offsets = [batch.column(QUEUE_OFFSET).to_numpy() for batch in found]
        begins = np.concatenate([*offsets, np.array([one.start for one in self.absent], np.int64)])
        ends = np.concatenate(
            [*(there + 1 for there in offsets), np.array([one.stop for one in self.absent], np.int64)]
        )
        order = np.argsort(begins)
        reached = np.append(self.begin_offset, np.maximum.accumulate(ends[order]))
        goes_on = np.append(begins[order], self.end_offset)
        is_gap = reached < goes_on
        return list(zip(reached[is_gap].tolist(), goes_on[is_gap].tolist(), strict=True))


def overlapping(gathered: Sequence[PulledRange], begin_offset: int, end_offset: int) -> list[PulledRange]:
    """Those with any of the offsets."""
    return [pulled for pulled in gathered if pulled.begin_offset < end_offset and pulled.end_offset > begin_offset]


def bodies_and_answered(gathered: Sequence[PulledRange]) -> tuple[list[memoryview], list[tuple[int, int]]]:
    """What there is to decode, and for each body which offsets it answers."""
    found = [pulled for pulled in gathered if pulled.body]
    return [pulled.body for pulled in found], [pulled.answered for pulled in found]


def each_once(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The first row of each queue offset, in their order.

    The bodies of neighbouring pulls may share messages: a filtered answer reaches as far as it has room, and an inner
    batch comes whole to whoever asks for any part of it.
    """
    offsets = batch.column(QUEUE_OFFSET).to_numpy()
    if np.all(offsets[1:] > offsets[:-1]):
        return batch
    _, first = np.unique(offsets, return_index=True)
    return batch.take(pa.array(first))


def in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, or slices with at most ``RECORD_BATCH_BYTES`` or one row each."""
    if batch.num_rows <= 1 or batch.nbytes <= RECORD_BATCH_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    for half in (batch.slice(0, middle), batch.slice(middle)):
        yield from in_parts(half)


class DecodedAhead:
    """The next batch of ``wanted``, as far as it is decoded before all of it is there.

    What its decoder does not add, and what comes behind that, is for whoever gathers it until ``take``.

    Not thread-safe.
    """

    def __init__(self, decoder: ColumnDecoder, wanted: QueueRange) -> None:
        self._decoder = decoder
        self._wanted = wanted
        self._growing: GrowingBatch | None = None
        self._promised: Promised | None = None
        self._is_refused = False
        self.size_bytes = 0
        """Encoded size of what it has."""

    def add(self, gathered: Sequence[PulledRange]) -> bool:
        """Decode what comes next; False: it is left to the caller."""
        if self._is_refused:
            return False
        promised = Promised.by(gathered)
        if self._growing is None:
            most_rows = self._wanted.end_offset - promised.begin_offset
            self._growing = self._decoder.growing(EXPECTED_BYTES, most_rows)
        bodies, answered = bodies_and_answered(gathered)
        if self._growing is None or not self._growing.add(bodies, promised.begin_offset, promised.end_offset, answered):
            self._is_refused = True
            return False
        self._promised = promised if self._promised is None else self._promised.and_then(promised)
        self.size_bytes += sum(map(len, bodies))
        return True

    def take(self) -> tuple[pa.RecordBatch, Promised] | None:
        """What it has, if anything. The next ``add`` begins another batch."""
        growing, promised = self._growing, self._promised
        self._growing, self._promised, self._is_refused, self.size_bytes = None, None, False, 0
        return None if growing is None or promised is None else (growing.finish(), promised)
