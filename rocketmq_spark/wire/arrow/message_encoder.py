"""Encoding of many rows to messages of a batch at once: the format of ``message.batch``, written by numpy and Arrow.

numpy writes the parts of fixed width, Arrow joins them with the bodies; no row becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.wire.arrow.slices import Numbers
from rocketmq_spark.wire.message.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, UNIQ_KEY

_HEAD: Final = np.dtype([("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body_bytes", ">i4")])
_NAME: Final = f"{UNIQ_KEY}{NAME_VALUE_SEPARATOR}".encode()
_END: Final = PROPERTY_SEPARATOR.encode()
_UNIQUE_ID: Final = np.dtype([("name", f"S{len(_NAME)}"), ("id", "S32"), ("end", "S1")])
_LENGTH: Final = np.dtype(">i2")

_SPLIT_SCALAR: Final = pa.scalar(NAME_VALUE_SEPARATOR.encode(), pa.binary())
_END_SCALAR: Final = pa.scalar(_END, pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())

ZERO: Final = pa.scalar(0)
FALSE: Final = pa.scalar(False)
"""For calls made for each batch: to convert a Python number, pyarrow searches for python-dateutil, which takes 0.3 ms
where it is not installed."""

ID_PROPERTY_BYTES: Final = _UNIQUE_ID.itemsize
"""Bytes of a message's properties that its ID occupies."""

MessageIds = np.ndarray[Any, np.dtype[np.bytes_]]
"""Message IDs of 32 characters, ``S32``."""


def property_of(name: str, values: pa.BinaryArray) -> pa.BinaryArray:
    """Return property ``name`` of each row, encoded with its separators; empty where ``values`` is null."""
    begin = pa.scalar(f"{name}{NAME_VALUE_SEPARATOR}".encode())
    return pc.fill_null(_joined(begin, values, _END_SCALAR), _NOTHING)


def properties_of(maps: pa.MapArray) -> pa.BinaryArray:
    """Return each row's properties, in the map's order, encoded one after another. A null map becomes empty, a map with
    a null value becomes null."""
    names, values = maps.keys.cast(pa.binary()), maps.items.cast(pa.binary())
    entries = pa.ListArray.from_arrays(maps.offsets, _joined(names, _SPLIT_SCALAR, values, _END_SCALAR))
    return pc.if_else(maps.is_valid(), pc.binary_join(entries, _NOTHING), _NOTHING)


def property_bytes(properties: Sequence[pa.BinaryArray], row_count: int) -> Numbers:
    """Return for each row the length in bytes of all its encoded properties together, the property with its message ID
    included. ``properties``: results of ``property_of`` and ``properties_of``."""
    lengths = np.full(row_count, ID_PROPERTY_BYTES, np.int32)
    for one in properties:
        lengths += lengths_of(one)
    return lengths


def encode_messages(bodies: pa.BinaryArray, ids: MessageIds, properties: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    """Return one encoded message for each row, with flag 0; concatenated, they are the body of a batch. ``properties``:
    results of ``property_of`` and ``properties_of``; the message ID is added before them as a property.

    No argument has nulls. All messages together must be smaller than 2 GiB, and the properties of each within
    PROPERTIES_LIMIT_BYTES; neither is checked.
    """
    lengths = property_bytes(properties, len(bodies))
    head = np.zeros(len(bodies), _HEAD)
    head["body_bytes"] = lengths_of(bodies)
    head["size"] = _HEAD.itemsize + head["body_bytes"] + _LENGTH.itemsize + lengths
    return _joined(_fixed(head), bodies, _fixed(lengths.astype(_LENGTH)), id_properties(ids), *properties)


def id_properties(ids: MessageIds) -> pa.BinaryArray:
    """Return the encoded property UNIQ_KEY, which has the message ID, of each row."""
    named = np.empty(len(ids), _UNIQUE_ID)
    named["name"], named["id"], named["end"] = _NAME, ids, _END
    return _fixed(named)


def lengths_of(values: pa.BinaryArray) -> Numbers:
    """Return the length of each value in bytes; 0 where it is null."""
    lengths: Numbers = pc.fill_null(pc.binary_length(values), ZERO).to_numpy()
    return lengths


def _joined(*parts: pa.BinaryArray | pa.Scalar) -> pa.BinaryArray:
    """Return the parts of each row, joined without a separator; null where a part is null."""
    return pc.binary_join_element_wise(*parts, _NOTHING)


def _fixed(values: np.ndarray[Any, Any]) -> pa.BinaryArray:
    """Return the bytes of each element as one value of a binary array; a copy."""
    width = values.dtype.itemsize
    offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    )
