"""``RouteTable``: the last route of each topic that name servers returned; the only route store of a cluster client.

Source: ``client/impl/factory/MQClientInstance.java``, its ``topicRouteTable`` and ``brokerAddrTable``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, BrokerData, MessageQueue, TopicRoute
from rocketmq_spark.remoting.error_kinds import is_unknown_topic
from rocketmq_spark.remoting.replicas import FIRST_SERVERS, FROM_MASTER, MASTER, Server, pull_address
from rocketmq_spark.remoting.retry import Retryability, requires_route_refresh, retryability_of_request

UNKNOWN_ADDRESS: Final = "an address that is not known"


class RouteSource(Protocol):
    """Where routes come from: ``NameServers``, or a cluster in memory."""

    @property
    def addresses(self) -> str: ...

    def query_topic_routes(self, topics: Iterable[str]) -> Mapping[str, TopicRoute | RocketMQError]:
        """Return by topic the route, or the error, not raised."""


class RouteHistory:
    """Brokers that any route of a topic has named, and the last addresses of their masters.

    It may outlive route tables, and several may share it. Threads: any.
    """

    def __init__(self) -> None:
        self._brokers: dict[str, frozenset[str]] = {}
        self._addresses: dict[str, BrokerAddress] = {}

    def add(self, route: TopicRoute) -> None:
        """Record a route that a name server returned: add the brokers of its queues to the topic's, and replace the
        last address of each master. Nothing is removed."""
        names = frozenset(data.broker_name for data in route.queues)
        self._brokers[route.topic] = self.brokers(route.topic) | names
        for broker in route.brokers:
            if broker.master_address is not None:
                self._addresses[broker.broker_name] = broker.master_address

    def __contains__(self, topic: str) -> bool:
        """Return whether a route of ``topic`` was ever added."""
        return topic in self._brokers

    def brokers(self, topic: str) -> frozenset[str]:
        """Return the names of the brokers that the topic is or was on; empty without a recorded route."""
        return self._brokers.get(topic, frozenset())

    def last_address(self, broker_name: str) -> str:
        """Return the address of the broker's master in the last route that named one, else ``UNKNOWN_ADDRESS``."""
        return str(self._addresses.get(broker_name, UNKNOWN_ADDRESS))


_histories: Final[dict[tuple[str, ...], RouteHistory]] = {}


def history_of(name_servers: tuple[str, ...]) -> RouteHistory:
    """Return this process's route history of a cluster; the first call creates it. It is kept because the next task,
    attempt or query may start while the brokers of its topics are unavailable. Threads: any."""
    return _histories.setdefault(name_servers, RouteHistory())


@dataclass(frozen=True)
class _CachedRoute:
    """A route, and its readable queues, which are computed once."""

    route: TopicRoute

    @cached_property
    def queues(self) -> tuple[MessageQueue, ...]:
        return self.route.read_queues()

    @cached_property
    def readable(self) -> frozenset[MessageQueue]:
        return frozenset(self.queues)


class RouteTable:
    """The last route of each topic, in the order in which topics got their first route.

    ``route`` and ``find_master`` query the name servers if a route is missing or invalidated (``invalidate``,
    ``invalidate_on_error``); ``refresh`` always does. If no route is returned, the cached one stays, and is outdated.
    The failure is NAME_SERVERS_UNAVAILABLE if no name server responds, TOPIC_UNAVAILABLE.NO_ROUTE if ``history`` has a
    route of the topic, else TOPIC_NOT_FOUND. The caller's policy defines how long each is retried.

    Threads: any. Of two concurrent queries of one topic the later response stays. Collections of all topics are copies.
    """

    def __init__(self, source: RouteSource, history: RouteHistory | None = None) -> None:
        """Request nothing. ``history``: by default a new, empty one."""
        self._source = source
        self._history = RouteHistory() if history is None else history
        self._cached: dict[str, _CachedRoute] = {}
        self._invalidated: set[str] = set()
        self._outdated: set[str] = set()
        """Topics whose last request returned no route: their cached one may name servers that have changed since."""
        self._state = object()
        """Replaced by a new object at each change: the version of ``_masters``."""
        self._masters: tuple[object, dict[str, BrokerAddress]] = (None, {})
        self._listed_brokers: set[str] = set()

    # ------------------------------------------------------------------------------------------ one topic

    def route(self, topic: str, refresh: bool = False) -> TopicRoute:
        """Return the route of ``topic``. If it is missing or invalidated, or for ``refresh``, query the name servers
        and wait.

        A failed query is raised even if a route is cached: TransportError[NAME_SERVERS_UNAVAILABLE] for transient
        failures of the name servers, RouteError[TOPIC_UNAVAILABLE.NO_ROUTE] for a topic that had a route, else
        RouteError[TOPIC_NOT_FOUND]. Raises also RouteError[STATIC_TOPIC_NOT_SUPPORTED], and the permanent errors of
        ``NameServers.query_topic_route``.
        """
        if refresh or topic in self._invalidated or topic not in self._cached:
            for failure in self.refresh([topic]).values():
                raise failure
        return self._cached[topic].route

    def cached_route(self, topic: str) -> TopicRoute:
        """Return the topic's cached route, also an invalidated one; request nothing. KeyError without one."""
        return self._cached[topic].route

    def find_replica(self, queue: MessageQueue, server: Server) -> BrokerAddress:
        """Return the address of ``server`` of the queue's broker in the cached route (``replicas.pull_address``).
        Request the route, and wait, if it is missing or invalidated, and once more if it has no such address.

        Raises RouteError[MASTER_UNAVAILABLE] if the requested route has none, and what ``route`` raises.
        """
        for refresh in (False, True):
            for broker in self.route(queue.topic, refresh).brokers:
                if broker.broker_name == queue.broker_name:
                    address = pull_address(broker, server)
                    if address is not None:
                        return address
        raise RouteError("MASTER_UNAVAILABLE", broker=queue.broker_name, topic=queue.topic)

    def find_master(self, queue: MessageQueue) -> BrokerAddress:
        """Return the address of the queue's master in the cached route. Request the route, and wait, if it is missing
        or invalidated, and once more if it names no master.

        Raises RouteError[MASTER_UNAVAILABLE] if the requested route names none, and what ``route`` raises.
        """
        return self.find_replica(queue, MASTER)

    def invalidate_on_error(self, topic: str, error: RocketMQError) -> None:
        """Invalidate the topic's route if ``requires_route_refresh(error)``, as for most errors."""
        if requires_route_refresh(error):
            self.invalidate(topic)

    def invalidate(self, topic: str) -> None:
        """Make the next ``route`` or ``find_master`` of the topic query the name servers."""
        self._invalidated.add(topic)

    def forget(self, topic: str) -> None:
        """Drop the topic's cached route, if there is one, and its invalidation. Its history stays."""
        self._invalidated.discard(topic)
        self._outdated.discard(topic)
        if self._cached.pop(topic, None) is not None:
            self._state = object()

    def recorded_brokers(self, topic: str) -> frozenset[str]:
        """Return the names of the brokers that the topic is on, or was on according to the history; empty without a
        recorded route."""
        return self._history.brokers(topic)

    # ------------------------------------------------------------------------------------------ refreshing

    def refresh(self, topics: Iterable[str]) -> dict[str, RocketMQError]:
        """Request the routes of ``topics``, all at once, wait, and cache those that are returned. A topic whose request
        failed keeps its cached route. Return for each failed topic the error that ``route`` would raise; raise none."""
        failures: dict[str, RocketMQError] = {}
        for topic, response in self._source.query_topic_routes(topics).items():
            if isinstance(response, TopicRoute):
                self._store(response)
            else:
                failures[topic] = self._to_failure(topic, response)
                self._set_outdated(topic, is_outdated=True)
        return failures

    def _set_outdated(self, topic: str, *, is_outdated: bool) -> None:
        """Record whether the topic's cached route is not the one of its last request."""
        if is_outdated != (topic in self._outdated):
            (self._outdated.add if is_outdated else self._outdated.discard)(topic)
            self._state = object()

    def _store(self, route: TopicRoute) -> None:
        """Record that the topic's route is neither invalidated nor outdated. Then cache ``route`` and add it to the
        history, unless the cached route is equal."""
        self._invalidated.discard(route.topic)
        self._set_outdated(route.topic, is_outdated=False)
        if route.topic in self._cached and self._cached[route.topic].route == route:
            return
        self._cached[route.topic] = _CachedRoute(route)
        self._listed_brokers.update(broker.broker_name for broker in route.brokers)
        self._state = object()
        self._history.add(route)

    def _to_failure(self, topic: str, error: RocketMQError) -> RocketMQError:
        """Return the error for callers. TOPIC_NOT_FOUND of a topic in the history becomes
        RouteError[TOPIC_UNAVAILABLE.NO_ROUTE]. A retryable error that is no RouteError becomes
        TransportError[NAME_SERVERS_UNAVAILABLE]. Both have ``error`` as cause. Any other error is returned
        unchanged."""
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
        """Return whether a route of ``topic`` is cached, also an invalidated one."""
        return topic in self._cached

    @property
    def routes(self) -> dict[str, TopicRoute]:
        """All routes by topic."""
        return {topic: cached.route for topic, cached in tuple(self._cached.items())}

    @property
    def queues(self) -> dict[str, tuple[MessageQueue, ...]]:
        """The readable queues by topic."""
        return {topic: cached.queues for topic, cached in tuple(self._cached.items())}

    def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the topic's readable queues; empty without a route."""
        cached = self._cached.get(topic)
        return () if cached is None else cached.queues

    def is_readable(self, queue: MessageQueue) -> bool:
        """Return whether the cached route of the queue's topic has it as a readable queue; False without a route."""
        cached = self._cached.get(queue.topic)
        return cached is not None and queue in cached.readable

    def broker_names(self) -> list[str]:
        """Return the names of the brokers in all routes, with a master or without, ascending."""
        return sorted({broker.broker_name for route in self.routes.values() for broker in route.brokers})

    def topics_at(self, broker_name: str) -> list[str]:
        """Return the topics whose routes name the broker, in the table's order; [] without any."""
        routes = self.routes.items()
        return [topic for topic, route in routes if any(one.broker_name == broker_name for one in route.brokers)]

    def slave(self, broker_name: str) -> BrokerAddress | None:
        """Return the address of the broker's slave with the lowest ID, from the first of ``_brokers`` that names a
        slave, or None."""
        slaves = (one.slave_addresses.values() for one in self._brokers() if one.broker_name == broker_name)
        return next((address for addresses in slaves for address in addresses), None)

    def master(self, broker_name: str) -> BrokerAddress | None:
        """Return the address of the broker's master, or None while no route names one."""
        return self._named_masters().get(broker_name)

    def is_master(self, queue: MessageQueue, address: BrokerAddress) -> bool:
        """Return whether the cached route of the queue's topic names ``address`` as the master of the queue's broker;
        False without a route. Routes of other topics do not count: they may be older."""
        cached = self._cached.get(queue.topic)
        brokers = () if cached is None else cached.route.brokers
        return any(one.broker_name == queue.broker_name and one.master_address == address for one in brokers)

    def masters(self) -> dict[str, BrokerAddress]:
        """Return the addresses of the masters in all routes, by broker name, ascending."""
        return dict(self._named_masters())

    def pull_addresses(self, read_from: str) -> dict[str, BrokerAddress]:
        """Return by broker name, ascending, the address to pull from (``replicas.pull_address``) if the broker has
        suggested no other. Brokers without one are missing. ``read_from``: the option ``readFrom``. If several of
        ``_brokers`` have a broker, the last counts, for "master" the first with the master."""
        if read_from == FROM_MASTER:
            return self.masters()
        addresses = {broker.broker_name: pull_address(broker, FIRST_SERVERS[read_from]) for broker in self._brokers()}
        return {name: address for name, address in sorted(addresses.items()) if address is not None}

    def _named_masters(self) -> dict[str, BrokerAddress]:
        """Return the masters by broker name, ascending, each from the first of ``_brokers`` that names it. The result
        is cached until a route changes."""
        state, masters = self._masters
        if state is not self._state:
            state, named = self._state, dict[str, BrokerAddress]()
            for broker in self._brokers():
                if broker.master_address is not None:
                    named.setdefault(broker.broker_name, broker.master_address)
            masters = dict(sorted(named.items()))
            self._masters = state, masters
        return masters

    def _brokers(self) -> list[BrokerData]:
        """Return the brokers of all routes, in order. Of a broker in a route that is not outdated, omit the entries in
        outdated ones: these may name the master before an election."""
        routes = self.routes
        current = [one for topic, route in routes.items() if topic not in self._outdated for one in route.brokers]
        names = {one.broker_name for one in current}
        outdated = (one for topic, route in routes.items() if topic in self._outdated for one in route.brokers)
        return [*current, *(one for one in outdated if one.broker_name not in names)]

    def addresses(self) -> set[BrokerAddress]:
        """Return the addresses of all brokers in all routes, slaves included."""
        brokers = (broker for route in self.routes.values() for broker in route.brokers)
        return {address for broker in brokers for address in broker.all_addresses.values()}

    def last_address(self, broker_name: str) -> str:
        """Return the address of the broker's master in the last route that named one, else ``UNKNOWN_ADDRESS``."""
        return self._history.last_address(broker_name)

    def brokers_without_master(self) -> list[str]:
        """Return the names of brokers in a route for which no route names a master, ascending."""
        return [broker_name for broker_name in self.broker_names() if self.master(broker_name) is None]

    def removed_brokers(self) -> list[str]:
        """Return the names of brokers that a route of this table named before and none names now, ascending."""
        return sorted(self._listed_brokers - set(self.broker_names()))
