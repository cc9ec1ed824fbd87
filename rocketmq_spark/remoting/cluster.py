"""RemoteCluster: the name servers and brokers of one client, over one pool of connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import TopicRoute
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool


class RemoteCluster:
    """What a member asks. Cheap: connections are the pool's."""

    def __init__(self, name_servers: Sequence[str], pool: ConnectionPool, timeout_ms: int) -> None:
        self._name_servers = NameServers(name_servers, pool, timeout_ms)
        self._pool = pool
        self._timeout_ms = timeout_ms

    def topic_route(self, topic: str) -> TopicRoute:
        return self._name_servers.topic_route(topic)

    def topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        return self._name_servers.topic_routes(topics)

    def connects(self, address: str) -> int:
        """See ``ConnectionPool.connects``."""
        return self._pool.connects(address)

    def version(self, address: str) -> int:
        """See ``ConnectionPool.peer_version``."""
        return self._pool.peer_version(address)

    def broker(self, address: str) -> Broker:
        return Broker(address, self._pool, self._timeout_ms)
