"""``Stream`` over TCP."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from rocketmq_spark.model import split_address
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.stream import (
    Buffer,
    Stream,
    raising_connect_failed,
    raising_connection_lost,
    write_timeout_error,
)
from rocketmq_spark.remoting.tls import tls_over

A = TypeVar("A")
R = TypeVar("R")

# A selector without a file descriptor of its own; Windows has only select().
_Selector: Final[Any] = getattr(selectors, "PollSelector", selectors.SelectSelector)

# By these options the kernel detects a dead host. It does not detect a paused process, whose host still responds.
_LIVENESS: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15),  # seconds
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),  # seconds
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30_000),  # milliseconds
)


def connect_tcp(address: str, timeout_ms: int, ssl_context: ssl.SSLContext | None = None) -> Stream:
    """Connect to ``host:port`` or ``[ipv6]:port``, with ``ssl_context`` including the TLS handshake.

    ``timeout_ms`` limits the attempt on each of the host's addresses, and then the handshake. Raises
    TransportError[CONNECT_FAILED], with ``ssl_context`` also the errors of ``tls_over``.
    """
    with raising_connect_failed(address):
        host, port = split_address(address)
        stream = TcpStream(socket.create_connection((host, port), timeout_ms / 1000), address)
    return stream if ssl_context is None else tls_over(stream, address, ssl_context, host, timeout_ms)


class TcpStream:
    """A connected, non-blocking socket. Calls wait in a selector, so each has its own timeout.

    Threads: one receives while another sends, and any may shut it down. ``_ending`` prevents ``shutdown`` of a
    descriptor that ``close`` has freed and the process has reused.
    """

    def __init__(self, connected: socket.socket, address: str) -> None:
        """Make ``connected`` non-blocking, and set TCP_NODELAY and the options of ``_LIVENESS``."""
        self.address = address
        self._socket = connected
        self._ending = threading.Lock()
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _watch_liveness(connected)
        self._readable = _selector_for(connected, selectors.EVENT_READ)
        self._writable = _selector_for(connected, selectors.EVENT_WRITE)

    def recv(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Receive as ``Stream.recv`` does."""
        return self._received(self._socket.recv, max_bytes, timeout_ms)

    def recv_into(self, buffer: memoryview, timeout_ms: int) -> int | None:
        """Receive as ``Stream.recv_into`` does."""
        return self._received(self._socket.recv_into, buffer, timeout_ms)

    def _received(self, receive: Callable[[A], R], argument: A, timeout_ms: int) -> R | None:
        """Call ``receive`` with ``argument`` and return its result. If no data can be read, wait up to ``timeout_ms``
        for some and call it once more; return None if there is still none. Raises TransportError[CONNECTION_LOST]."""
        with raising_connection_lost(self.address):
            try:
                return receive(argument)
            except BlockingIOError:
                self._readable.select(timeout_ms / 1000)
            try:
                return receive(argument)
            except BlockingIOError:
                return None

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        """Send all of ``data`` within ``timeout_ms``. After an error a part may be sent. Raises
        TransportError[CONNECTION_LOST], also after the timeout."""
        unsent = memoryview(data)
        deadline_ms = monotonic_ms() + timeout_ms
        with raising_connection_lost(self.address):
            while unsent:
                try:
                    unsent = unsent[self._socket.send(unsent) :]
                except BlockingIOError:
                    self._wait_until_writable(deadline_ms, timeout_ms)

    def _wait_until_writable(self, deadline_ms: int, timeout_ms: int) -> None:
        """Wait until data can be sent. Raises TransportError[CONNECTION_LOST] if it cannot be sent before
        ``deadline_ms``. ``timeout_ms``: for the error's text."""
        remaining_ms = deadline_ms - monotonic_ms()
        if remaining_ms <= 0 or not self._writable.select(remaining_ms / 1000):
            raise write_timeout_error(self.address, timeout_ms)

    def shutdown(self) -> None:
        """End both directions; ignore errors, because the peer or ``close`` may have been faster."""
        with self._ending:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # the peer, or close(), was faster

    def close(self) -> None:
        """Close the socket; a later ``shutdown`` does nothing."""
        with self._ending:
            self._socket.close()


def _watch_liveness(connected: socket.socket) -> None:
    """Set the options of ``_LIVENESS`` that this platform has."""
    for level, name, value in _LIVENESS:
        if hasattr(socket, name):
            connected.setsockopt(level, getattr(socket, name), value)


def _selector_for(connected: socket.socket, event: int) -> Any:
    """Return a selector that waits for one event of the socket: EVENT_READ or EVENT_WRITE."""
    selector = _Selector()
    selector.register(connected, event)
    return selector
