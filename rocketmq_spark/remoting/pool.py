"""One connection per address, opened when it is needed and again after it was lost.

Opening holds the lock of its address only: a server that does not answer the connect delays nobody but those who want
that server. After a fork the child starts with no connections; the parent's stay as they are.
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
"""Half of what a broker allows an idle connection (``serverChannelMaxIdleTimeSeconds``, 120 s)."""


class IdleTracked(Protocol):
    """A connection, as it is judged by how long it has been idle."""

    @property
    def idle_since_ms(self) -> int | None: ...


C = TypeVar("C", bound=IdleTracked)


class _Slot:
    """The connection of one address, and how many there have been. ``opening`` is held while it is being replaced.

    Threads: any may read; who replaces holds ``opening``.
    """

    __slots__ = ("connection", "connection_number", "opening")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.connection_number = 0
        self.opening = threading.Lock()


class ConnectionPool:
    """Connections by address. At most ``limit`` stay open when none is in use beyond it; long idle ones are closed.
    None: as many as there are addresses, for who has to hold one to each (a member, whose heartbeats name it). All of
    them are secured in the same way; ``connect`` is what they are opened with instead of ``security``'s TLS.

    There is no thread that looks for idle connections: they are closed when another one is opened.

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
        """The open connection to ``address``. Raises TransportError[CONNECT_FAILED]."""
        slot = self._slots.get(address) or self._new_slot(address)
        connection = slot.connection
        return connection if connection is not None and connection.is_open else self._open(address, slot)

    def is_connected(self, address: str) -> bool:
        """Whether ``get`` takes no time."""
        slot = self._slots.get(address)
        return slot is not None and slot.connection is not None and slot.connection.is_open

    def connection_number(self, address: str) -> int:
        """Which connection to ``address`` the next request goes by, the first, the second and so on: while that stays
        the same, none has been lost."""
        slot = self._slots.get(address)
        if slot is None:
            return 1
        connection = slot.connection
        return slot.connection_number + (connection is None or not connection.is_open)

    def server_version(self, address: str) -> int:
        """Which version of RocketMQ has answered at ``address``; 0 where nobody has over the present connection."""
        slot = self._slots.get(address)
        connection = None if slot is None else slot.connection
        return 0 if connection is None else connection.server_version

    def retire(self, connection: Connection) -> None:
        """Its server is going away: ``get`` opens another, while answers may still come over this one.

        Nothing happens when it has been replaced already. The server closes it, or the pool does when it is idle.
        """
        slot = self._slots.get(connection.address)
        with self._table:
            if slot is not None and slot.connection is connection:
                slot.connection = None
                self._retired = {one for one in self._retired if one.is_open} | {connection}

    def close(self) -> None:
        """Close all connections; ``get`` fails from here on."""
        self._is_closed = True
        for connection in self._open_connections():
            connection.close()

    def _new_slot(self, address: str) -> _Slot:
        with self._table:
            return self._slots.setdefault(address, _Slot())

    def _open(self, address: str, slot: _Slot) -> Connection:
        if not slot.opening.acquire(timeout=self._connect_timeout_ms / 1000):
            reason = f"another thread has been connecting for {self._connect_timeout_ms} ms"
            raise TransportError("CONNECT_FAILED", address=address, reason=reason)
        try:
            connection = slot.connection
            if connection is None or not connection.is_open:
                connection = slot.connection = self._connected(address)
                slot.connection_number += 1
            return connection
        finally:
            slot.opening.release()

    def _connected(self, address: str) -> Connection:
        self._close_surplus()
        stream = self._connect(address, self._connect_timeout_ms)
        connection = Connection(address, stream, self._on_request, self._clock, credentials=self._credentials)
        if self._is_closed:
            connection.close()
            raise TransportError("CONNECT_FAILED", address=address, reason="the client was stopped")
        return connection

    def _close_surplus(self) -> None:
        retired = self._retired
        current = [connection for connection in self._open_connections() if connection not in retired]
        limit = len(current) if self._limit is None else self._limit - 1
        surplus = connections_to_close(current, limit, self._clock() - self._idle_ms)
        for connection in (*surplus, *(one for one in retired if one.idle_since_ms is not None)):
            connection.close()

    def _open_connections(self) -> list[Connection]:
        """The retired among them."""
        with self._table:
            connections = [slot.connection for slot in self._slots.values()]
        return [one for one in (*connections, *self._retired) if one is not None and one.is_open]

    def _reset_after_fork(self) -> None:
        """In a forked child: no lock of the parent is worth anything here, and its reader threads do not run."""
        inherited = [slot.connection for slot in self._slots.values() if slot.connection is not None]
        inherited += self._retired
        self._slots = {}
        self._retired = set()
        self._table = threading.Lock()
        for connection in inherited:
            connection.close_after_fork()


def connections_to_close(connections: list[C], limit: int, idle_before_ms: int) -> list[C]:
    """Those idle since ``idle_before_ms`` or longer, and the longest idle of the rest until ``limit`` are left.

    A connection that awaits an answer is never among them, even when more than ``limit`` do.
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
    """The process's own pool for clients that the servers ask nothing: executors keep it between micro-batches.

    Threads: any.
    """
    with _sharing:
        key = connect_timeout_ms, security
        if key not in _shared:
            _shared[key] = ConnectionPool(connect_timeout_ms, security=security)
        return _shared[key]


def _reset_pools_after_fork() -> None:
    global _sharing
    _sharing = threading.Lock()
    for pool in list(_pools):
        pool._reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pools_after_fork)
