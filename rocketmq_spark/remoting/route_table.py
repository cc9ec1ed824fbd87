"""RouteTable: where topics are, as the name servers last told. The one store of routes, for all that ask a cluster.

Source: ``client/impl/factory/MQClientInstance.java``, its ``topicRouteTable`` and ``brokerAddrTable``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute
from rocketmq_spark.remoting.retry import (
    Retryability,
    is_unknown_topic,
    requires_route_refresh,
    retryability_of_request,
)

UNKNOWN_ADDRESS: Final = "an address that is not known"


class RouteSource(Protocol):
    """Whom a table asks: ``NameServers``, or a cluster in memory."""

    @property
    def addresses(self) -> str: ...

    def topic_routes(self, topics: Iterable[str]) -> Mapping[str, TopicRoute | RocketMQError]: ...


class RouteHistory:
    """Brokers that topics have been on, as far as name servers have told, and the last addresses of their masters.

    It may outlive tables, and several may share it. Threads: any.
    """

    def __init__(self) -> None:
        self._brokers: dict[str, frozenset[str]] = {}
        self._addresses: dict[str, BrokerAddress] = {}

    def add(self, route: TopicRoute) -> None:
        """A name server has told it."""
        names = frozenset(data.broker_name for data in route.queues)
        self._brokers[route.topic] = self.brokers(route.topic) | names
        for broker in route.brokers:
            if broker.master_address is not None:
                self._addresses[broker.broker_name] = broker.master_address

    def __contains__(self, topic: str) -> bool:
        return topic in self._brokers

    def brokers(self, topic: str) -> frozenset[str]:
        """Return the names of those that the topic is on or was."""
        return self._brokers.get(topic, frozenset())

    def last_address(self, broker_name: str) -> str:
        """Return where the broker's master was when a route last named one."""
        return str(self._addresses.get(broker_name, UNKNOWN_ADDRESS))


_histories: Final[dict[tuple[str, ...], RouteHistory]] = {}


def history_of(name_servers: tuple[str, ...]) -> RouteHistory:
    """Return the one that this process keeps of a cluster: the next task, attempt or query may begin while the brokers
    of its topics are unavailable. Threads: any."""
    return _histories.setdefault(name_servers, RouteHistory())


@dataclass(frozen=True)
class _CachedRoute:
    route: TopicRoute

    @cached_property
    def queues(self) -> tuple[MessageQueue, ...]:
        return self.route.read_queues()

    @cached_property
    def readable(self) -> frozenset[MessageQueue]:
        return frozenset(self.queues)


class RouteTable:
    """The last route of each topic, in the order in which topics were first told of.

    Name servers are asked for a route when it is wanted and not there (``route``, ``find_master``), or is in doubt
    (``invalidate_on_error``, ``invalidate``); or by who refreshes those of its topics (``refresh``). What they do not
    tell stays as it was, and is a failure: of the name servers where none of them answers; of the topic's brokers where
    ``history`` has had a route of it; else of a topic that there may not be. How long each is waited for, the caller's
    policy says.

    Threads: any. Where two ask for the same at once, the later answer stays. What is answered of all topics is a copy.
    """

    def __init__(self, source: RouteSource, history: RouteHistory | None = None) -> None:
        self._source = source
        self._history = RouteHistory() if history is None else history
        self._cached: dict[str, _CachedRoute] = {}
        self._invalidated: set[str] = set()
        self._state = object()
        """Another one after each change."""
        self._masters: tuple[object, dict[str, BrokerAddress]] = (None, {})
        self._listed_brokers: set[str] = set()

    # ------------------------------------------------------------------------------------------ one topic

    def route(self, topic: str, refresh: bool = False) -> TopicRoute:
        """Return where ``topic`` is; asks if that is not known, or in doubt.

        Raises TransportError[NAME_SERVERS_UNAVAILABLE] for what may pass in the name servers,
        RouteError[TOPIC_UNAVAILABLE.NO_ROUTE] for a topic that had a route, RouteError[TOPIC_NOT_FOUND] for another,
        and what ``NameServers.topic_route`` raises that another attempt would not change.
        """
        if refresh or topic in self._invalidated or topic not in self._cached:
            for failure in self.refresh([topic]).values():
                raise failure
        return self._cached[topic].route

    def find_master(self, queue: MessageQueue) -> BrokerAddress:
        """Return the address of the queue's master; a route without it is asked for again.

        Raises RouteError[MASTER_UNAVAILABLE], and what ``route`` raises.
        """
        for refresh in (False, True):
            address = self.route(queue.topic, refresh).master_address(queue.broker_name)
            if address is not None:
                return address
        raise RouteError("MASTER_UNAVAILABLE", broker=queue.broker_name, topic=queue.topic)

    def invalidate_on_error(self, topic: str, error: RocketMQError) -> None:
        """After an error that may come of an old address the next call asks the name servers."""
        if requires_route_refresh(error):
            self.invalidate(topic)

    def invalidate(self, topic: str) -> None:
        """The next call asks the name servers."""
        self._invalidated.add(topic)

    def recorded_brokers(self, topic: str) -> frozenset[str]:
        """Return the names of those that the topic is on, or was as far as its history tells."""
        return self._history.brokers(topic)

    # ------------------------------------------------------------------------------------------ being told

    def refresh(self, topics: Iterable[str]) -> dict[str, RocketMQError]:
        """Ask for the routes of ``topics``, all at once. Return why some were not told, as ``route`` raises it."""
        failures: dict[str, RocketMQError] = {}
        for topic, response in self._source.topic_routes(topics).items():
            if isinstance(response, TopicRoute):
                self._store(response)
            else:
                failures[topic] = self._to_failure(topic, response)
        return failures

    def _store(self, route: TopicRoute) -> None:
        self._invalidated.discard(route.topic)
        if route.topic in self._cached and self._cached[route.topic].route == route:
            return
        self._cached[route.topic] = _CachedRoute(route)
        self._listed_brokers.update(broker.broker_name for broker in route.brokers)
        self._state = object()
        self._history.add(route)

    def _to_failure(self, topic: str, error: RocketMQError) -> RocketMQError:
        failure = error
        if is_unknown_topic(error) and topic in self._history:
            brokers = ", ".join(f"{name} ({self.last_address(name)})" for name in sorted(self.recorded_brokers(topic)))
            failure = RouteError(
                "TOPIC_UNAVAILABLE.NO_ROUTE", topic=topic, address=error.context["address"], brokers=brokers
            )
        elif not isinstance(error, RouteError) and retryability_of_request(error) is not Retryability.PERMANENT:
            addresses = self._source.addresses
            failure = TransportError("NAME_SERVERS_UNAVAILABLE", topic=topic, addresses=addresses, cause=error.summary)
        if failure is not error:
            failure.__cause__ = error
        return failure

    # ------------------------------------------------------------------------------------------ all topics

    def __contains__(self, topic: str) -> bool:
        return topic in self._cached

    @property
    def routes(self) -> dict[str, TopicRoute]:
        """By topic."""
        return {topic: cached.route for topic, cached in tuple(self._cached.items())}

    @property
    def queues(self) -> dict[str, tuple[MessageQueue, ...]]:
        """The readable queues by topic."""
        return {topic: cached.queues for topic, cached in tuple(self._cached.items())}

    def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the topic's readable queues; none without a route."""
        cached = self._cached.get(topic)
        return () if cached is None else cached.queues

    def is_readable(self, queue: MessageQueue) -> bool:
        """Whether its topic's route has it."""
        cached = self._cached.get(queue.topic)
        return cached is not None and queue in cached.readable

    def broker_names(self) -> list[str]:
        """Brokers that a route names, with a master or without, ascending."""
        return sorted({broker.broker_name for route in self.routes.values() for broker in route.brokers})

    def topics_at(self, broker_name: str) -> list[str]:
        """Topics whose routes name the broker."""
        routes = self.routes.items()
        return [topic for topic, route in routes if any(one.broker_name == broker_name for one in route.brokers)]

    def master(self, broker_name: str) -> BrokerAddress | None:
        """The master's address; None while no route names one."""
        return self._named_masters().get(broker_name)

    def masters(self) -> dict[str, BrokerAddress]:
        """Addresses of the masters that routes name, by broker name, ascending."""
        return dict(self._named_masters())

    def _named_masters(self) -> dict[str, BrokerAddress]:
        state, masters = self._masters
        if state is not self._state:
            state, named = self._state, dict[str, BrokerAddress]()
            for broker in (broker for route in self.routes.values() for broker in route.brokers):
                if broker.master_address is not None:
                    named.setdefault(broker.broker_name, broker.master_address)
            masters = dict(sorted(named.items()))
            self._masters = state, masters
        return masters

    def addresses(self) -> set[BrokerAddress]:
        """Of all brokers, slaves included."""
        brokers = (broker for route in self.routes.values() for broker in route.brokers)
        return {address for broker in brokers for address in broker.all_addresses.values()}

    def last_address(self, broker_name: str) -> str:
        """Where the broker's master was when a route last named one."""
        return self._history.last_address(broker_name)

    def brokers_without_master(self) -> list[str]:
        """Brokers that a route names, and none with a master, ascending."""
        return [broker_name for broker_name in self.broker_names() if self.master(broker_name) is None]

    def removed_brokers(self) -> list[str]:
        """Brokers that a route once named, and none does now."""
        return sorted(self._listed_brokers - set(self.broker_names()))
