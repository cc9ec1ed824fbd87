"""RemoteCluster: the name servers and brokers of one client, over one pool of connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.looker import TOOLS, Looker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.proxied_broker import ProxiedBroker
from rocketmq_spark.remoting.route_table import RouteHistory, RouteTable


class RemoteCluster:
    """What a member asks. Cheap: connections are the pool's. ``looker``: for whom brokers behind a proxy look at
    messages. Threads: any, see ``RouteTable``."""

    def __init__(
        self,
        name_servers: Sequence[str],
        pool: ConnectionPool,
        timeout_ms: int,
        looker: Looker = TOOLS,
        history: RouteHistory | None = None,
    ) -> None:
        self.routes: Final = RouteTable(NameServers(name_servers, pool, timeout_ms), history)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._looker = looker

    def connects(self, address: BrokerAddress) -> int:
        """See ``ConnectionPool.connects``. Of a broker behind a proxy: to the proxy."""
        return self._pool.connects(address.server)

    def version(self, address: BrokerAddress) -> int:
        """See ``ConnectionPool.peer_version``. Of a broker behind a proxy it is not known."""
        return self._pool.peer_version(address.server) if address.broker_name is None else 0

    def broker(self, address: BrokerAddress) -> Broker:
        """The one there, or behind the proxy there."""
        if address.broker_name is None:
            return Broker(address, self._pool, self._timeout_ms)
        return ProxiedBroker(address, self._pool, self._timeout_ms, self.routes.queues, self._looker)
