"""ClusterClient: the name servers, routes and brokers of a cluster, over one pool of connections.

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
from rocketmq_spark.remoting.looker import TOOLS, Looker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool, shared_pool
from rocketmq_spark.remoting.proxied_broker import ProxiedBroker
from rocketmq_spark.remoting.route_table import RouteHistory, RouteTable, history_of
from rocketmq_spark.security import Security

T = TypeVar("T")

CLIENTS_IN_A_PROCESS: Final = 16


class ClusterClient:
    """What members, tasks and tools ask a cluster with. Cheap: connections are the pool's. Threads: any.

    ``looker``: for whom brokers behind a proxy look at messages. ``history``: see ``RouteTable``.
    """

    def __init__(
        self,
        name_servers: Sequence[str],
        pool: ConnectionPool,
        timeout_ms: int,
        looker: Looker = TOOLS,
        history: RouteHistory | None = None,
    ) -> None:
        self.name_servers: Final = NameServers(name_servers, pool, timeout_ms)
        self.routes: Final = RouteTable(self.name_servers, history)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._looker = looker

    @staticmethod
    def shared(options: ConnectionOptions) -> ClusterClient:
        """Return the process's own for these options. The last 16 are kept for more tasks, with their routes."""
        return _shared(options.name_servers, options.broker_timeout_ms, options.security)

    def broker(self, address: BrokerAddress, timeout_ms: int | None = None) -> Broker:
        """Return the one there, or behind the proxy there. ``timeout_ms``: of its requests, if not as of others."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        if address.broker_name is None:
            return Broker(address, self._pool, timeout_ms)
        return ProxiedBroker(address, self._pool, timeout_ms, self.routes.queues_of, self._looker)

    def call(self, queue: MessageQueue, ask: Callable[[Broker], T]) -> T:
        """Ask the master of the queue's broker. After an error that ``refreshes_route`` the next call asks where it is.

        Raises what ``RouteTable.find_master`` and ``ask`` do.
        """
        try:
            return ask(self.broker(self.routes.find_master(queue)))
        except RocketMQError as error:
            self.routes.doubt(queue.topic, error)
            raise

    def connects(self, address: BrokerAddress) -> int:
        """See ``ConnectionPool.connects``. Of a broker behind a proxy: to the proxy."""
        return self._pool.connects(address.server)

    def version(self, address: BrokerAddress) -> int:
        """See ``ConnectionPool.peer_version``. Of a broker behind a proxy it is not known."""
        return self._pool.peer_version(address.server) if address.broker_name is None else 0


@lru_cache(maxsize=CLIENTS_IN_A_PROCESS)
def _shared(name_servers: tuple[str, ...], timeout_ms: int, security: Security) -> ClusterClient:
    pool = shared_pool(timeout_ms, security)
    return ClusterClient(name_servers, pool, timeout_ms, history=history_of(name_servers))
