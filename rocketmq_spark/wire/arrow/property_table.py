"""Properties of many messages at once, equal to those of ``properties.decode_properties``.

Messages of one producer mostly have the same properties in the same order. Then names are only compared with the first
row's (``UniformTable``). Otherwise each name is looked up (``MixedTable``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.wire.arrow.record_index import LENGTH, RecordIndex, gather
from rocketmq_spark.wire.arrow.slices import Numbers, Positions, as_text, cut, utf8_text

_SPLIT: Final = 0x01
_END: Final = 0x02
_BYTE: Final = np.dtype(np.uint8)
_MISSING_END: Final = pa.array([b"", b"\x02"], pa.binary())
_MARKS_PER_PROPERTY: Final = 64
_PIECE_BYTES: Final = 128 * 1024


class PropertyTable(Protocol):
    """All properties of all rows."""

    def as_map(self) -> pa.MapArray:
        """Return the properties of each row as a map."""

    def value_of(self, name: str) -> pa.StringArray:
        """Return the value of property ``name`` in each row, null where the row does not have it."""


@dataclass(frozen=True, slots=True)
class UniformTable:
    """Properties of rows that all have the properties ``names``, in this order: at least one, UTF-8 and distinct.

    ``splits`` and ``ends``: positions in ``text`` of the bytes behind each name and each value, row after row. Row
    ``i // len(names)`` has property ``names[i % len(names)]`` with the value ``text[splits[i] + 1 : ends[i]]``.
    """

    text: pa.Buffer
    names: tuple[bytes, ...]
    splits: Numbers
    ends: Numbers

    def as_map(self) -> pa.MapArray:
        """Return the properties of each row as a map."""
        values = utf8_text(cut(self.text, self.splits + 1, self.ends))
        row_begins = np.arange(0, len(self.ends) + 1, len(self.names), dtype=np.int32)
        return pa.MapArray.from_arrays(pa.array(row_begins), self._names_of_all(), values)

    def value_of(self, name: str) -> pa.StringArray:
        """Return the value of property ``name`` in each row; null in all rows if they do not have it."""
        width = len(self.names)
        if name.encode() not in self.names:
            return pa.nulls(len(self.ends) // width, pa.string())
        column = slice(self.names.index(name.encode()), None, width)
        return utf8_text(cut(self.text, self.splits[column] + 1, self.ends[column]))

    def _names_of_all(self) -> pa.StringArray:
        """Return the name of each property of each row: ``names``, repeated for each row."""
        one_row = b"".join(self.names)
        row_count = len(self.ends) // len(self.names)
        ends = np.cumsum([len(name) for name in self.names], dtype=np.int32)
        offsets = np.zeros(len(self.ends) + 1, np.int32)
        np.add.outer(np.arange(row_count, dtype=np.int32) * len(one_row), ends, out=offsets[1:].reshape(row_count, -1))
        data = pa.py_buffer(one_row * row_count)
        return pa.Array.from_buffers(pa.string(), len(self.ends), [None, pa.py_buffer(offsets), data])


@dataclass(frozen=True, slots=True)
class MixedTable:
    """Properties of any rows, in order; no name occurs twice in a row.

    Property ``i`` has the name ``names[i]``, numbered ``name_codes[i]``, and the value ``text[splits[i] + 1 :
    ends[i]]``. ``row_ends`` are positions in ``text`` too.
    """

    text: pa.Buffer
    row_ends: Numbers
    names: pa.StringArray
    name_codes: Numbers
    code_of_name: dict[str, int]
    splits: Numbers
    ends: Numbers

    def as_map(self) -> pa.MapArray:
        """Return the properties of each row as a map, possibly empty."""
        values = utf8_text(cut(self.text, self.splits + 1, self.ends))
        return pa.MapArray.from_arrays(pa.array(_row_begins(self.row_ends, self.ends)), self.names, values)

    def value_of(self, name: str) -> pa.StringArray:
        """Return the value of property ``name`` in each row, null where the row does not have it."""
        found = np.flatnonzero(self.name_codes == self.code_of_name.get(name, -1))
        values = utf8_text(cut(self.text, self.splits[found] + 1, self.ends[found]))
        if len(found) == len(self.row_ends):
            return values
        place = np.full(len(self.row_ends), -1)
        place[np.searchsorted(self.row_ends, self.ends[found])] = np.arange(len(found))
        return values.take(pa.array(place, mask=place < 0))


def read_properties(records: RecordIndex) -> PropertyTable:
    """Parse the properties of all records, at least one. Return a UniformTable if all have the same names in the same
    order, none twice, else a MixedTable. Malformed UTF-8 becomes U+FFFD. Properties without a name or value are
    omitted."""
    rows = as_text(_terminated(records))
    _, offsets, text = rows.buffers()
    row_ends = np.frombuffer(offsets, np.int32)[1 : len(rows) + 1]
    begins, splits, ends = _complete_properties(np.frombuffer(text, np.uint8)[: row_ends[-1]])
    names = _names_of_every_row(text, row_ends, begins, splits, ends)
    if names is not None:
        return UniformTable(text, names, splits, ends)
    return _mixed_table(text, row_ends, begins, splits, ends)


def _names_of_every_row(
    text: pa.Buffer, row_ends: Numbers, begins: Numbers, splits: Numbers, ends: Numbers
) -> tuple[bytes, ...] | None:
    """Return the names of the first row's properties if all rows have the same names in the same order. Otherwise
    return None, also if the first row has none, or a name is repeated. ``row_ends``: end of each row in ``text``;
    ``begins``, ``splits``, ``ends``: positions of each property, of all rows."""
    width, remainder = divmod(len(ends), len(row_ends))
    if not width or remainder or not (ends[width - 1 :: width] + 1 == row_ends).all():
        return None
    sizes = (splits - begins).reshape(-1, width)
    if not (sizes == sizes[0]).all():
        return None
    names = cut(text, begins, splits)
    letters = np.frombuffer(names.buffers()[2], np.uint8)[: sizes.sum()].reshape(len(row_ends), -1)
    first_names = tuple(names[:width].to_pylist())
    return first_names if (letters == letters[0]).all() and len(set(first_names)) == width else None


def _mixed_table(text: pa.Buffer, row_ends: Numbers, begins: Numbers, splits: Numbers, ends: Numbers) -> MixedTable:
    """Build the table of the properties at these positions in ``text``: ``row_ends`` of each row, ``begins``,
    ``splits`` and ``ends`` of each property. If a name occurs twice in a row, only the last one is kept, as in Java."""
    names = utf8_text(cut(text, begins, splits))
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy()
    code_of_name = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
    kept = _last_of_each_name(_row_begins(row_ends, ends), codes, len(code_of_name))
    if kept is not None:
        names, codes, splits, ends = names.take(pa.array(kept)), codes[kept], splits[kept], ends[kept]
    return MixedTable(text, row_ends, names, codes, code_of_name, splits, ends)


def _terminated(records: RecordIndex) -> pa.BinaryArray:
    """Return a copy of the encoded properties of each row. Add the final 0x02 to each row that ends without it; a row
    without properties becomes 0x02 alone."""
    begins = records.topic_ends + LENGTH.itemsize
    rows = cut(pa.py_buffer(records.data), begins, records.ends)
    is_open = gather(records.data, _BYTE, records.ends - 1) != _END
    if not is_open.any():
        return rows
    return pc.binary_join_element_wise(rows, _MISSING_END.take(pa.array(is_open.astype(np.int8))), b"")


def _complete_properties(text: npt.NDArray[np.uint8]) -> tuple[Numbers, Numbers, Numbers]:
    """Return begins, splits and ends of the properties in ``text`` that have a name and a value; omit all other
    properties. 0x02 ends a property, and the first 0x01 in it splits name and value."""
    ends, splits = _find(text, _END), _find(text, _SPLIT)
    begins = np.zeros_like(ends)
    begins[1:] = ends[:-1] + 1
    if len(splits) != len(ends) or not ((begins <= splits) & (splits < ends)).all():
        splits = np.append(splits, np.int32(len(text)))[np.searchsorted(splits, begins)]
    is_complete = (begins < splits) & (splits < ends - 1)
    return (
        (begins, splits, ends) if is_complete.all() else (begins[is_complete], splits[is_complete], ends[is_complete])
    )


def _find(text: npt.NDArray[np.uint8], byte: int) -> Numbers:
    """Return the positions of ``byte`` in ``text``, ascending."""
    begins = range(0, max(len(text), 1), _PIECE_BYTES)
    found = [np.flatnonzero(text[begin : begin + _PIECE_BYTES] == byte) + begin for begin in begins]
    return np.concatenate(found, dtype=np.int32)


def _last_of_each_name(row_begins: Numbers, codes: Numbers, code_count: int) -> Positions | None:
    """Return, ascending, the indices of properties whose name does not recur later in their row. Return None if no row
    repeats a name. ``codes``: number of each property's name, less than ``code_count``."""
    row_count = len(row_begins) - 1
    cells = row_count * code_count
    keys = np.repeat(np.arange(row_count, dtype=np.int64) * code_count, np.diff(row_begins)) + codes
    if cells <= _MARKS_PER_PROPERTY * len(keys):
        marks = np.zeros(cells, np.bool_)
        marks[keys] = True
        if np.count_nonzero(marks) == len(keys):
            return None
    _, from_the_end = np.unique(keys[::-1], return_index=True)
    return np.sort(len(keys) - 1 - from_the_end)


def _row_begins(row_ends: Numbers, ends: Numbers) -> Numbers:
    """Return the indices at which the properties of rows begin: row ``i`` has the properties ``[result[i], result[i +
    1])``. ``row_ends`` and ``ends``: positions at which rows and properties end in the same text."""
    return np.append(0, np.searchsorted(ends, row_ends)).astype(np.int32)
