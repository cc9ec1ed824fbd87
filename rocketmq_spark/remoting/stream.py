"""What a connection needs of a stream of bytes, and the one place that translates the operating system's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rocketmq_spark.errors import TransportError

Buffer = bytes | bytearray | memoryview


class Stream(Protocol):
    """Both directions of one connection; one thread may receive while another sends.

    ``recv``, ``recv_into`` and ``sendall`` raise TransportError[CONNECTION_LOST].
    """

    def recv(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Whatever has arrived, at most ``max_bytes``; None when nothing did in time; ``b""`` once the peer closed."""

    def recv_into(self, buffer: memoryview, timeout_ms: int) -> int | None:
        """``recv``, but into ``buffer``: how many bytes have arrived there; None when none did in time; 0 at the
        end."""

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        """Send all of ``data``. After an error an unknown part of it was sent: the stream is of no use any more."""

    def shutdown(self) -> None:
        """End both directions, from any thread and any number of times; a ``recv`` that waits ends, as at a loss."""

    def close(self) -> None:
        """Free the descriptor and nothing else. No other thread may be in ``recv`` or ``sendall``."""


def copy_into(buffer: memoryview, data: bytes | None) -> int | None:
    """What ``recv_into`` answers where the bytes come from a ``recv``."""
    if data is None:
        return None
    buffer[: len(data)] = data
    return len(data)


@contextmanager
def raising_connection_lost(address: str) -> Iterator[None]:
    """Raises TransportError[CONNECTION_LOST] for errors of the operating system, or of TLS, inside."""
    try:
        yield
    except OSError as error:
        raise TransportError("CONNECTION_LOST", address=address, reason=reason_of(error)) from error


@contextmanager
def raising_connect_failed(address: str) -> Iterator[None]:
    """Raises TransportError[CONNECT_FAILED] for everything that an address or a handshake can raise inside."""
    try:
        yield
    except (OSError, ValueError, OverflowError) as error:
        raise TransportError("CONNECT_FAILED", address=address, reason=reason_of(error)) from error


def write_timeout_error(address: str, timeout_ms: int) -> TransportError:
    """A peer that does not read: its buffers, and ours, have been full for ``timeout_ms``."""
    reason = f"it accepted no data for {timeout_ms} ms"
    return TransportError("CONNECTION_LOST", address=address, reason=reason)


def reason_of(error: BaseException) -> str:
    """What a foreign error says, in one line that is never empty."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
