"""Splitting of a byte stream into frames."""

from __future__ import annotations

from collections import deque
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.bounds import FRAME_BYTES

LENGTH_BYTES: Final = 4
MIN_FRAME_BYTES: Final = 4
DEFAULT_LIMIT_BYTES: Final = FRAME_BYTES.maximum


class FrameBuffer:
    """Splits a byte stream, in chunks of any size, into frames.

    A frame within one chunk is a view of it, one across chunks is copied once. Memory: the part of the unfinished frame
    that has arrived, not its announced length. An error is final, as the next frame cannot be found: every further
    ``next_frame`` raises it again.

    Not thread-safe.
    """

    def __init__(self, peer: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._peer = peer
        self._limit_bytes = limit_bytes
        self._chunks: deque[memoryview] = deque()
        self._unfinished = bytearray()

    def __len__(self) -> int:
        """Return the number of buffered bytes."""
        return len(self._unfinished) + sum(map(len, self._chunks))

    def feed(self, data: bytes) -> None:
        """Append the next bytes of the stream. They must not change afterwards: frames are views of them."""
        if data:
            self._chunks.append(memoryview(data))

    def next_frame(self) -> memoryview | None:
        """Remove and return the next complete frame without its length, or None until more bytes are fed.

        Raises RemoteProtocolError[FRAME_TOO_LARGE | MALFORMED_FRAME] for an impossible length, then again in each
        further call.
        """
        if not self._unfinished and self._chunks:
            frame = self._cut_first_chunk()
            if frame is not None:
                return frame
        return self._collect()

    def _cut_first_chunk(self) -> memoryview | None:
        """Remove the next frame from the first chunk, and return it without its length, as a view. None, with no
        change, if it is not complete there. Raises the errors of ``next_frame``."""
        chunk = self._chunks[0]
        if len(chunk) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + self._frame_bytes(chunk)
        if len(chunk) < end:
            return None
        if len(chunk) == end:
            self._chunks.popleft()
        else:
            self._chunks[0] = chunk[end:]
        return chunk[LENGTH_BYTES:end]

    def _collect(self) -> memoryview | None:
        """Move bytes from the chunks into one copy of the next frame. Return the frame without its length once it is
        complete, until then None. The next call continues with the moved bytes. Raises the errors of ``next_frame``."""
        if not self._fill(LENGTH_BYTES) or not self._fill(LENGTH_BYTES + self._frame_bytes(self._unfinished)):
            return None
        frame, self._unfinished = self._unfinished, bytearray()
        return memoryview(frame).toreadonly()[LENGTH_BYTES:]

    def _fill(self, target_bytes: int) -> bool:
        """Move bytes from the chunks until the unfinished frame has ``target_bytes``; return whether it has them."""
        while (missing := target_bytes - len(self._unfinished)) > 0 and self._chunks:
            chunk = self._chunks.popleft()
            self._unfinished += chunk[:missing]
            if len(chunk) > missing:
                self._chunks.appendleft(chunk[missing:])
        return missing <= 0

    def _frame_bytes(self, start: memoryview | bytearray) -> int:
        """Return the length that the first four bytes of ``start`` announce, without these four. Raises the errors of
        ``next_frame`` if it is impossible."""
        length = int.from_bytes(start[:LENGTH_BYTES], "big")
        problem = problem_with_length(length, self._peer, self._limit_bytes)
        if problem is not None:
            raise problem
        return length


def problem_with_length(length: int, peer: str, limit_bytes: int) -> RemoteProtocolError | None:
    """Return, not raise, the error for an impossible length of a frame: FRAME_TOO_LARGE for more than ``limit_bytes``,
    MALFORMED_FRAME for less than MIN_FRAME_BYTES, None for a valid one. ``length``: without its own four bytes."""
    if length > limit_bytes:
        return RemoteProtocolError("FRAME_TOO_LARGE", peer=peer, length_bytes=length, limit_bytes=limit_bytes)
    if length < MIN_FRAME_BYTES:
        problem = f"a length of {length}, where a header alone has {MIN_FRAME_BYTES}"
        return RemoteProtocolError("MALFORMED_FRAME", peer=peer, problem=problem)
    return None
