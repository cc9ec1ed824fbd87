"""Connection pool: one connection per address, opened on demand and reopened after a loss.

Opening holds only the lock of its address: a server that does not accept the connect delays only callers of that
server. After a fork the child starts without connections; the parent keeps its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from operator import itemgetter
from typing import Final, Protocol, TypeVar

from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.connection import Connection, OnRequest, support_nothing
from rocketmq_spark.remoting.secured import Connect, connect_with
from rocketmq_spark.security import UNSECURED, Security

IDLE_LIMIT_MS: Final = 60_000
"""Half of a broker's limit for idle connections (``serverChannelMaxIdleTimeSeconds``, 120 s)."""


class IdleTracked(Protocol):
    """A connection with the time since which it is idle, or None while a request is in flight."""

    @property
    def idle_since_ms(self) -> int | None: ...


C = TypeVar("C", bound=IdleTracked)


class _Slot:
    """The current connection of one address, None before the first, and the number of connections opened so far.

    Threads: any may read; the thread that replaces the connection holds ``opening``.
    """

    __slots__ = ("connection", "connection_number", "opening")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.connection_number = 0
        self.opening = threading.Lock()


class ConnectionPool:
    """Connections by address, opened on demand, all with the same ``security``; one current connection per address.

    ``limit``: maximum number of open connections, exceeded only by connections in use. None: one per address, for a
    member, which sends heartbeats over each. ``idle_ms``: longer idle connections are closed, by no thread, but when
    another one is opened. ``connect`` opens them, by default with ``security``'s TLS.

    Threads: any. ``_table`` covers the slots, and is held for no I/O; opening holds the lock of its slot.
    """

    def __init__(
        self,
        connect_timeout_ms: int,
        on_request: OnRequest = support_nothing,
        *,
        limit: int | None = 64,
        idle_ms: int = IDLE_LIMIT_MS,
        security: Security = UNSECURED,
        connect: Connect | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        """Open no connection."""
        self._connect_timeout_ms = connect_timeout_ms
        self._credentials = security.credentials
        self._on_request = on_request
        self._limit = limit
        self._idle_ms = idle_ms
        self._connect = connect or connect_with(security.tls)
        self._clock = clock
        self._slots: dict[str, _Slot] = {}
        self._retired: set[Connection] = set()
        self._table = threading.Lock()
        self._is_closed = False
        _pools.add(self)

    def __repr__(self) -> str:
        return f"<ConnectionPool {sorted(one.address for one in self._open_connections())}>"

    def get(self, address: str) -> Connection:
        """Return the open connection to ``address``; open one, within the connect timeout, if there is none or it was
        lost. Raises TransportError[CONNECT_FAILED], also if it must open one after ``close``, and the TLS errors of
        ``secured.Connect``."""
        slot = self._slots.get(address) or self._new_slot(address)
        connection = slot.connection
        return connection if connection is not None and connection.is_open else self._open(address, slot)

    def is_connected(self, address: str) -> bool:
        """Return whether a connection to ``address`` is open, so that ``get`` does not wait."""
        slot = self._slots.get(address)
        return slot is not None and slot.connection is not None and slot.connection.is_open

    def connection_number(self, address: str) -> int:
        """Return the number (from 1) of the connection to ``address`` that the next request uses: the open
        connection's, else the next number. While it stays the same, no connection has been lost."""
        slot = self._slots.get(address)
        if slot is None:
            return 1
        connection = slot.connection
        return slot.connection_number + (connection is None or not connection.is_open)

    def server_version(self, address: str) -> int:
        """Return RocketMQ's version number in the last response over the current connection to ``address``, even after
        its loss. Return 0 before the first response, and without a connection."""
        slot = self._slots.get(address)
        connection = None if slot is None else slot.connection
        return 0 if connection is None else connection.server_version

    def retire(self, connection: Connection) -> None:
        """Retire a connection after GO_AWAY: ``get`` opens another, and this one still receives pending responses.

        No effect if it was replaced already. The server closes it, or the pool does when it is idle.
        """
        slot = self._slots.get(connection.address)
        with self._table:
            if slot is not None and slot.connection is connection:
                slot.connection = None
                self._retired = {one for one in self._retired if one.is_open} | {connection}

    def retire_current(self, address: str) -> None:
        """Retire the connection to ``address``, if there is one, see ``retire``: the next ``get`` opens another."""
        slot = self._slots.get(address)
        connection = None if slot is None else slot.connection
        if connection is not None:
            self.retire(connection)

    def close(self) -> None:
        """Close all connections, one after another, each within 2 s. ``get`` opens no more: it raises
        TransportError[CONNECT_FAILED], also on a thread that is connecting now, once it is connected."""
        self._is_closed = True
        for connection in self._open_connections():
            connection.close()

    def _new_slot(self, address: str) -> _Slot:
        """Return the slot of ``address``; if there is none, add a slot without a connection."""
        with self._table:
            return self._slots.setdefault(address, _Slot())

    def _open(self, address: str, slot: _Slot) -> Connection:
        """Return the slot's open connection; if there is none, open one, store and count it. Raises the errors of
        ``secured.Connect``; TransportError[CONNECT_FAILED] also if another thread is still opening it after the connect
        timeout."""
        if not slot.opening.acquire(timeout=self._connect_timeout_ms / 1000):
            reason = f"another thread has been connecting for {self._connect_timeout_ms} ms"
            raise TransportError("CONNECT_FAILED", address=address, reason=reason)
        try:
            connection = slot.connection
            if connection is None or not connection.is_open:
                connection = slot.connection = self._connect_new(address)
                slot.connection_number += 1
                if self._is_closed:  # ``close`` may have listed the connections before this one was stored
                    connection.close()
                self._require_open(address)
            return connection
        finally:
            slot.opening.release()

    def _connect_new(self, address: str) -> Connection:
        """Close surplus idle connections, of any address (``_close_surplus``). Open a new one within the connect
        timeout and return it; the caller stores it. Raises the errors of ``secured.Connect``, and
        TransportError[CONNECT_FAILED] after ``close``."""
        self._require_open(address)
        self._close_surplus()
        stream = self._connect(address, self._connect_timeout_ms)
        return Connection(address, stream, self._on_request, self._clock, credentials=self._credentials)

    def _require_open(self, address: str) -> None:
        """Do nothing before ``close``. Raises TransportError[CONNECT_FAILED] afterwards."""
        if self._is_closed:
            raise TransportError("CONNECT_FAILED", address=address, reason="the client was stopped")

    def _close_surplus(self) -> None:
        """Close the current connections that are idle for ``idle_ms``, and the longest idle ones as far as one more
        connection would exceed the limit. Close all retired ones that are idle. A connection with a request in flight
        stays open."""
        retired = self._retired
        current = [connection for connection in self._open_connections() if connection not in retired]
        limit = len(current) if self._limit is None else self._limit - 1
        surplus = connections_to_close(current, limit, self._clock() - self._idle_ms)
        for connection in (*surplus, *(one for one in retired if one.idle_since_ms is not None)):
            connection.close()

    def _open_connections(self) -> list[Connection]:
        """Return all open connections, retired ones included."""
        with self._table:
            connections = [slot.connection for slot in self._slots.values()]
        return [one for one in (*connections, *self._retired) if one is not None and one.is_open]

    def _reset_after_fork(self) -> None:
        """Drop all connections in a forked child: close only their descriptors, and replace slots and lock. The
        parent's locks are invalid here, and its readers do not run."""
        inherited = [slot.connection for slot in self._slots.values() if slot.connection is not None]
        inherited += self._retired
        self._slots = {}
        self._retired = set()
        self._table = threading.Lock()
        for connection in inherited:
            connection.close_after_fork()


def connections_to_close(connections: list[C], limit: int, idle_before_ms: int) -> list[C]:
    """Return the connections idle since ``idle_before_ms`` (by the connections' clock) or earlier. Add further ones,
    the longest idle first, until ``limit`` remain. Close none. A connection with a request in flight is never returned,
    even if more than ``limit`` have one.
    """
    idle = [(since_ms, connection) for connection in connections if (since_ms := connection.idle_since_ms) is not None]
    idle.sort(key=itemgetter(0))
    surplus = len(connections) - limit
    return [
        connection
        for position, (since_ms, connection) in enumerate(idle)
        if since_ms <= idle_before_ms or position < surplus
    ]


# ------------------------------------------------------------------------------------- the pools of this process

_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()
_shared: dict[tuple[int, Security], ConnectionPool] = {}
_sharing = threading.Lock()


def shared_pool(connect_timeout_ms: int, security: Security = UNSECURED) -> ConnectionPool:
    """Return this process's pool for clients that support no server requests; executors reuse it across micro-batches.
    The first call with these arguments creates it.

    Threads: any.
    """
    with _sharing:
        key = connect_timeout_ms, security
        if key not in _shared:
            _shared[key] = ConnectionPool(connect_timeout_ms, security=security)
        return _shared[key]


def _reset_pools_after_fork() -> None:
    """Drop the connections of all pools in a forked child, see ``ConnectionPool._reset_after_fork``, and replace the
    lock of ``shared_pool``. The pools stay."""
    global _sharing
    _sharing = threading.Lock()
    for pool in list(_pools):
        pool._reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pools_after_fork)
