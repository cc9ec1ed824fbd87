"""A server of a few lines, over the loopback interface."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Serve = Callable[[socket.socket], None]
"""What is done with an accepted connection, which is closed then."""


@contextmanager
def never_accepting() -> Iterator[str]:
    """The address of a server to which connecting takes until the context ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, socket.socket() as first:
        first.connect(listener.getsockname())  # there is room for no other
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def serving() -> Iterator[Callable[[Serve], str]]:
    """Starts a server, for any number of connections one after another; its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(serve_one: Serve) -> str:
        def run() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = listening.accept()
                    with accepted, suppress(OSError):
                        serve_one(accepted)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    for thread in threads:
        thread.join()
