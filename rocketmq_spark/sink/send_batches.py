"""Conversion of rows to send requests: batches by destination, each up to the size limit, and single messages."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.model import MessageQueue, TopicRoute
from rocketmq_spark.remoting.write_queues import no_writable_queue
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, distinct_rows, split_ranges
from rocketmq_spark.wire.arrow.message_encoder import MessageIds, encode_messages, id_properties, lengths_of
from rocketmq_spark.wire.arrow.slices import Mask, Numbers, Positions
from rocketmq_spark.wire.body.subscription import java_hash_code
from rocketmq_spark.wire.message.properties import SHARDING_KEY as SHARDING_KEY_PROPERTY

BATCH_BYTES: Final = 1024 * 1024
"""Maximum number of bytes of a batch. A few large batches cost brokers and tasks less processor time than many small
ones; four are in flight at once."""

STORED_EXTRA_BYTES: Final = 256
"""Bytes by which a stored message may exceed its size in a batch: topic, offsets, times, hosts, CRC, broker name."""


class RowTarget(NamedTuple):
    """Destination that a row names. All None: any queue of its topic."""

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    sharding_key: str | None = None


class Destination(NamedTuple):
    """Topic and queue of a batch; ``queue`` None: any queue of the topic."""

    topic: str
    queue: MessageQueue | None


QueueOf = Callable[[RowTarget], MessageQueue | None]
"""Function from a row's target to its queue; None: any queue of the topic."""


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Messages for one topic, and for one ``queue`` if set. ``first_row``: number of the first of its rows in the task.

    ``body`` is the request's: several encoded messages or, with ``properties``, the body of a single message.
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
    """Valid rows with IDs, encoded properties, and the sysFlags of their compressed bodies."""

    rows: OutgoingRows
    ids: MessageIds
    properties: tuple[pa.BinaryArray, ...]
    sys_flags: Numbers


class _Encoded(NamedTuple):
    """Rows, each with its message encoded for a batch, and whether it is sent as a single message instead."""

    encodable: EncodableRows
    messages: pa.BinaryArray
    are_single: Mask
    limit_bytes: int


def encode_batches(encodable: EncodableRows, queue_of: QueueOf, limit_bytes: int = BATCH_BYTES) -> Iterator[SendBatch]:
    """Encode the rows and yield them as SendBatches of up to ``limit_bytes``, round robin over the destinations; rows
    for one named queue keep their order. Send nothing. A row counts as its encoded message and STORED_EXTRA_BYTES. A
    row of ``OutgoingRows.are_single``, or larger than ``limit_bytes``, is a SendBatch of its own, as a single message.
    Brokers limit a batch as a whole, but only the body of a single message.

    The first step of the iteration calls ``queue_of`` once for each distinct target, and raises its errors. Without
    rows nothing is yielded or called.
    """
    rows = encodable.rows
    if not len(rows):
        return
    messages = encode_messages(rows.bodies, encodable.ids, encodable.properties)
    are_single = rows.are_single | (lengths_of(messages) + STORED_EXTRA_BYTES > limit_bytes)
    encoded = _Encoded(encodable, messages, are_single, limit_bytes)
    yield from _interleave(
        _batches_for(destination, positions, encoded) for destination, positions in _by_destination(rows, queue_of)
    )


def _interleave(destinations: Iterable[Iterator[SendBatch]]) -> Iterator[SendBatch]:
    """Yield one batch of each destination, round robin, until all are exhausted, because ``BatchSender`` has only one
    batch of a named queue in flight."""
    pending = deque(destinations)
    while pending:
        destination = pending.popleft()
        for batch in islice(destination, 1):
            yield batch
            pending.append(destination)


def _batches_for(destination: Destination, positions: Positions, encoded: _Encoded) -> Iterator[SendBatch]:
    """Yield the batches and single messages of the rows at ``positions``, all of one ``destination``. If it has a
    queue, they are in the order of the rows. Otherwise one kind follows another (``_split_by_kind``)."""
    encodable, are_single = encoded.encodable, encoded.are_single
    for part in _split_by_kind(positions, encodable.sys_flags * 2 + are_single, in_order=destination.queue is not None):
        make = _single_messages if are_single[part[0]] else _full_batches
        yield from make(destination, part, encoded)


def _full_batches(destination: Destination, part: Positions, encoded: _Encoded) -> Iterator[SendBatch]:
    """Yield batches of consecutive rows of ``part``, each as large as ``limit_bytes`` allows. All rows of ``part`` have
    the same sysFlag."""
    encodable, messages = encoded.encodable, encoded.messages
    ordered = messages if len(part) == len(messages) else messages.take(pa.array(part))
    ends = _offsets(ordered)
    data = memoryview(ordered.buffers()[2])
    sys_flag = int(encodable.sys_flags[part[0]])
    for begin, end in split_ranges(lengths_of(ordered) + STORED_EXTRA_BYTES, encoded.limit_bytes):
        body = data[ends[begin] : ends[end]]
        yield SendBatch(*destination, body, end - begin, int(encodable.rows.numbers[part[begin]]), sys_flag)


def _single_messages(destination: Destination, part: Positions, encoded: _Encoded) -> Iterator[SendBatch]:
    """Yield a SendBatch with ``properties`` for each row of ``part``, in order. All rows of ``part`` have the same
    sysFlag."""
    encodable, some = encoded.encodable, pa.array(part)
    columns = (id_properties(encodable.ids[part]), *(column.take(some) for column in encodable.properties))
    bodies = encodable.rows.bodies.take(some).to_pylist()
    sys_flag = int(encodable.sys_flags[part[0]])
    for number, body, *properties in zip(
        encodable.rows.numbers[part].tolist(), bodies, *(column.to_pylist() for column in columns), strict=True
    ):
        yield SendBatch(*destination, memoryview(body), 1, number, sys_flag, b"".join(properties).decode())


def _by_destination(rows: OutgoingRows, queue_of: QueueOf) -> Iterator[tuple[Destination, Positions]]:
    """Yield each destination once, in no particular order, with the positions of its rows in ascending order.
    ``queue_of`` is called once for each distinct target, all before the first destination is yielded; its errors are
    raised."""
    columns = {
        "topic": rows.topics,
        "broker_name": rows.broker_names,
        "queue_id": rows.queue_ids,
        "sharding_key": rows.texts.get(SHARDING_KEY_PROPERTY),
    }
    present = {name: column for name, column in columns.items() if column is not None}
    codes, firsts = distinct_rows(present.values(), len(rows))
    numbers: dict[Destination, int] = {}
    destination_of = np.empty(len(firsts), np.int64)
    for code, first in enumerate(firsts):
        target = _target_of(present, int(first))
        destination_of[code] = numbers.setdefault(Destination(target.topic, queue_of(target)), len(numbers))
    destinations = destination_of[codes]
    for destination, number in numbers.items():
        yield destination, np.flatnonzero(destinations == number)


def _target_of(columns: dict[str, pa.Array], position: int) -> RowTarget:
    """Return the target that the row at ``position`` names. ``columns``: columns by field of RowTarget; a field without
    a column is None."""
    values = {name: column[position].as_py() for name, column in columns.items()}
    key = values.pop("sharding_key", None)
    return RowTarget(**values, sharding_key=None if key is None else key.decode())


def _split_by_kind(positions: Positions, batch_kinds: Numbers, *, in_order: bool) -> Iterator[Positions]:
    """Split ``positions`` into parts that may share a batch: rows with the same number in ``batch_kinds``, which has
    one for each row. ``in_order``: split wherever the kind changes, so that the parts keep the order. Otherwise yield
    one part for each kind."""
    own_kinds = batch_kinds[positions]
    if in_order:
        yield from np.split(positions, np.flatnonzero(np.diff(own_kinds)) + 1)
        return
    for batch_kind in np.unique(own_kinds):
        yield positions[own_kinds == batch_kind]


def _offsets(values: pa.BinaryArray) -> list[int]:
    """Return the start offset of each value in the data buffer, then the end of the last value: one number more than
    there are values."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    positions: list[int] = offsets.tolist()
    return positions


def queue_by_hash(sharding_key: str, queues: tuple[MessageQueue, ...]) -> MessageQueue:
    """Return the queue for a sharding key, by its hash, the same one for the same ``queues``. Raises ValueError without
    queues.

    Source: ``client/producer/selector/SelectMessageQueueByHash.java``; differs: brokers without a master in the route
    keep their queues, so that a key keeps its queue while only a master is unavailable.
    """
    return queues[abs(int(math.fmod(java_hash_code(sharding_key), len(queues))))]


def sharded_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues over which sharding keys are distributed: ``TopicRoute.publish_queues``, which include those of
    brokers without a master. Raises RouteError[TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE] if there are none,
    RouteError[INVALID_ORDER_CONF] if the topic's order configuration cannot be parsed."""
    queues = route.publish_queues()
    if not queues:
        raise no_writable_queue(route)
    return queues


def named_queue(target: RowTarget) -> MessageQueue | None:
    """Return the queue that ``target`` names, unchecked, or None if it lacks the broker name or the queue ID."""
    if target.broker_name is None or target.queue_id is None:
        return None
    return MessageQueue(target.topic, target.broker_name, target.queue_id)
