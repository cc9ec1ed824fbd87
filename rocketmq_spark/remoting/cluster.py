"""RemoteCluster: the name servers and brokers of one client, over one pool of connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.looker import TOOLS, Looker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.proxied_broker import ProxiedBroker


class RemoteCluster:
    """What a member asks. Cheap: connections are the pool's. ``looker``: for whom brokers behind a proxy look at
    messages. Threads: any."""

    def __init__(
        self, name_servers: Sequence[str], pool: ConnectionPool, timeout_ms: int, looker: Looker = TOOLS
    ) -> None:
        self._name_servers = NameServers(name_servers, pool, timeout_ms)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._looker = looker
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}

    def topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        told = self._name_servers.topic_routes(topics)
        self._queues |= {topic: one.read_queues() for topic, one in told.items() if isinstance(one, TopicRoute)}
        return told

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
        return ProxiedBroker(address, self._pool, self._timeout_ms, self._queues, self._looker)
