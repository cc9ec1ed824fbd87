"""Frames that lie where they were received: nothing is copied but what the end of an arena cuts in two."""

from __future__ import annotations

import struct
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.frame import DEFAULT_LIMIT_BYTES, LENGTH_BYTES, MIN_FRAME_BYTES, problem_with_length

ARENA_BYTES: Final = 1024 * 1024
MAX_POOLED_ARENAS: Final = 16
"""What waits to be decoded (8 MiB) and what is in flight (8 MiB) in a task."""

MIN_WRITABLE_BYTES: Final = 64 * 1024
"""With less room a receive would bring little."""

_LENGTH: Final = struct.Struct(">I")


class Arenas:
    """Memory to receive into, used again when nobody refers to it any more. One thread's."""

    def __init__(self) -> None:
        self._arenas: list[bytearray] = []

    def reserve(self, min_bytes: int) -> bytearray:
        """An arena of ``min_bytes`` or more that nobody refers to; whoever takes it does from now on, by a view."""
        for arena in self._arenas:
            if len(arena) >= min_bytes and _is_free(arena):
                return arena
        arena = bytearray(max(min_bytes, ARENA_BYTES))
        if len(arena) == ARENA_BYTES and len(self._arenas) < MAX_POOLED_ARENAS:
            self._arenas.append(arena)
        return arena


def _is_free(arena: bytearray) -> bool:
    """Whether no view of it is left: Python changes the size of no bytearray that has one."""
    try:
        arena.append(0)
    except BufferError:
        return False
    arena.pop()
    return True


class FrameArena:
    """Bytes in, frames out, as ``FrameBuffer`` does; but whoever receives does so into ``writable_buffer``.

    A frame is a view, and as long as anybody has it, or a part of it, its bytes stay as they are. Memory: twice the
    unfinished frame as far as it has arrived, not as far as it was announced; what a large one took is let go after it.

    Not thread-safe.
    """

    def __init__(self, peer: str, arenas: Arenas, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._peer = peer
        self._arenas = arenas
        self._limit_bytes = limit_bytes
        self._begin = self._end = 0
        self.failure: RemoteProtocolError | None = None
        self._use_arena(arenas.reserve(ARENA_BYTES))

    def _use_arena(self, arena: bytearray) -> None:
        self._writable = memoryview(arena)
        self._readable = self._writable.toreadonly()

    def writable_buffer(self) -> memoryview:
        """Where the next bytes go."""
        is_too_large = self._begin == self._end and len(self._writable) > ARENA_BYTES
        if is_too_large or len(self._writable) - self._end < MIN_WRITABLE_BYTES:
            self._move()
        return self._writable[self._end :]

    def _move(self) -> None:
        unfinished = self._readable[self._begin : self._end]
        self._use_arena(self._arenas.reserve(2 * len(unfinished)))
        self._writable[: len(unfinished)] = unfinished
        self._begin, self._end = 0, len(unfinished)

    def received(self, byte_count: int) -> None:
        """So many bytes have come into ``writable_buffer``."""
        self._end += byte_count

    @property
    def unread(self) -> tuple[memoryview, int, int]:
        """What has come and is not taken: memory, where a frame's length begins in it, and where it ends."""
        return self._readable, self._begin, self._end

    def advance_to(self, begin: int) -> None:
        """What is before ``begin``, where another frame begins, has been read out of ``unread``."""
        self._begin = begin

    def next_frame(self) -> memoryview | None:
        """The next frame that is whole, without its length; None: it is still to come.

        Where one begins that can be none, ``failure`` says so from then on, and those in front of it are the last.
        """
        if self._end - self._begin < LENGTH_BYTES or self.failure is not None:
            return None
        (length,) = _LENGTH.unpack_from(self._readable, self._begin)
        begin = self._begin + LENGTH_BYTES
        if not MIN_FRAME_BYTES <= length <= self._limit_bytes:
            self.failure = problem_with_length(length, self._peer, self._limit_bytes)
        if self.failure is not None or begin + length > self._end:
            return None
        self._begin = begin + length
        return self._readable[begin : self._begin]
