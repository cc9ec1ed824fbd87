"""Inspector: requests what the views show from the name servers and from the master of every broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain
from typing import Final, NoReturn, Protocol, TypeVar

from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError
from rocketmq_spark.inspection.rows import (
    GroupRow,
    GroupState,
    MemberRow,
    QueueRow,
    TopicRow,
    conclusive_offsets,
    member_rows,
    queue_rows,
    topic_rows,
)
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.options.kinds import is_system_group
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_access_denied, is_topic_missing_at_broker
from rocketmq_spark.remoting.outage_log import NAME_SERVERS, broker_subject

T = TypeVar("T")

MAX_CONCURRENT_TOPICS: Final = 64
"""Maximum number of requests for queue bounds in flight."""

Masters = Mapping[str, BrokerAddress | None]
"""Addresses of masters by broker name; None for a broker without a master."""


class Attempt(Protocol):
    """Policy of retries: calls ``call``, which sends requests to ``subject``, and returns its result."""

    def __call__(self, subject: str, call: Callable[[], T], /) -> T: ...


def attempt_once(_subject: str, call: Callable[[], T]) -> T:
    """Return the result of one ``call``, without a retry."""
    return call()


def raise_failure(_broker_name: str, error: RocketMQError) -> NoReturn:
    """Raise ``error``: without one of the brokers, a view would show less than there is."""
    raise error


class Inspector:
    """Reader of the rows of views from one cluster, for the view's reader and the command line. Not thread-safe.

    ``attempt``: see ``Attempt``. ``on_failure``: receives the name and the error of each broker whose part of a view is
    missing, also of one without a master, and may raise it. Repeated topics and groups count once. All methods raise
    the errors of name servers: TransportError, BrokerError, RouteError, and OptionError[NOT_A_NAME_SERVER], also for a
    proxy.
    """

    def __init__(
        self,
        client: ClusterClient,
        on_failure: Callable[[str, RocketMQError], None],
        attempt: Attempt = attempt_once,
    ) -> None:
        self._client = client
        self._name_servers = client.name_servers
        self._on_failure = on_failure
        self._attempt = attempt

    def topic_rows(self, topics: Collection[str] = ()) -> list[TopicRow]:
        """Request the routes of ``topics``, by default of all but the system's, static ones and those without a route;
        nothing from brokers. Return a row for each broker of each route, also an unresponsive one: ``topics`` in their
        order, by default by name, and brokers by name. Raises RouteError[TOPIC_NOT_FOUND | STATIC_TOPIC_NOT_SUPPORTED]
        for a name in ``topics``."""
        return list(topic_rows(self._routes(topics)))

    def queue_rows(self, topics: Collection[str] = ()) -> list[QueueRow]:
        """Return a row for each queue of ``queue_bounds(topics)``, in queue order. Raises RouteError[TOPIC_NOT_FOUND |
        STATIC_TOPIC_NOT_SUPPORTED] for a name in ``topics``."""
        return list(queue_rows(self.queue_bounds(topics)))

    def queue_bounds(self, topics: Collection[str] = ()) -> dict[MessageQueue, QueueBounds]:
        """Request the min and max offsets of all queues of ``topics``. By default request all topics but the system's,
        static ones and those without a route. Pass a broker's error to ``on_failure``; if that returns, its queues are
        omitted. Raises RouteError[TOPIC_NOT_FOUND | STATIC_TOPIC_NOT_SUPPORTED] for a name in ``topics``."""
        topics_at: dict[str, list[str]] = {}
        masters: dict[str, BrokerAddress | None] = {}
        for route in self._routes(topics):
            for data in route.queues:
                topics_at.setdefault(data.broker_name, []).append(route.topic)
                masters[data.broker_name] = route.master_address(data.broker_name)
        found: dict[MessageQueue, QueueBounds] = {}
        for bounds in self._query_by_name(masters, lambda name, broker: query_bounds(name, broker, topics_at[name])):
            found |= bounds
        return found

    def group_rows(
        self, groups: Collection[str] = (), topics: Collection[str] = (), *, with_ages: bool = True
    ) -> list[GroupRow]:
        """Request the offsets of ``groups``, by default of all but the system's, in the queues of ``topics``, by
        default of all that the group subscribes to or has committed offsets of. Return a row for each group and queue,
        sorted by group name, then in queue order. Without ``with_ages`` no message is read: times are None, and the age
        is 0 for a queue without lag, else None. Pass a broker's error to ``on_failure``; if that returns, its rows are
        omitted. Raises OptionError[GROUP_NOT_FOUND.CLUSTER] for a name in ``groups`` that no broker has, if all have
        responded."""
        masters = self._masters()
        rows: list[GroupRow] = []
        for group in dict.fromkeys(groups) or self._group_names(masters):
            query = partial(query_group_rows, group=group, topics=topics, with_ages=with_ages)
            rows += chain.from_iterable(self._query_by_name(masters, query))
        self._check_known(masters, set(groups) - {row.consumer_group for row in rows})
        return sorted(rows, key=lambda row: (row.consumer_group, row.queue.sort_key()))

    def member_rows(self, groups: Collection[str] = ()) -> list[MemberRow]:
        """Request and return the rows of all members of ``groups``, in their order, then by client ID. By default
        request all groups but the system's, by name. Pass a broker's error to ``on_failure``; if that returns, its
        connections are omitted. Raises OptionError[GROUP_NOT_FOUND.CLUSTER] for a name in ``groups`` that no broker
        has, if all have responded."""
        masters = self._masters()
        rows: list[MemberRow] = []
        for group in dict.fromkeys(groups) or self._group_names(masters):
            rows += member_rows(group, self._query_all(masters, partial(Broker.query_group_connections, group=group)))
        self._check_known(masters, set(groups) - {row.consumer_group for row in rows})
        return rows

    # ---------------------------------------------------------------------------------------------- what is inspected

    def _routes(self, topics: Collection[str]) -> list[TopicRoute]:
        """Request the routes of ``topics``, in order, by default of all topics but the system's, by name. Raises
        RouteError for a name in ``topics`` without a route or of a static topic; by default such topics are omitted."""
        if topics:
            query = self._name_servers.query_topic_route
            return [self._attempt(NAME_SERVERS, partial(query, topic)) for topic in dict.fromkeys(topics)]
        names = sorted(self._attempt(NAME_SERVERS, self._name_servers.query_user_topics))
        return self._attempt(NAME_SERVERS, lambda: _available(self._name_servers.query_topic_routes(names)))

    def _masters(self) -> Masters:
        """Request all brokers of the cluster, and return the addresses of their masters, ordered by broker name. A
        broker without a master has None."""
        brokers = self._attempt(NAME_SERVERS, self._name_servers.cluster_info).brokers
        return {name: brokers[name].master_address for name in sorted(brokers)}

    def _group_names(self, masters: Masters) -> list[str]:
        """Request the names of all groups but the system's from each master; return them sorted, each once. Pass a
        broker's error to ``on_failure``; if that returns, only its groups are missing."""
        found = self._query_all(masters, Broker.query_group_names).values()
        return sorted({name for names in found for name in names if not is_system_group(name)})

    def _check_known(self, masters: Masters, groups: Collection[str]) -> None:
        """Request the names of all groups from each master; without ``groups`` do nothing. Pass a broker's error to
        ``on_failure``; if that returns, raise nothing. Raises OptionError[GROUP_NOT_FOUND.CLUSTER] for the first of
        ``groups``, sorted, that no broker has, if all have responded."""
        if not groups:
            return
        by_broker = self._query_all(masters, Broker.query_group_names)
        if len(by_broker) < len(masters):
            return
        for group in sorted(set(groups).difference(*by_broker.values())):
            raise OptionError("GROUP_NOT_FOUND.CLUSTER", group=group, name_servers=self._name_servers.addresses)

    def _query_all(self, masters: Masters, query: Callable[[Broker], T]) -> dict[str, T]:
        """Call ``query`` with a client of each master, one after another, each by ``attempt``. Return the results by
        broker name. Pass a RocketMQError, also that of a broker without a master, and the broker's name to
        ``on_failure``; if that returns, the broker has no result."""
        results: dict[str, T] = {}
        for name, address in masters.items():
            try:
                results[name] = self._attempt(broker_subject(name), partial(self._query, name, address, query))
            except RocketMQError as error:
                self._on_failure(name, error)
        return results

    def _query_by_name(self, masters: Masters, query: Callable[[str, Broker], T]) -> list[T]:
        """Do what ``_query_all`` does, with the broker's name as first argument of ``query``; return the results."""
        results: list[T] = []
        for name, address in masters.items():
            results += self._query_all({name: address}, partial(query, name)).values()
        return results

    def _query(self, name: str, address: BrokerAddress | None, query: Callable[[Broker], T]) -> T:
        """Call ``query`` with a client of the broker, and return its result. Raises RouteError[MASTER_NOT_REGISTERED]
        if ``address`` is None, and what ``query`` does."""
        if address is None:
            raise RouteError("MASTER_NOT_REGISTERED", broker=name)
        return query(self._client.broker(address))


def _available(found: Mapping[str, TopicRoute | RocketMQError]) -> list[TopicRoute]:
    """Return the routes among ``found``, in order; omit topics whose error is a RouteError: static ones, and those
    without a route now. Raises the first RocketMQError that is no RouteError."""
    routes: list[TopicRoute] = []
    for route in found.values():
        if isinstance(route, TopicRoute):
            routes.append(route)
        elif not isinstance(route, RouteError):
            raise route
    return routes


def query_bounds(broker_name: str, broker: Broker, topics: Collection[str]) -> dict[MessageQueue, QueueBounds]:
    """Request the min and max offsets of all queues that ``broker`` has of ``topics``, at most 64 requests in flight,
    and wait. Omit topics that the broker lacks. Raises RouteError[BROKER_ADDRESS_MISMATCH] if a response has queues of
    another broker than ``broker_name``, TransportError, other BrokerErrors, and RemoteProtocolError."""
    names = list(topics)
    found: dict[MessageQueue, QueueBounds] = {}
    for first in range(0, len(names), MAX_CONCURRENT_TOPICS):
        for future in [broker.submit_topic_stats(name) for name in names[first : first + MAX_CONCURRENT_TOPICS]]:
            try:
                found |= future.result()
            except BrokerError as error:
                if not is_topic_missing_at_broker(error):
                    raise
    other = next((queue.broker_name for queue in found if queue.broker_name != broker_name), None)
    if other is not None:
        raise RouteError("BROKER_ADDRESS_MISMATCH", address=str(broker.address), broker=broker_name, other=other)
    return found


def query_group_state(broker_name: str, broker: Broker, group: str, topics: Collection[str] = ()) -> GroupState:
    """Request the group's committed offsets on ``broker``, and the bounds of its queues there, and wait. The topics are
    those that the group subscribes to or has committed offsets of, limited to ``topics`` if these are given. Of a topic
    in the group's statistics, only the queues in the statistics get a row. Raises what ``query_bounds`` does."""
    progress = broker.query_consume_stats(group)
    names = {queue.topic for queue in progress} | broker.query_group_connections(group).subscriptions.keys()
    names = names & set(topics) if topics else names
    bounds = query_bounds(broker_name, broker, sorted(names))
    # Statistics have the queues that consumers read; bounds may have more.
    counted = {queue.topic for queue in progress}
    queues = [queue for queue in bounds if queue in progress or queue.topic not in counted]
    committed = {queue: at for queue, at in conclusive_offsets(progress).items() if queue in bounds}
    committed |= broker.query_offsets(group, [queue for queue in queues if queue not in committed])
    return GroupState(bounds, committed)


def query_group_rows(
    broker_name: str, broker: Broker, group: str, topics: Collection[str] = (), *, with_ages: bool = True
) -> list[GroupRow]:
    """Request the state of ``group`` on ``broker`` (``query_group_state``), and return a row for each queue, in queue
    order. With ``with_ages``, pull the oldest unread message of each queue for its store time. Without, send no pull:
    times are None, but the age of a queue without lag is 0. Raises what ``query_bounds`` does."""
    state = query_group_state(broker_name, broker, group, topics)
    store_times_ms = _store_times(broker, state.oldest_unread()) if with_ages else {}
    return list(state.rows(group, store_times_ms, int(time.time() * 1000)))


def _store_times(broker: Broker, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int | None]:
    """Request the store times (Unix ms) of the messages at these offsets, and wait. An offset without a message has
    None. Return {} if this client may not read messages, a right that statistics do not need. Raises other BrokerError,
    TransportError and RemoteProtocolError."""
    try:
        return broker.probe_store_times(offsets)
    except BrokerError as error:
        if is_access_denied(error):
            return {}
        raise
