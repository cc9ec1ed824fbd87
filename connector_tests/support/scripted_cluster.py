"""A scripted name server and scripted brokers behind one pool, by address, each of which can be taken down."""

from __future__ import annotations

import json
from contextlib import ExitStack
from types import TracebackType

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.errors import TransportError
from rocketmq_spark.pull.pull_connections import PullConnections
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

NAME_SERVER = "ns:9876"


class ScriptedCluster:
    """Context manager. Brokers ``a``, ``b``, ... are masters at ``a:10911``, ... until they exchange their addresses;
    every topic has ``queue_count`` queues on each. ``route_fields``: of answers with a route; a proxy's say that it is
    one. ``order_conf``: of each route, as with ``orderMessageEnable=true``."""

    def __init__(self, *broker_names: str, permission: int = 6) -> None:
        self._resources = ExitStack()
        self.route_fields: dict[str, str] = {}
        self.name_server = ScriptedBroker()
        self.brokers = {name: ScriptedBroker() for name in broker_names}
        self.permission = permission
        self.queue_count = 1
        self.order_conf: str | None = None
        self.down: set[str] = set()
        self.route_request_count = 0
        self._addresses = {name: f"{name}:10911" for name in broker_names}
        self._by_address = {NAME_SERVER: self.name_server}
        self._by_address |= {self._addresses[name]: broker for name, broker in self.brokers.items()}
        self.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.route)
        self.pool = ConnectionPool(REQUEST_TIMEOUT_MS, connect=self.connect)
        self.pulling = PullConnections(REQUEST_TIMEOUT_MS, connect=self.connect)
        self.name_servers = NameServers((NAME_SERVER,), self.pool, REQUEST_TIMEOUT_MS)

    def client(self) -> ClusterClient:
        """One that knows no route yet."""
        return ClusterClient((NAME_SERVER,), self.pool, REQUEST_TIMEOUT_MS)

    def __enter__(self) -> ScriptedCluster:
        for server in self._by_address.values():
            self._resources.enter_context(server)
        self._resources.callback(self.pool.close)
        self._resources.callback(self.pulling.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def listen(self) -> str:
        """Serve TCP as well, with these addresses in routes from now on; returns the name server's."""
        self._addresses = {name: broker.listen() for name, broker in self.brokers.items()}
        return self.name_server.listen()

    def exchange(self, one: str, other: str) -> None:
        """Each is at the other's address from now on, and the name servers know. Connections stay as they are."""
        addresses = self._addresses
        addresses[one], addresses[other] = addresses[other], addresses[one]
        self._by_address |= {addresses[name]: self.brokers[name] for name in (one, other)}

    def connect(self, address: str, timeout_ms: int) -> Stream:
        if address in self.down:
            raise TransportError("CONNECT_FAILED", address=address, reason="refused")
        return self._by_address[address].connect(address, timeout_ms)

    def route(self, _request: RemotingCommand) -> RemotingCommand:
        self.route_request_count += 1
        brokers = [
            {"brokerAddrs": {"0": address}, "brokerName": name, "cluster": "c"}
            for name, address in self._addresses.items()
        ]
        count = self.queue_count
        queues = [
            {"brokerName": name, "perm": self.permission, "readQueueNums": count, "writeQueueNums": count}
            for name in self.brokers
        ]
        route = {"brokerDatas": brokers, "queueDatas": queues, "orderTopicConf": self.order_conf}
        return build_response(fields=self.route_fields, body=json.dumps(route).encode())
