"""A cursor over bytes that never reads past their end."""

from __future__ import annotations

import struct
from typing import Any


class ByteReader:
    """Reads fields one after another. ValueError names the field that the bytes are too short for.

    Not thread-safe.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    @property
    def position(self) -> int:
        return self._position

    @property
    def remaining_bytes(self) -> int:
        return len(self._data) - self._position

    def take(self, length_bytes: int, field: str) -> bytes:
        """The next ``length_bytes``, copied."""
        begin = self._advance(length_bytes, field)
        return bytes(self._data[begin : self._position])

    def unpack(self, layout: struct.Struct, field: str) -> tuple[Any, ...]:
        return layout.unpack_from(self._data, self._advance(layout.size, field))

    def _advance(self, length_bytes: int, field: str) -> int:
        if not 0 <= length_bytes <= self.remaining_bytes:
            raise ValueError(f"its {field} should have {length_bytes} bytes where {self.remaining_bytes} remain")
        begin = self._position
        self._position += length_bytes
        return begin
