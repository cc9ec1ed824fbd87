"""A TCP server that is no RocketMQ server: it sends one thing to each client, and counts what they read."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

CHUNK = bytes(64 * 1024)


class HostileServer:
    """Context manager; ``address`` is ``host:port``.

    ``greeting`` is sent as soon as a client sends something; ``endless`` lets zeros follow for as long as the client
    takes them. Without either it reads and stays silent.
    """

    def __init__(self, greeting: bytes = b"", *, endless: bool = False) -> None:
        self._greeting = greeting
        self._endless = endless
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connect_count = 0
        self.received_bytes = 0
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, name="hostile-server", daemon=True).start()

    def __enter__(self) -> HostileServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._clients):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connect_count += 1
                self._clients.append(client)
                threading.Thread(target=self._serve, args=(client,), name="hostile-session", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            client.recv(len(CHUNK))
            client.sendall(self._greeting)
            while self._endless:
                self.received_bytes += client.send(CHUNK)
            while client.recv(len(CHUNK)):
                pass
        client.close()
