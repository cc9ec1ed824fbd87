"""In-memory stream: two ends, each a ``Stream``, with the behaviour of TCP and without the operating system."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.stream import Buffer, copy_into, write_timeout_error

UNBOUNDED: Final = 2**63


class _Pipe:
    """One direction of a stream in memory: ordered bytes, at most ``capacity_bytes`` unread; ``end`` is final.

    Threads: any; calls wait in ``_changed``, which covers all state.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._chunks: deque[bytes] = deque()
        self._size_bytes = 0
        self._ended = False
        self._changed = threading.Condition()

    def read(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Wait up to ``timeout_ms`` for bytes, and remove and return at most ``max_bytes``, perhaps fewer than there
        are. Return None if no byte arrived in time. Return ``b""`` after the end, once all bytes are read."""
        with self._changed:
            self._changed.wait_for(lambda: self._chunks or self._ended, timeout_ms / 1000)
            if not self._chunks:
                return b"" if self._ended else None
            chunk = self._chunks.popleft()
            if len(chunk) > max_bytes:
                self._chunks.appendleft(chunk[max_bytes:])
                chunk = chunk[:max_bytes]
            self._size_bytes -= len(chunk)
            self._changed.notify_all()
            return chunk

    def put(self, data: memoryview, timeout_ms: int) -> int:
        """Wait up to ``timeout_ms`` for capacity, append as many bytes as fit, and return how many. Return 0 if none
        fitted in time, -1 after the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._free_bytes > 0, timeout_ms / 1000)
            if self._ended:
                return -1
            chunk = bytes(data[: self._free_bytes])
            if chunk:
                self._chunks.append(chunk)
                self._size_bytes += len(chunk)
                self._changed.notify_all()
            return len(chunk)

    @property
    def _free_bytes(self) -> int:
        return self._capacity_bytes - self._size_bytes

    def end(self) -> None:
        """End this direction for good and wake up waiting calls. Unread bytes can still be read."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class MemoryStream:
    """One end of a stream in memory, with the behaviour of TCP. Its peer is the other end.

    Bytes sent before the peer ended the stream can still be received, as with TCP's FIN.

    Threads: any.
    """

    def __init__(self, address: str, incoming: _Pipe, outgoing: _Pipe) -> None:
        self.address = address
        self._incoming = incoming
        self._outgoing = outgoing

    def recv(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Receive as ``Stream.recv`` does; ``b""`` also once this end was shut down. Raise nothing."""
        return self._incoming.read(max_bytes, timeout_ms)

    def recv_into(self, buffer: memoryview, timeout_ms: int) -> int | None:
        return copy_into(buffer, self.recv(len(buffer), timeout_ms))

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        """Send all of ``data``. Raises TransportError[CONNECTION_LOST] after the end, and if the peer does not read
        within ``timeout_ms``."""
        unsent = memoryview(data)
        deadline_ms = monotonic_ms() + timeout_ms
        while unsent:
            written_bytes = self._outgoing.put(unsent, max(0, deadline_ms - monotonic_ms()))
            if written_bytes < 0:
                raise TransportError("CONNECTION_LOST", address=self.address, reason="the stream has ended")
            if written_bytes == 0:
                raise write_timeout_error(self.address, timeout_ms)
            unsent = unsent[written_bytes:]

    def shutdown(self) -> None:
        """End both directions, at both ends. Bytes sent before can still be received."""
        self._incoming.end()
        self._outgoing.end()

    def close(self) -> None:
        """Do the same as ``shutdown``."""
        self.shutdown()


def memory_pair(address: str = "memory", capacity_bytes: int = UNBOUNDED) -> tuple[MemoryStream, MemoryStream]:
    """Return the two ends of a stream. ``capacity_bytes``: limit of bytes sent and not received, in each direction."""
    forward, backward = _Pipe(capacity_bytes), _Pipe(capacity_bytes)
    return MemoryStream(address, backward, forward), MemoryStream(address, forward, backward)
