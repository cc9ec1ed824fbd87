"""What rows want of their topics, and which rows cannot have that: their problems are those of their topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.sink.distinct_rows import distinct_rows
from rocketmq_spark.sink.outgoing_rows import OutgoingRows
from rocketmq_spark.wire.arrow.slices import Positions


class Wanted(NamedTuple):
    """A topic that takes rows; with ``broker_name`` and ``queue_id`` a queue of it, and without ``has_keys`` also such
    as have none."""

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    has_keys: bool = False


class Wishes(NamedTuple):
    """``wanted``, each once, and for the rows at ``positions`` which of these it is, by its place in ``wanted``."""

    wanted: tuple[Wanted, ...]
    positions: Positions
    places: Positions

    def problems(self, told: Mapping[Wanted, str]) -> dict[int, str]:
        """By position what is wrong with the topics of rows."""
        of_places = [told.get(one) for one in self.wanted]
        if not any(of_places):
            return {}
        pairs = zip(self.positions.tolist(), self.places.tolist(), strict=True)
        return {position: problem for position, place in pairs if (problem := of_places[place]) is not None}


def wishes_of(rows: OutgoingRows, but: Iterable[int]) -> Wishes:
    """What rows want; those at the positions ``but`` have problems of their own, and are left out."""
    positions = np.delete(np.arange(len(rows)), list(but))
    columns = [column.take(pa.array(positions)) for column in _columns(rows)]
    places, firsts = distinct_rows(columns, len(positions))
    values = zip(*(column.take(pa.array(firsts)).to_pylist() for column in columns), strict=True)
    return Wishes(tuple(Wanted(*one) for one in values), positions, places)


def _columns(rows: OutgoingRows) -> tuple[pa.Array, ...]:
    """One for each field of ``Wanted``."""
    keys = rows.texts.get("KEYS")
    brokers = pa.nulls(len(rows), pa.string()) if rows.broker_names is None else rows.broker_names
    queue_ids = pa.nulls(len(rows), pa.int32()) if rows.queue_ids is None else rows.queue_ids
    has_keys = pa.repeat(pa.scalar(False), len(rows)) if keys is None else keys.is_valid()
    return rows.topics, brokers, queue_ids, has_keys


def no_such_queue(wanted: Wanted, queues: Collection[MessageQueue]) -> str | None:
    """Why a named queue is none of its topic's."""
    if wanted.queue_id is None or (wanted.topic, wanted.broker_name, wanted.queue_id) in queues:
        return None
    there = sorted(queue.queue_id for queue in queues if queue.broker_name == wanted.broker_name)
    if not there:
        brokers = ", ".join(sorted({queue.broker_name for queue in queues}))
        return f"no broker {wanted.broker_name!r} serves its topic {wanted.topic!r} (there are: {brokers})"
    return (
        f"its topic {wanted.topic!r} has no queue {wanted.queue_id} at {wanted.broker_name!r} "
        f"(there are: {there[0]} to {there[-1]})"
    )


def lost_without_keys(topic: str) -> str:
    """What is wrong with a row without keys for a topic that is compacted."""
    return f"it has no keys, and its topic {topic!r} keeps the last message of each key and no other (COMPACTION)"
