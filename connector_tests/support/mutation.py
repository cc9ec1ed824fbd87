"""Pull response bodies with some bytes changed, for fuzzing."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

ODD_BYTES: Final = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF)
WORDS: Final = (b"\x01", b"\x02", b"a\x01b\x02", b"TAGS\x01x\x02", b"\xed\xa0\x80", b"\xff", b"\0\0\0\x5b", bytes(8))
MOST_CHANGES: Final = 3
PROT_NONE: Final = 0


def mutated(body: bytes, random: Random) -> bytes:
    """``body`` after one change or a few; half of them keep its length."""
    data = bytearray(body)
    for _ in range(random.randint(1, MOST_CHANGES)):
        random.choice(CHANGES)(data, random)
    return bytes(data)


def _flip(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] = random.choice(ODD_BYTES)


def _cut(data: bytearray, random: Random) -> None:
    position = random.randint(0, len(data))
    del data[position : position + random.randint(1, 8)]


def _insert(data: bytearray, random: Random) -> None:
    position = random.randint(0, len(data))
    data[position:position] = random.choice(WORDS)


def _overwrite(data: bytearray, random: Random) -> None:
    word = random.choice(WORDS)
    position = random.randint(0, max(0, len(data) - len(word)))
    data[position : position + len(word)] = word


def _copy(data: bytearray, random: Random) -> None:
    """A piece of it in another place: numbers and text that fit somewhere."""
    position, length = random.randint(0, len(data)), random.randint(1, 16)
    piece = data[position : position + length]
    to = random.randint(0, max(0, len(data) - len(piece)))
    data[to : to + len(piece)] = piece


CHANGES: Final[Sequence[Callable[[bytearray, Random], None]]] = (_flip, _set, _overwrite, _copy, _cut, _insert)


class Brink:
    """Memory that ends where no memory is: who reads one byte beyond it, dies."""

    def __init__(self, limit_bytes: int) -> None:
        self._size_bytes = -(-limit_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, self._size_bytes + mmap.PAGESIZE)
        self._bytes = memoryview(self._map)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        size = ctypes.c_size_t(mmap.PAGESIZE)
        if libc.mprotect(ctypes.c_void_p(begin + self._size_bytes), size, PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def at_the_brink(self, body: bytes) -> memoryview:
        """The same bytes, directly before the end; until the next call."""
        begin = self._size_bytes - len(body)
        self._bytes[begin : self._size_bytes] = body
        return self._bytes[begin : self._size_bytes]
