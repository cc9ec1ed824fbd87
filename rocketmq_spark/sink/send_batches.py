"""Rows as what is sent: batches by destination, each as large as a request should be, and single messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.sink.outgoing_rows import SHARDING_KEY_PROPERTY, OutgoingRows, cuts
from rocketmq_spark.wire.arrow.message_encoder import MessageIds, encode_messages, id_properties, lengths_of
from rocketmq_spark.wire.arrow.slices import Numbers, Positions

BATCH_BYTES: Final = 256 * 1024
"""At most so much in one batch: what travels while another batch is stored."""

STORED_EXTRA_BYTES: Final = 256
"""What a stored message may have beyond one in a batch: its topic, places, times, hosts, sums, the broker's name."""


class Place(NamedTuple):
    """What a row says of where it goes. All None: to any queue of its topic."""

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    sharding_key: str | None = None


QueueOf = Callable[[Place], MessageQueue | None]
"""The queue for a place; None: any of its topic."""


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Messages for one topic, and for ``queue`` where that is given: rows ``first_row`` and others of their task.

    ``body`` is that of the request: several messages one after another, or with ``properties`` that of a single one.
    """

    topic: str
    queue: MessageQueue | None
    body: memoryview
    row_count: int
    first_row: int
    sys_flag: int = 0
    properties: str | None = None


@dataclass(frozen=True, slots=True)
class EncodableRows:
    """Rows that brokers take, with their ids, their properties as they travel, and how their bodies are compressed."""

    rows: OutgoingRows
    ids: MessageIds
    properties: tuple[pa.BinaryArray, ...]
    sys_flags: Numbers


def send_batches(given: EncodableRows, queue_of: QueueOf, limit_bytes: int = BATCH_BYTES) -> Iterator[SendBatch]:
    """What to send; rows for one queue are sent in their order. A row above ``limit_bytes`` is a single message: of a
    batch brokers limit the whole, of a single message the body."""
    rows = given.rows
    if not len(rows):
        return
    messages = encode_messages(rows.bodies, given.ids, given.properties)
    are_single = rows.are_delayed | (lengths_of(messages) + STORED_EXTRA_BYTES > limit_bytes)
    manners = given.sys_flags * 2 + are_single
    for (topic, queue), positions in _by_destination(rows, queue_of):
        for part in _by_manner(positions, manners, in_order=queue is not None):
            sys_flag = int(given.sys_flags[part[0]])
            if are_single[part[0]]:
                yield from _singles(given, topic, queue, part, sys_flag)
                continue
            for begin, end, body in _bodies(messages, part, limit_bytes):
                yield SendBatch(topic, queue, body, end - begin, int(rows.numbers[part[begin]]), sys_flag)


def _bodies(messages: pa.BinaryArray, part: Positions, limit_bytes: int) -> Iterator[tuple[int, int, memoryview]]:
    """Ranges of ``part`` that fill a batch each, and the bytes of these messages."""
    ordered = messages if len(part) == len(messages) else messages.take(pa.array(part))
    ends = _offsets(ordered)
    data = memoryview(ordered.buffers()[2])
    for begin, end in cuts(lengths_of(ordered) + STORED_EXTRA_BYTES, limit_bytes):
        yield begin, end, data[ends[begin] : ends[end]]


def _singles(
    given: EncodableRows, topic: str, queue: MessageQueue | None, part: Positions, sys_flag: int
) -> Iterator[SendBatch]:
    some = pa.array(part)
    columns = [column.take(some).to_pylist() for column in (id_properties(given.ids), *given.properties)]
    bodies = given.rows.bodies.take(some).to_pylist()
    for index, (body, *properties) in enumerate(zip(bodies, *columns, strict=True)):
        number = int(given.rows.numbers[part[index]])
        text = b"".join(properties).decode()
        yield SendBatch(topic, queue, memoryview(body), 1, number, sys_flag, text)


def _by_destination(
    rows: OutgoingRows, queue_of: QueueOf
) -> Iterator[tuple[tuple[str, MessageQueue | None], Positions]]:
    """Each destination with the positions of its rows, in their order."""
    columns = {
        "topic": rows.topics,
        "broker_name": rows.broker_names,
        "queue_id": rows.queue_ids,
        "sharding_key": rows.texts.get(SHARDING_KEY_PROPERTY),
    }
    given = {name: column for name, column in columns.items() if column is not None}
    codes = np.zeros(len(rows), np.int64)
    for column in given.values():
        encoded = column.dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) > 1:
            combined = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(combined, return_inverse=True)[1]
    firsts = np.unique(codes, return_index=True)[1]
    numbers: dict[tuple[str, MessageQueue | None], int] = {}
    destination_of = np.empty(len(firsts), np.int64)
    for code, first in enumerate(firsts):
        place = _place(given, int(first))
        destination_of[code] = numbers.setdefault((place.topic, queue_of(place)), len(numbers))
    destinations = destination_of[codes]
    for destination, number in numbers.items():
        yield destination, np.flatnonzero(destinations == number)


def _place(columns: dict[str, pa.Array], position: int) -> Place:
    values = {name: column[position].as_py() for name, column in columns.items()}
    key = values.pop("sharding_key", None)
    return Place(**values, sharding_key=None if key is None else key.decode())


def _by_manner(positions: Positions, manners: Numbers, *, in_order: bool) -> Iterator[Positions]:
    """Positions that may share a batch. ``in_order``: neighbours only."""
    of_these = manners[positions]
    if in_order:
        yield from np.split(positions, np.flatnonzero(np.diff(of_these)) + 1)
        return
    for manner in np.unique(of_these):
        yield positions[of_these == manner]


def _offsets(values: pa.BinaryArray) -> list[int]:
    """Where each value begins in the data, and the last ends."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    positions: list[int] = offsets.tolist()
    return positions
