"""Arrow arrays cut from a buffer by positions, without intermediate Python objects."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketmq_spark.wire.message.properties import decode_utf8

Positions: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]


def interleave(first: Positions | Numbers, second: Positions | Numbers) -> Numbers:
    """Return ``[first[0], second[0], first[1], second[1], ...]`` in 32 bits. Both have the same length."""
    both = np.empty(2 * len(first), np.int32)
    both[0::2] = first
    both[1::2] = second
    return both


def cut(buffer: Any, begins: Positions | Numbers, ends: Positions | Numbers) -> pa.BinaryArray:
    """Return a copy of the slices ``buffer[begins[i]:ends[i]]``, as one array. They must ascend without overlap, and
    the buffer must be smaller than 2 GiB; neither is checked."""
    if not len(begins):
        return pa.array([], pa.binary())
    offsets = interleave(begins, ends)
    slices_and_gaps = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), buffer])
    return slices_and_gaps.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))


def as_text(values: pa.BinaryArray) -> pa.StringArray:
    """Return the values as text; malformed bytes become U+FFFD, as in ``decode_utf8``. No value is null. Raise
    nothing."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([decode_utf8(value) for value in values.to_pylist()], pa.string())


def utf8_text(values: pa.BinaryArray) -> pa.StringArray:
    """Return the values as text, without a copy. They must be valid UTF-8, not null, and no slice of an array; none of
    it is checked."""
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers())
