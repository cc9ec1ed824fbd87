"""Rows that cannot be sent, as messages that can: each says what is wrong with its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from rocketmq_spark.sink.outgoing_rows import OutgoingRows
from rocketmq_spark.wire.message.properties import decode_utf8

PROBLEM: Final = "UNSENDABLE_PROBLEM"
ROW: Final = "UNSENDABLE_ROW"
TOPIC: Final = "UNSENDABLE_TOPIC"
NO_BODY: Final = b"(no body)"
"""Instead of an empty one, which no broker takes."""

_TEXT_LIMIT: Final = 200
_SEPARATORS: Final = str.maketrans("\x01\x02", "  ")


def dead_letters(
    rows: OutgoingRows, problems: Mapping[int, str], where: str, topic: str, *, max_body_bytes: int
) -> OutgoingRows:
    """One message for ``topic`` for each row, by position, that has a problem: with the beginning of its body, and
    properties that say the problem, the row of ``where``, and the topic that it was for."""
    positions = np.array(list(problems), np.int64)
    bad = rows.take(positions)
    bodies = [(body or NO_BODY)[:max_body_bytes] for body in bad.bodies.to_pylist()]
    texts: dict[str, list[str]] = {
        PROBLEM: [*problems.values()],
        ROW: [f"row {number} of {where}" for number in bad.numbers.tolist()],
        TOPIC: [decode_utf8(name or b"") for name in bad.topics.cast(pa.binary()).to_pylist()],
    }
    return OutgoingRows(
        bad.numbers,
        pa.array(bodies, pa.binary()),
        pa.repeat(pa.scalar(topic), len(bad)),
        {name: pa.array([_text(value) for value in values], pa.binary()) for name, values in texts.items()},
        None,
    )


def _text(value: str) -> bytes | None:
    """As a property has it, which is none where it is empty."""
    return value.translate(_SEPARATORS)[:_TEXT_LIMIT].encode() if value else None
