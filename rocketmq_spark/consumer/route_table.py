"""RouteTable: what the name servers last said of the topics that are read, and where their brokers are. Asks nobody.

Source: ``client/impl/factory/MQClientInstance.java``, its ``topicRouteTable`` and ``brokerAddrTable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute

UNKNOWN_ADDRESS: Final = "an address that is not known"


class RouteTable:
    """The last route of each topic, in the order in which topics were first told of. Not thread-safe."""

    def __init__(self) -> None:
        self._routes: dict[str, TopicRoute] = {}
        self._last_addresses: dict[str, BrokerAddress] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._readable: dict[str, frozenset[MessageQueue]] = {}
        self._masters: dict[str, BrokerAddress] = {}
        self._seen: set[str] = set()

    def told(self, route: TopicRoute) -> None:
        """A name server has told this route."""
        if self._routes.get(route.topic) == route:
            return
        self._routes[route.topic] = route
        self._queues[route.topic] = route.read_queues()
        self._readable[route.topic] = frozenset(self._queues[route.topic])
        named = {broker_name: self._named_master(broker_name) for broker_name in self.broker_names()}
        self._masters = {broker_name: address for broker_name, address in named.items() if address is not None}

    def remember_addresses(self) -> None:
        """Of brokers that may leave the routes; see ``last_address``."""
        self._last_addresses |= self.masters()
        self._seen |= set(self.broker_names())

    def __contains__(self, topic: str) -> bool:
        return topic in self._routes

    @property
    def routes(self) -> Mapping[str, TopicRoute]:
        """By topic."""
        return MappingProxyType(self._routes)

    @property
    def queues(self) -> Mapping[str, tuple[MessageQueue, ...]]:
        """The readable queues by topic."""
        return MappingProxyType(self._queues)

    def is_readable(self, queue: MessageQueue) -> bool:
        """Whether its topic's route has it."""
        return queue in self._readable.get(queue.topic, ())

    def broker_names(self) -> list[str]:
        """Brokers that a route names, with a master or without, ascending."""
        return sorted({broker.broker_name for route in self._routes.values() for broker in route.brokers})

    def topics_at(self, broker_name: str) -> list[str]:
        """Topics whose routes name the broker."""
        routes = self._routes.items()
        return [topic for topic, route in routes if any(one.broker_name == broker_name for one in route.brokers)]

    def master(self, broker_name: str) -> BrokerAddress | None:
        """The master's address; None while no route names one."""
        return self._masters.get(broker_name)

    def _named_master(self, broker_name: str) -> BrokerAddress | None:
        for route in self._routes.values():
            address = route.master_address(broker_name)
            if address is not None:
                return address
        return None

    def masters(self) -> dict[str, BrokerAddress]:
        """Addresses of the masters that routes name, by broker name, ascending."""
        return dict(self._masters)

    def addresses(self) -> set[BrokerAddress]:
        """Of all brokers, slaves included."""
        brokers = (broker for route in self._routes.values() for broker in route.brokers)
        return {address for broker in brokers for address in broker.all_addresses.values()}

    def last_address(self, broker_name: str) -> str:
        """Where the broker's master was when a route last named one."""
        return str(self._last_addresses.get(broker_name, UNKNOWN_ADDRESS))

    def without_master(self) -> list[str]:
        """Brokers that a route names, and none with a master, ascending."""
        return [broker_name for broker_name in self.broker_names() if self.master(broker_name) is None]

    def left(self) -> list[str]:
        """Brokers that a route once named, and none does now."""
        return sorted(self._seen - set(self.broker_names()))
