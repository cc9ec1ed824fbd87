"""The pull connections of one thread: one for each broker, opened on use and reopened after a loss.

They are kept between micro-batches. After a fork the child starts with none; the parent's are unaffected.
"""

from __future__ import annotations

import os
import time
import weakref
from operator import attrgetter
from typing import Final

from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.pull.pull_connection import PullConnection
from rocketmq_spark.pull.pull_request import Completion
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.pool import IDLE_LIMIT_MS, connections_to_close
from rocketmq_spark.remoting.secured import Connect, connect_with
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.implementation import response_template
from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate
from rocketmq_spark.wire.remoting.frame_arena import Arenas

WAIT_SLICE_MS: Final = 5
"""Maximum wait for one server while other servers may respond."""


class PullConnections:
    """Pull connections by address. At most ``limit`` stay open, apart from those in use; connections idle for
    ``idle_ms`` are closed when another is opened."""

    def __init__(
        self,
        timeout_ms: int,
        *,
        limit: int = 64,
        idle_ms: int = IDLE_LIMIT_MS,
        tls: Tls | None = None,
        connect: Connect | None = None,
        clock: Clock = monotonic_ms,
        template_class: type[ResponseTemplate] = ResponseTemplate,
    ) -> None:
        """``template_class``: decoder of fast-path responses."""
        self._timeout_ms = timeout_ms
        self._limit = limit
        self._idle_ms = idle_ms
        self._connect = connect or connect_with(tls)
        self._clock = clock
        self._template_class = template_class
        self._arenas = Arenas()
        self._connections: dict[BrokerAddress, PullConnection] = {}
        self._draining: list[PullConnection] = []
        _of_this_process.add(self)

    def get_or_open(self, address: BrokerAddress) -> PullConnection:
        """Return the connection to ``address``. Open one if there is none, or if the server has closed it or announced
        its shutdown. Closing is checked only while no pull is in flight. Raises TransportError[CONNECT_FAILED] and the
        other errors of ``Connect``."""
        return self.poll_open(address) or self._open_connection(address)

    def poll_open(self, address: BrokerAddress) -> PullConnection | None:
        """Return the connection to ``address``, or None if ``get_or_open`` would open a new one. Without a pull in
        flight, receive from it first, without waiting: this detects that the server has closed it."""
        connection = self._connections.get(address)
        if connection is None:
            return None
        if not connection.in_flight_count:
            connection.receive(0)
        return connection if connection.is_open and not connection.is_draining else None

    def receive(self, timeout_ms: int) -> list[Completion]:
        """Return the pulls completed by now, each once, with results or errors. If there is none, wait for bytes up to
        ``timeout_ms``, also without a pull in flight.

        [] may come before ``timeout_ms``, after an incomplete response. With several busy servers, wait up to
        ``WAIT_SLICE_MS`` for the one with the most pulls in flight.
        """
        busy = [connection for connection in self._all_connections() if connection.in_flight_count]
        if not busy:
            time.sleep(timeout_ms / 1000)
            return []
        if len(busy) == 1:
            return busy[0].receive(timeout_ms)
        completions = [completion for connection in busy for completion in connection.receive(0)]
        if completions:
            return completions
        return max(busy, key=attrgetter("in_flight_count")).receive(min(timeout_ms, WAIT_SLICE_MS))

    def close(self) -> None:
        """Close all connections. Pulls in flight never complete."""
        for connection in self._all_connections():
            connection.close()

    def _all_connections(self) -> list[PullConnection]:
        """Return the current connections, then replaced ones that are still open."""
        return [*self._connections.values(), *self._draining]

    def _open_connection(self, address: BrokerAddress) -> PullConnection:
        """Close idle and superfluous connections (``_evict_connections``), connect to ``address``, keep the connection
        and return it. A replaced connection that is still open is kept until its pulls are completed. Raises the errors
        of ``Connect``."""
        previous = self._connections.pop(address, None)
        if previous is not None and previous.is_open:
            self._draining.append(previous)
        self._evict_connections()
        stream = self._connect(address.server, self._timeout_ms)
        connection = self._connections[address] = PullConnection(
            str(address), stream, self._arenas, self._timeout_ms, self._clock, self._template_class
        )
        return connection

    def _evict_connections(self) -> None:
        """Make space for one more connection, but close none with a pull in flight. Close those idle for ``idle_ms``,
        then the longest idle while ``limit`` would be exceeded, and all replaced ones. Remove lost ones."""
        for connection in connections_to_close(
            list(self._connections.values()), self._limit - 1, self._clock() - self._idle_ms
        ):
            connection.close()
        for connection in self._draining:
            if not connection.in_flight_count:
                connection.close()
        self._connections = {address: one for address, one in self._connections.items() if one.is_open}
        self._draining = [connection for connection in self._draining if connection.is_open]

    def _reset_after_fork(self) -> None:
        """In a forked child, drop all connections and close their descriptors here. The parent's connections are
        unaffected."""
        inherited, self._connections, self._draining = self._all_connections(), {}, []
        for connection in inherited:
            connection.abandon()


_of_this_process: weakref.WeakSet[PullConnections] = weakref.WeakSet()


_shared: dict[tuple[int, Tls | None, type[ResponseTemplate]], PullConnections] = {}


def shared_pull_connections(timeout_ms: int, tls: Tls | None = None) -> PullConnections:
    """Return this process's connections for these settings; create them at the first call, opening nothing. Executors
    keep them between micro-batches. Frames are signed before they get here, so clients with different credentials may
    share them."""
    template_class = response_template()
    key = timeout_ms, tls, template_class
    if key not in _shared:
        _shared[key] = PullConnections(timeout_ms, tls=tls, template_class=template_class)
    return _shared[key]


def _reset_all_after_fork() -> None:
    """In a forked child, drop the connections of all ``PullConnections``."""
    for connections in list(_of_this_process):
        connections._reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all_after_fork)
