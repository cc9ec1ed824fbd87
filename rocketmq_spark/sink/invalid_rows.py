"""Checks of rows before sending. A row that a broker would reject or store differently is invalid.

Also makes the dead-letter messages of invalid rows, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.condition import cut
from rocketmq_spark.model import RESERVED_PROPERTIES
from rocketmq_spark.options.kinds import WRITABLE_TOPIC
from rocketmq_spark.sink.columns import DELAY_LEVEL, DELAY_SECONDS
from rocketmq_spark.sink.outgoing_rows import COLUMN_OF, DELAYS, OutgoingRows
from rocketmq_spark.wire.arrow.message_encoder import FALSE, ZERO, lengths_of, property_bytes
from rocketmq_spark.wire.arrow.slices import Mask
from rocketmq_spark.wire.message.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTIES_LIMIT_BYTES,
    PROPERTIES_RESERVE_BYTES,
    PROPERTY_SEPARATOR,
    as_property_text,
    decode_utf8,
)

OWN_PROPERTIES_LIMIT_BYTES: Final = PROPERTIES_LIMIT_BYTES - PROPERTIES_RESERVE_BYTES

_RESERVED_NAMES: Final = pa.array(sorted(RESERVED_PROPERTIES)).cast(pa.binary())

MAX_INT: Final = 2**31 - 1
"""Maximum of a value that brokers parse as an ``int``."""

_MAX_INT: Final = pa.scalar(MAX_INT)

MAX_DELAYS: Final = {DELAY_LEVEL: MAX_INT, DELAY_SECONDS: 999_999_999}
"""Maximum delays. Brokers limit seconds to ``timerMaxDelaySec``, 3 days by default, and deliver at once on overflow."""

RowProblems = Iterator[tuple[int, str]]
"""Pairs of a row's position and its problem."""


def problems_of(rows: OutgoingRows, properties: Sequence[pa.BinaryArray], *, max_body_bytes: int) -> dict[int, str]:
    """Check, in this order, bodies, topic names, texts, keys, ID columns, properties, delays, queues and the size of
    all properties. Return the first problem of each invalid row, by position in ``rows``, ascending; {} if all are
    valid. ``properties``: encoded properties, each array with one value per row. Whether topics and queues exist is not
    checked."""
    problems: dict[int, str] = {}
    for position, problem in _problems(rows, properties, max_body_bytes):
        problems.setdefault(position, problem)
    return dict(sorted(problems.items()))


def _problems(rows: OutgoingRows, properties: Sequence[pa.BinaryArray], max_body_bytes: int) -> RowProblems:
    """Yield (position, problem) for all problems of the rows, one check after another. Positions are in no order, since
    a row may have several problems."""
    body_bytes = lengths_of(rows.bodies)
    yield from _problems_at(rows.bodies.is_null(), "its body is null")
    yield from _problems_at(body_bytes == 0, "its body is empty, and brokers reject it")
    for position in np.flatnonzero(body_bytes > max_body_bytes):
        yield int(position), f"its body has {body_bytes[position]} bytes, and {max_body_bytes} is the most"
    yield from _topic_problems(rows.topics)
    for name, values in rows.texts.items():
        yield from _text_problems(name, values)
    if rows.have_invalid_keys is not None:
        yield from _problems_at(
            rows.have_invalid_keys, "one of its keys is empty or has a blank, and would be none or two"
        )
    if rows.have_null_ids is not None:
        yield from _problems_at(
            rows.have_null_ids, "a column of 'messageIdColumns' is null in it, so its message ID would not be unique"
        )
    if rows.properties is not None:
        yield from _property_problems(rows.properties)
    yield from _delay_problems(rows)
    if rows.queue_ids is not None and rows.broker_names is not None:
        yield from _queue_problems(rows.broker_names, rows.queue_ids)
    lengths = property_bytes(properties, len(rows))
    for position in np.flatnonzero(lengths > OWN_PROPERTIES_LIMIT_BYTES):
        yield (
            int(position),
            (f"its properties have {lengths[position]} bytes, and {OWN_PROPERTIES_LIMIT_BYTES} is the most"),
        )


def _topic_problems(topics: pa.StringArray) -> RowProblems:
    """Yield a problem for each topic that is null, or not 1 to 127 letters, digits and ``%|_-``. Whether it exists is
    not checked."""
    yield from _problems_at(topics.is_null(), "its topic is null")
    distinct = topics.dictionary_encode()
    are_invalid = pc.invert(pc.match_substring_regex(distinct.dictionary, f"^{WRITABLE_TOPIC.pattern}$"))
    if not pc.any(are_invalid).as_py():
        return
    for position in np.flatnonzero(_mask(are_invalid.take(distinct.indices))):
        name = _quoted(topics.cast(pa.binary()), int(position))
        yield int(position), f"{name} is no topic's name (letters, digits and %|_-, at most 127)"


def _text_problems(name: str, values: pa.BinaryArray) -> RowProblems:
    """Yield a problem for each value of property ``name`` that is empty, is not UTF-8, or contains 0x02; null is valid.
    The text names the column that the property comes from."""
    column = COLUMN_OF[name]
    yield from _problems_at(
        pc.equal(pc.binary_length(values), ZERO), f"its {column} is empty, and RocketMQ would drop it"
    )
    yield from _problems_at(_are_malformed(values), f"its {column} is not in UTF-8")
    yield from _problems_at(_has_separator(values), f"its {column} contains a separator (0x02)")


def _property_problems(maps: pa.MapArray) -> RowProblems:
    """Yield a problem, with the row's position, for each invalid entry of ``maps``. A name is invalid if it is reserved
    by RocketMQ, empty, not UTF-8, or contains 0x01 or 0x02, a value if it is null, empty, not UTF-8, or contains 0x02.
    An entry may have several problems."""
    entry_offsets = maps.offsets.to_numpy()
    span = slice(int(entry_offsets[0]), int(entry_offsets[-1]))
    names = maps.keys[span].cast(pa.binary())
    values = maps.items[span].cast(pa.binary())
    checks = (
        (_are_malformed(names) | _are_malformed(values), "is not in UTF-8"),
        (pc.is_in(names, _RESERVED_NAMES), "is RocketMQ's own"),
        (pc.equal(pc.binary_length(names), ZERO), "has no name"),
        (pc.or_(_has_separator(names), pc.match_substring(names, NAME_VALUE_SEPARATOR)), "has a separator in its name"),
        (pc.fill_null(pc.equal(pc.binary_length(values), ZERO), True), "is empty or null, and RocketMQ would drop it"),
        (_has_separator(values), "contains a separator (0x02)"),
    )
    for found, problem in checks:
        for entry in np.flatnonzero(_mask(found)):
            row = int(np.searchsorted(entry_offsets, entry_offsets[0] + entry, "right")) - 1
            yield row, f"its property {_quoted(names, int(entry))} {problem}"


def _delay_problems(rows: OutgoingRows) -> RowProblems:
    """Yield a problem for each delay and delivery time that is 0 or negative, and for each delay above its limit in
    MAX_DELAYS. A row with values in more than one of these columns has a problem too."""
    counts = np.zeros(len(rows), np.int32)
    for column, name in DELAYS.items():
        values = rows.texts.get(name)
        if values is not None:
            counts += values.is_valid().to_numpy(zero_copy_only=False)
            are_not_positive = pc.or_(pc.starts_with(values, "-"), pc.equal(values, b"0"))
            yield from _problems_at(are_not_positive, f"its {column} is not above 0")
            if column in MAX_DELAYS:
                limit_value = MAX_DELAYS[column]
                yield from _problems_at(_are_above(values, limit_value), f"its {column} is above {limit_value}")
    yield from _problems_at(counts > 1, "it has more than one delivery time")


def _queue_problems(broker_names: pa.StringArray, queue_ids: pa.Int64Array) -> RowProblems:
    """Yield a problem for each broker name that is not UTF-8, and for each queue ID that is negative or exceeds
    MAX_INT. A row with only one of the two has a problem too."""
    yield from _problems_at(_are_malformed(broker_names.cast(pa.binary())), "its brokerName is not in UTF-8")
    yield from _problems_at(pc.less(queue_ids, ZERO), "its queueId is below 0")
    yield from _problems_at(pc.greater(queue_ids, _MAX_INT), f"its queueId is above {MAX_INT}")
    yield from _problems_at(
        pc.xor(broker_names.is_null(), queue_ids.is_null()), "it has one of brokerName and queueId without the other"
    )


def _are_above(digits: pa.BinaryArray, limit_value: int) -> pa.BooleanArray:
    """Return which numbers are above ``limit_value``; null for null. ``digits``: decimal text without leading zeros.
    The result for a negative number is undefined, because a separate check finds it."""
    lengths, limit = pc.binary_length(digits), str(limit_value).encode()
    is_greater = pc.and_(pc.equal(lengths, len(limit)), pc.greater(digits, limit))
    return pc.or_(pc.greater(lengths, len(limit)), is_greater)


def _has_separator(values: pa.BinaryArray) -> pa.BooleanArray:
    """Return which values contain 0x02, the separator of properties; null for null."""
    return pc.match_substring(values, PROPERTY_SEPARATOR)


def _are_malformed(values: pa.BinaryArray) -> Mask:
    """Return a mask of the values that are not UTF-8; null is False. Spark does not check UTF-8 when it casts binary to
    string."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([value is not None and not _is_utf8(value) for value in values.to_pylist()])
    return np.zeros(len(values), bool)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _quoted(values: pa.BinaryArray, position: int) -> str:
    """Return the value at ``position`` as quoted text for an error: malformed bytes as U+FFFD, a long value cut. It
    must not be null."""
    return repr(cut(decode_utf8(values[position].as_py())))


def _problems_at(found: Mask | pa.BooleanArray, problem: str) -> RowProblems:
    """Yield (position, ``problem``) for each position at which ``found`` is true, ascending; null counts as false."""
    return ((int(position), problem) for position in np.flatnonzero(_mask(found)))


def _mask(found: Any) -> Mask:
    """Return ``found`` as a NumPy mask; null counts as false."""
    if isinstance(found, np.ndarray):
        return found
    mask: Mask = pc.fill_null(found, FALSE).to_numpy(zero_copy_only=False)
    return mask


PROBLEM: Final = "INVALID_ROW_PROBLEM"
ROW: Final = "INVALID_ROW_POSITION"
TOPIC: Final = "INVALID_ROW_TOPIC"
NO_BODY: Final = b"(no body)"
"""Body of a dead-letter message whose row has none: brokers reject an empty body."""

_TEXT_CHARACTERS: Final = 200


def dead_letters(
    rows: OutgoingRows, problems: Mapping[int, str], source: str, topic: str, *, max_body_bytes: int
) -> OutgoingRows:
    """Return rows for the dead-letter ``topic``: one for each entry of ``problems`` (problem by position in ``rows``),
    in this order. Send and log nothing.

    Each has the invalid row's number, and the first ``max_body_bytes`` of its body (NO_BODY for an empty one or null).
    It has only three properties, cut to 200 characters. PROBLEM is the problem. ROW is the number and ``source``, a
    text for the task. TOPIC is the row's topic, and absent if that is null or empty.
    """
    positions = np.array(list(problems), np.int64)
    invalid = rows.take(positions)
    bodies = [(body or NO_BODY)[:max_body_bytes] for body in invalid.bodies.to_pylist()]
    texts: dict[str, list[str]] = {
        PROBLEM: [*problems.values()],
        ROW: [f"row {number} of {source}" for number in invalid.numbers.tolist()],
        TOPIC: [decode_utf8(name or b"") for name in invalid.topics.cast(pa.binary()).to_pylist()],
    }
    return OutgoingRows(
        invalid.numbers,
        pa.array(bodies, pa.binary()),
        pa.repeat(pa.scalar(topic), len(invalid)),
        {name: pa.array([_text(value) for value in values], pa.binary()) for name, values in texts.items()},
        None,
    )


def _text(value: str) -> bytes | None:
    """Return ``value`` encoded for a property, cut to 200 characters, its separators replaced by spaces, or None if it
    is empty."""
    return as_property_text(value, _TEXT_CHARACTERS).encode() if value else None
