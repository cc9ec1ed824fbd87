"""Frames as views of the memory that they were received into; only a frame cut by the end of an arena is copied."""

from __future__ import annotations

import struct
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.frame import DEFAULT_LIMIT_BYTES, LENGTH_BYTES, MIN_FRAME_BYTES, problem_with_length

ARENA_BYTES: Final = 1024 * 1024
MAX_POOLED_ARENAS: Final = 16
"""Enough for a task's responses that wait to be decoded (8 MiB) and those in flight (8 MiB)."""

MIN_WRITABLE_BYTES: Final = 64 * 1024
"""With less free space a receive call would return little."""

_LENGTH: Final = struct.Struct(">I")


class Arenas:
    """Pool of receive memory of one thread's connections. An arena, a bytearray, is reused when no view of it
    exists."""

    def __init__(self) -> None:
        self._arenas: list[bytearray] = []

    def reserve(self, min_bytes: int) -> bytearray:
        """Return an arena of at least ``min_bytes`` without views: a pooled one, else a new one of at least
        ARENA_BYTES. A new one of exactly ARENA_BYTES joins the pool, up to MAX_POOLED_ARENAS. The caller reserves the
        arena only by keeping a view of it."""
        for arena in self._arenas:
            if len(arena) >= min_bytes and _is_free(arena):
                return arena
        arena = bytearray(max(min_bytes, ARENA_BYTES))
        if len(arena) == ARENA_BYTES and len(self._arenas) < MAX_POOLED_ARENAS:
            self._arenas.append(arena)
        return arena


def _is_free(arena: bytearray) -> bool:
    """Return whether no view of ``arena`` exists: Python cannot resize a bytearray that has one. Leave it unchanged."""
    try:
        arena.append(0)
    except BufferError:
        return False
    arena.pop()
    return True


class FrameArena:
    """Splits the bytes received over one connection into frames, as ``FrameBuffer``, but the caller receives them into
    ``writable_buffer``. While a view of a frame exists, its bytes do not change. The memory is twice the arrived part
    of the unfinished frame, not its announced length. The memory of a large frame is released after it. Not
    thread-safe.
    """

    def __init__(self, peer: str, arenas: Arenas, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._peer = peer
        self._arenas = arenas
        self._limit_bytes = limit_bytes
        self._begin = self._end = 0
        self.failure: RemoteProtocolError | None = None
        self._use_arena(arenas.reserve(ARENA_BYTES))

    def _use_arena(self, arena: bytearray) -> None:
        """Receive into ``arena`` from now on, without copying. Keep a view of it, which reserves it; release the view
        of the one before."""
        self._writable = memoryview(arena)
        self._readable = self._writable.toreadonly()

    def writable_buffer(self) -> memoryview:
        """Return the memory to receive the next bytes into; the caller reports them with ``received``. Move the
        unfinished frame to another arena first if fewer than MIN_WRITABLE_BYTES are left. Release the arena of a large
        frame once all is read."""
        is_too_large = self._begin == self._end and len(self._writable) > ARENA_BYTES
        if is_too_large or len(self._writable) - self._end < MIN_WRITABLE_BYTES:
            self._move()
        return self._writable[self._end :]

    def _move(self) -> None:
        """Copy the unfinished frame to the begin of another arena, of at least twice its size, and use that from now
        on."""
        unfinished = self._readable[self._begin : self._end]
        self._use_arena(self._arenas.reserve(2 * len(unfinished)))
        self._writable[: len(unfinished)] = unfinished
        self._begin, self._end = 0, len(unfinished)

    def received(self, byte_count: int) -> None:
        """Record that ``byte_count`` bytes were written to the begin of ``writable_buffer``. Unchecked."""
        self._end += byte_count

    @property
    def unread(self) -> tuple[memoryview, int, int]:
        """Return the received bytes that were not read: memory, position where a frame's length begins, and end
        position."""
        return self._readable, self._begin, self._end

    def advance_to(self, begin: int) -> None:
        """Mark all bytes before position ``begin`` of the memory in ``unread`` as read. A frame, with its length,
        begins there; it is not checked."""
        self._begin = begin

    def next_frame(self) -> memoryview | None:
        """Return the next complete frame without its length, as a view, and mark it as read. Return None if it is
        incomplete.

        For an impossible length set ``failure``, raise nothing, and return None from then on.
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
