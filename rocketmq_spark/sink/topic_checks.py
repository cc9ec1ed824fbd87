"""Requirements of rows on their topics, and the problems of rows whose topic does not meet them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.model import TopicRoute
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, distinct_rows
from rocketmq_spark.wire.arrow.message_encoder import FALSE
from rocketmq_spark.wire.arrow.slices import Positions

_BLANK: Final = (
    r"^(?:[\x09-\x0d\x1c-\x20]|\xe1\x9a\x80|\xe2\x80[\x80-\x86\x88-\x8a\xa8\xa9]|\xe2\x81\x9f|\xe3\x80\x80)*$"
)
"""White space of Java's ``Character.isWhitespace``, in UTF-8. A broker discards messages of a compaction topic whose
keys have nothing else. Source: ``store/kv/CompactionLog.java#asyncPutMessage``."""


class TopicRequirement(NamedTuple):
    """A writable topic; with ``broker_name`` and ``queue_id`` one with that queue.

    Without ``has_keys``, the topic must also accept messages without keys.
    """

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    has_keys: bool = False


class RowRequirements(NamedTuple):
    """Distinct ``requirements``, and for each row at ``positions`` the index of its requirement."""

    requirements: tuple[TopicRequirement, ...]
    positions: Positions
    requirement_indices: Positions

    def problems(self, topic_problems: Mapping[TopicRequirement, str]) -> dict[int, str]:
        """Return the problem of each row whose requirement is in ``topic_problems``, by the row's position; {} if none
        is."""
        problem_by_index = [topic_problems.get(one) for one in self.requirements]
        if not any(problem_by_index):
            return {}
        pairs = zip(self.positions.tolist(), self.requirement_indices.tolist(), strict=True)
        return {position: problem for position, index in pairs if (problem := problem_by_index[index]) is not None}


def requirements_of(rows: OutgoingRows, excluded: Iterable[int]) -> RowRequirements:
    """Return the distinct requirements of the rows, without the rows at ``excluded`` positions: these have problems
    already."""
    positions = np.delete(np.arange(len(rows)), list(excluded))
    columns = [column.take(pa.array(positions)) for column in _columns(rows)]
    requirement_indices, firsts = distinct_rows(columns, len(positions))
    values = zip(*(column.take(pa.array(firsts)).to_pylist() for column in columns), strict=True)
    return RowRequirements(tuple(TopicRequirement(*one) for one in values), positions, requirement_indices)


def _columns(rows: OutgoingRows) -> tuple[pa.Array, ...]:
    """Return the rows' topics, broker names, queue IDs, null where none is given, and whether they have keys that are
    not blank: an array per field of ``TopicRequirement``, in the order of its fields, with one value per row."""
    keys = rows.texts.get("KEYS")
    brokers = pa.nulls(len(rows), pa.string()) if rows.broker_names is None else rows.broker_names
    queue_ids = pa.nulls(len(rows), pa.int64()) if rows.queue_ids is None else rows.queue_ids
    has_keys = pa.repeat(pa.scalar(False), len(rows)) if keys is None else _are_not_blank(keys)
    return rows.topics, brokers, queue_ids, has_keys


def _are_not_blank(keys: pa.BinaryArray) -> pa.BooleanArray:
    """Return which keys Java does not regard as blank; false for null."""
    return pc.fill_null(pc.invert(pc.match_substring_regex(keys, _BLANK)), FALSE)


def no_such_queue(requirement: TopicRequirement, route: TopicRoute) -> str | None:
    """Return the problem, as text, if the topic lacks the named queue at the named broker. None if it has the queue, if
    ``requirement`` names no queue, or if that broker is not in ``route``."""
    counts = [data.write_queue_count for data in route.queues if data.broker_name == requirement.broker_name]
    if requirement.queue_id is None or not counts or requirement.queue_id < counts[0]:
        return None
    available = f"there are: 0 to {counts[0] - 1}" if counts[0] else "there is none"
    where = f"at {requirement.broker_name!r} ({available})"
    return f"its topic {requirement.topic!r} has no queue {requirement.queue_id} {where}"


def no_such_broker(requirement: TopicRequirement, route: TopicRoute) -> str:
    """Return the problem of a row that names a broker without the row's topic."""
    brokers = ", ".join(sorted(data.broker_name for data in route.queues))
    return f"no broker {requirement.broker_name!r} serves its topic {requirement.topic!r} (there are: {brokers})"


def lost_without_keys(topic: str) -> str:
    """Return the problem of a row without keys for a compacted topic."""
    return f"it has no keys, and its topic {topic!r} keeps the last message of each key and no other (COMPACTION)"
