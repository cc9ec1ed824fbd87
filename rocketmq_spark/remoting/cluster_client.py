"""``ClusterClient``: access to the name servers, routes and brokers of a cluster over one connection pool.

Source: ``client/impl/factory/MQClientInstance.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options.connection import ConnectionOptions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.namesrv import AddressMap, NameServers
from rocketmq_spark.remoting.pool import ConnectionPool, shared_pool
from rocketmq_spark.remoting.prober import TOOLS_PROBER, Prober
from rocketmq_spark.remoting.proxied_broker import ProxiedBroker
from rocketmq_spark.remoting.route_table import RouteHistory, RouteTable, history_of
from rocketmq_spark.security import Security

T = TypeVar("T")

MAX_SHARED_CLIENTS: Final = 16


class ClusterClient:
    """Client of one cluster for members, tasks and tools. Cheap: the pool owns the connections. Threads: any.

    ``prober``: group with which messages of brokers behind a proxy are probed. ``history``: see ``RouteTable``.
    ``address_map``: see ``NameServers``.
    """

    def __init__(
        self,
        name_servers: Sequence[str],
        pool: ConnectionPool,
        timeout_ms: int,
        prober: Prober = TOOLS_PROBER,
        history: RouteHistory | None = None,
        address_map: AddressMap = (),
    ) -> None:
        """Open no connection, and request no route."""
        self.name_servers: Final = NameServers(name_servers, pool, timeout_ms, address_map)
        self.routes: Final = RouteTable(self.name_servers, history)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._prober = prober

    @staticmethod
    def of(
        options: ConnectionOptions,
        pool: ConnectionPool,
        prober: Prober = TOOLS_PROBER,
        history: RouteHistory | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> ClusterClient:
        """Return a new client of the cluster of ``options``. ``timeout_ms``: limit of a request; None:
        ``brokerTimeoutMs``."""
        timeout_ms = options.broker_timeout_ms if timeout_ms is None else timeout_ms
        return ClusterClient(options.name_servers, pool, timeout_ms, prober, history, options.broker_address_map)

    @staticmethod
    def shared(options: ConnectionOptions) -> ClusterClient:
        """Return this process's client for these name servers, request timeout, security and address map: other options
        do not count. The last 16 clients, with their routes, are cached across tasks."""
        return _shared(options.name_servers, options.broker_timeout_ms, options.security, options.broker_address_map)

    def broker(self, address: BrokerAddress, timeout_ms: int | None = None) -> Broker:
        """Return a new client of the broker at ``address``, a ``ProxiedBroker`` if it is behind a proxy; open no
        connection.

        ``timeout_ms``: limit of its requests; None: the cluster client's.
        """
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        if address.broker_name is None:
            return Broker(address, self._pool, timeout_ms)
        return ProxiedBroker(address, self._pool, timeout_ms, self.routes.queues_of, self._prober)

    def call(self, queue: MessageQueue, operation: Callable[[Broker], T]) -> T:
        """Call ``operation`` with a client of the master of the queue's broker, and return its result. Requests the
        route if it is not cached. Makes one attempt.

        After an error that ``requires_route_refresh`` the next call refreshes the route. Raises what
        ``RouteTable.find_master`` and ``operation`` do.
        """
        try:
            return operation(self.broker(self.routes.find_master(queue)))
        except RocketMQError as error:
            self.routes.invalidate_on_error(queue.topic, error)
            raise

    def connection_number(self, address: BrokerAddress) -> int:
        """Return the number (from 1) of the server's connection that the next request uses, see
        ``ConnectionPool.connection_number``. All brokers behind a proxy have the proxy's."""
        return self._pool.connection_number(address.server)

    def require_new_connection(self, address: BrokerAddress) -> None:
        """Make the next request to the server open a connection, see ``ConnectionPool.retire_current``."""
        self._pool.retire_current(address.server)

    def version(self, address: BrokerAddress) -> int:
        """Return RocketMQ's version number in the broker's last response, see ``ConnectionPool.server_version``; 0
        before the first, and for a broker behind a proxy."""
        return self._pool.server_version(address.server) if address.broker_name is None else 0


@lru_cache(maxsize=MAX_SHARED_CLIENTS)
def _shared(
    name_servers: tuple[str, ...], timeout_ms: int, security: Security, address_map: AddressMap
) -> ClusterClient:
    """Return the client of ``ClusterClient.shared``; create it, over this process's pool and route history, if not
    cached."""
    pool = shared_pool(timeout_ms, security)
    history = history_of(name_servers)
    return ClusterClient(name_servers, pool, timeout_ms, history=history, address_map=address_map)
