"""A TCP proxy on the loopback interface that does to a connection what networks do.

It stands in front of one server and rewrites nothing by itself. Faults may be set at any time; they hold for open and
for new connections until ``pass_through``. Clients reach brokers by the address in the route, so a broker behind a
proxy has to advertise the proxy's address.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from types import TracebackType

CHUNK_BYTES = 64 * 1024
RESET_ON_CLOSE = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # SO_LINGER on with 0 s: close() sends RST


class Direction(Enum):
    TO_SERVER = "to server"
    TO_CLIENT = "to client"


class _Cut(Exception):  # noqa: N818  # an order, not an error
    """Ends a connection abruptly, after ``last`` was forwarded."""

    def __init__(self, last: bytes) -> None:
        self.last = last


Fault = Callable[[bytes, Direction], bytes]


class FaultProxy:
    """Context manager; ``address`` is ``host:port`` and stays the same, also while it refuses."""

    def __init__(self, target_address: str, host: str = "127.0.0.1", port: int = 0) -> None:
        target_host, _, target_port = target_address.rpartition(":")
        self._target = (target_host, int(target_port))
        self._host = host
        self._fault: Fault = _nothing
        self._flowing = threading.Event()
        self._flowing.set()
        self._stopped = threading.Event()
        self._links: list[_Link] = []
        self._listener: socket.socket | None = None
        self._port = port
        self.cut_count = 0
        self.forwarded_bytes = {Direction.TO_SERVER: 0, Direction.TO_CLIENT: 0}
        self._listen()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------------- faults

    def pass_through(self) -> None:
        """Forward again; connections that were cut stay cut."""
        self._fault = _nothing
        self._flowing.set()
        self._listen()

    def observe(self, see: Callable[[bytes, Direction], None]) -> None:
        """Forward everything, and show it to ``see`` first."""

        def shown(data: bytes, where: Direction) -> bytes:
            see(data, where)
            return data

        self._fault = shown

    def inject(self, fault: Fault) -> None:
        """Do to each chunk what ``fault`` states; it is called on the threads of the connections."""
        self._fault = fault

    def delay(self, by_ms: int, direction: Direction = Direction.TO_CLIENT) -> None:
        """Hold every chunk in ``direction`` for so long, one after another."""

        def late(data: bytes, where: Direction) -> bytes:
            if where is direction:
                self._stopped.wait(by_ms / 1000)
            return data

        self._fault = late

    def stall(self) -> None:
        """Forward and read nothing in either direction; connections stay up."""
        self._flowing.clear()

    def cut_after(self, byte_count: int, direction: Direction = Direction.TO_CLIENT) -> None:
        """Reset the connection once ``byte_count`` more bytes went in ``direction``; counted over all connections."""
        left = byte_count

        def cut(data: bytes, where: Direction) -> bytes:
            nonlocal left
            if where is not direction:
                return data
            if len(data) >= left:
                raise _Cut(data[:left])
            left -= len(data)
            return data

        self._fault = cut

    def corrupt(self, byte_index: int, direction: Direction = Direction.TO_CLIENT) -> None:
        """Invert the byte that comes ``byte_index`` bytes from now in ``direction``; only that one."""
        left = byte_index

        def invert(data: bytes, where: Direction) -> bytes:
            nonlocal left
            if where is not direction:
                return data
            index, left = left, left - len(data)
            if not 0 <= index < len(data):
                return data
            return data[:index] + bytes([data[index] ^ 0xFF]) + data[index + 1 :]

        self._fault = invert

    def cut_now(self) -> None:
        """Reset every open connection; new ones are served."""
        links, self._links = self._links, []
        for link in links:
            link.reset()

    def refuse(self) -> None:
        """Reset every open connection and refuse new ones, as a host does where nobody listens."""
        self._close_listener()
        self.cut_now()

    # ------------------------------------------------------------------------------------------------- working

    def stop(self) -> None:
        """End all connections and threads."""
        self._stopped.set()
        self._flowing.set()
        self.refuse()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((self._host, self._port))
            self._port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), name="fault-proxy", daemon=True).start()

    def _close_listener(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, 5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        link = _Link(client, server)
        self._links.append(link)
        for source, sink, direction in (
            (client, server, Direction.TO_SERVER),
            (server, client, Direction.TO_CLIENT),
        ):
            threading.Thread(
                target=self._pump, args=(link, source, sink, direction), name="fault-proxy-pump", daemon=True
            ).start()

    def _pump(self, link: _Link, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._flowing.wait()
                try:
                    self._forward(sink, self._fault(data, direction), direction)
                except _Cut as cut:
                    self._forward(sink, cut.last, direction)
                    link.reset()
                    self.cut_count += 1
                    return
            sink.shutdown(socket.SHUT_WR)
        link.end(direction)

    def _forward(self, sink: socket.socket, data: bytes, direction: Direction) -> None:
        self.forwarded_bytes[direction] += len(data)  # before: who has received them may look at once
        sink.sendall(data)


class _Link:
    """A client's socket and its server's."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._sockets = (client, server)
        self._ended: set[Direction] = set()
        self._lock = threading.Lock()

    def end(self, direction: Direction) -> None:
        """One direction has ended; close when both have."""
        with self._lock:
            self._ended.add(direction)
            if len(self._ended) == len(Direction):
                self._close()

    def reset(self) -> None:
        with self._lock:
            for end in self._sockets:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            # A thread in recv() keeps the description open, so the other side sees nothing of close() alone.
            for end in self._sockets:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RD)
            self._close()

    def _close(self) -> None:
        for end in self._sockets:
            end.close()


def _nothing(data: bytes, _direction: Direction) -> bytes:
    return data
