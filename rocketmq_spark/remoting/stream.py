"""``Stream``: the byte stream under a connection; and the translation of the operating system's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rocketmq_spark.errors import TransportError

Buffer = bytes | bytearray | memoryview


class Stream(Protocol):
    """Byte stream of one connection, in both directions; one thread may receive while another sends.

    ``recv``, ``recv_into`` and ``sendall`` raise TransportError[CONNECTION_LOST].
    """

    def recv(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Return at most ``max_bytes`` received bytes, None if none arrived in time, ``b""`` once the peer closed."""

    def recv_into(self, buffer: memoryview, timeout_ms: int) -> int | None:
        """Receive into ``buffer``, return the number of bytes, None if none arrived in time, 0 once the peer closed."""

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        """Send all of ``data``. After an error an unknown part of it was sent: do not use the stream any more."""

    def shutdown(self) -> None:
        """End both directions, from any thread and any number of times; a waiting ``recv`` ends as after a loss."""

    def close(self) -> None:
        """Close the descriptor and do nothing else. No other thread may be in ``recv`` or ``sendall``."""


def copy_into(buffer: memoryview, data: bytes | None) -> int | None:
    """Copy ``data``, a result of ``recv``, to the start of ``buffer``, at least as long. Return the length of ``data``,
    or None for None."""
    if data is None:
        return None
    buffer[: len(data)] = data
    return len(data)


@contextmanager
def raising_connection_lost(address: str) -> Iterator[None]:
    """Run the block. Raises TransportError[CONNECTION_LOST] in place of an OSError of the block, also one of TLS."""
    try:
        yield
    except OSError as error:
        raise TransportError("CONNECTION_LOST", address=address, reason=reason_of(error)) from error


@contextmanager
def raising_connect_failed(address: str) -> Iterator[None]:
    """Run the block. Raises TransportError[CONNECT_FAILED] in place of an OSError, ValueError or OverflowError of the
    block, such as those of an address or a handshake."""
    try:
        yield
    except (OSError, ValueError, OverflowError) as error:
        raise TransportError("CONNECT_FAILED", address=address, reason=reason_of(error)) from error


def write_timeout_error(address: str, timeout_ms: int) -> TransportError:
    """Return TransportError[CONNECTION_LOST] for a peer that does not read: the buffers of both sides were full for
    ``timeout_ms``."""
    reason = f"it accepted no data for {timeout_ms} ms"
    return TransportError("CONNECTION_LOST", address=address, reason=reason)


def reason_of(error: BaseException) -> str:
    """Return the text of another library's error: its ``strerror``, else its text, else its class name; never empty."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
