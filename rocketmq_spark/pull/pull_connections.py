"""The pull connections of one thread: one to each broker, opened when it is needed and again after it was lost.

They are kept between micro-batches. After a fork the child starts with none; the parent's stay as they are.
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
from rocketmq_spark.wire.implementation import answer_template
from rocketmq_spark.wire.remoting.frame_arena import Arenas
from rocketmq_spark.wire.remoting.ordinary_answer import AnswerTemplate

TURN_MS: Final = 5
"""How long one server is waited for while another may answer."""


class PullConnections:
    """By address. At most ``limit`` stay open when none is in use beyond it; long idle ones are closed when another is
    opened."""

    def __init__(
        self,
        timeout_ms: int,
        *,
        limit: int = 64,
        idle_ms: int = IDLE_LIMIT_MS,
        tls: Tls | None = None,
        connect: Connect | None = None,
        clock: Clock = monotonic_ms,
        kind: type[AnswerTemplate] = AnswerTemplate,
    ) -> None:
        """``kind``: who reads ordinary answers."""
        self._timeout_ms = timeout_ms
        self._limit = limit
        self._idle_ms = idle_ms
        self._connect = connect or connect_with(tls)
        self._clock = clock
        self._kind = kind
        self._arenas = Arenas()
        self._connections: dict[BrokerAddress, PullConnection] = {}
        self._leaving: list[PullConnection] = []
        _of_this_process.add(self)

    def connection(self, address: BrokerAddress) -> PullConnection:
        """The one to pull over, opened if need be. Raises TransportError[CONNECT_FAILED]."""
        connection = self._connections.get(address)
        if connection is not None and not connection.in_flight_count:
            connection.receive(0)  # nobody has noticed yet whether the server has closed it
        if connection is None or not connection.is_open or connection.is_leaving:
            connection = self._opened(address)
        return connection

    def notices_loss(self, address: BrokerAddress) -> bool:
        """Whether the connection was lost while nothing was in flight: nobody has been told of that."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_open or connection.in_flight_count:
            return False
        connection.receive(0)
        return not connection.is_open

    def receive(self, timeout_ms: int) -> list[Completion]:
        """What is complete by now; if nothing is, some is waited for, so long at most.

        Of several servers only the one with most in flight is waited for, and but shortly.
        """
        busy = [connection for connection in self._all() if connection.in_flight_count]
        if not busy:
            time.sleep(timeout_ms / 1000)
            return []
        if len(busy) == 1:
            return busy[0].receive(timeout_ms)
        completions = [completion for connection in busy for completion in connection.receive(0)]
        if completions:
            return completions
        return max(busy, key=attrgetter("in_flight_count")).receive(min(timeout_ms, TURN_MS))

    def close(self) -> None:
        """Close all connections. What is in flight is told to nobody."""
        for connection in self._all():
            connection.close()

    def _all(self) -> list[PullConnection]:
        return [*self._connections.values(), *self._leaving]

    def _opened(self, address: BrokerAddress) -> PullConnection:
        before = self._connections.pop(address, None)
        if before is not None and before.is_open:
            self._leaving.append(before)
        self._make_room()
        stream = self._connect(address.server, self._timeout_ms)
        connection = self._connections[address] = PullConnection(
            str(address), stream, self._arenas, self._timeout_ms, self._clock, self._kind
        )
        return connection

    def _make_room(self) -> None:
        for connection in connections_to_close(
            list(self._connections.values()), self._limit - 1, self._clock() - self._idle_ms
        ):
            connection.close()
        for connection in self._leaving:
            if not connection.in_flight_count:
                connection.close()
        self._connections = {address: one for address, one in self._connections.items() if one.is_open}
        self._leaving = [connection for connection in self._leaving if connection.is_open]

    def _start_over(self) -> None:
        """In a forked child."""
        inherited, self._connections, self._leaving = self._all(), {}, []
        for connection in inherited:
            connection.abandon()


_of_this_process: weakref.WeakSet[PullConnections] = weakref.WeakSet()


_shared: dict[tuple[int, Tls | None, type[AnswerTemplate]], PullConnections] = {}


def shared_pull_connections(timeout_ms: int, tls: Tls | None = None) -> PullConnections:
    """The process's own: executors keep them between micro-batches. Frames come signed, by whomever."""
    kind = answer_template()
    key = timeout_ms, tls, kind
    if key not in _shared:
        _shared[key] = PullConnections(timeout_ms, tls=tls, kind=kind)
    return _shared[key]


def _start_over_after_fork() -> None:
    for connections in list(_of_this_process):
        connections._start_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over_after_fork)
