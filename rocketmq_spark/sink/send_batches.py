"""Rows as the batches that are sent: by destination, each as large as a request should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from rocketmq_spark.sink.outgoing_rows import OutgoingRows, cuts
from rocketmq_spark.wire.arrow.message_encoder import lengths_of
from rocketmq_spark.wire.arrow.slices import Positions

BATCH_BYTES: Final = 256 * 1024
"""At most so much in one batch, unless a single message has more: what travels while another batch is stored."""

STORED_EXTRA_BYTES: Final = 256
"""What a stored message may have beyond one in a batch: its topic, places, times, hosts, sums, the broker's name."""


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Messages for one topic, one after another in ``body``: rows ``first_row`` and others of their task."""

    topic: str
    body: memoryview
    row_count: int
    first_row: int


def send_batches(rows: OutgoingRows, messages: pa.BinaryArray, limit_bytes: int = BATCH_BYTES) -> Iterator[SendBatch]:
    """The batches of ``rows``, encoded as ``messages``; within one the rows keep their order."""
    for topic, order in _by_topic(rows.topics):
        ordered = messages if order is None else messages.take(pa.array(order))
        first_rows = np.arange(len(rows)) if order is None else order
        ends = _offsets(ordered)
        data = memoryview(ordered.buffers()[2])
        for begin, end in cuts(lengths_of(ordered) + STORED_EXTRA_BYTES, limit_bytes):
            yield SendBatch(topic, data[ends[begin] : ends[end]], end - begin, rows.first_row + int(first_rows[begin]))


def _by_topic(topics: pa.StringArray) -> Iterator[tuple[str, Positions | None]]:
    """Each topic with the positions of its rows; None for all of them."""
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], None
        return
    codes = encoded.indices.to_numpy()
    for code, name in enumerate(names):
        yield name, np.flatnonzero(codes == code)


def _offsets(values: pa.BinaryArray) -> list[int]:
    """Where each value begins in the data, and the last ends."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    positions: list[int] = offsets.tolist()
    return positions
