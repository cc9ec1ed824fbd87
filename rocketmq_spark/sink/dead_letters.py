"""Rows that cannot be sent, as messages that can: each says what is wrong with its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from rocketmq_spark.sink.outgoing_rows import OutgoingRows

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
    texts: dict[str, list[str | None]] = {
        PROBLEM: [*problems.values()],
        ROW: [f"row {number} of {where}" for number in bad.numbers.tolist()],
        TOPIC: [name or None for name in bad.topics.to_pylist()],
    }
    return OutgoingRows(
        bad.numbers,
        pa.array(bodies, pa.binary()),
        pa.repeat(pa.scalar(topic), len(bad)),
        {name: pa.array([_text(value) for value in values], pa.binary()) for name, values in texts.items()},
        None,
    )


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.translate(_SEPARATORS)[:_TEXT_LIMIT].encode()
