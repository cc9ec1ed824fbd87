"""Client of a cluster's name servers: each has every route, and one that responds is enough. Proxies may stand in their
place (see ``proxied``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from rocketmq_spark.errors import OptionError, RemoteProtocolError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, BrokerData, TopicList, TopicRoute
from rocketmq_spark.remoting.error_kinds import is_no_name_server
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.proxied import behind_proxy, is_from_proxy
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc, decode_nothing
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.wire.body.routes import ClusterInfo, decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.body.system_topics import user_topics
from rocketmq_spark.wire.body.topics import decode_topic_names
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import DeleteTopicFromNamesrvRequest, GetRouteInfoRequest
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of

T = TypeVar("T")

AddressMap: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a broker's advertised address, such as that of a container, and its reachable one: ``brokerAddressMap``."""


class NameServers:
    """Name servers, called one at a time: first the one that responded last, after a failure the next.

    All addresses of brokers come from here. They are reachable: mapped by ``address_map``, else as advertised. Threads:
    any.
    """

    def __init__(
        self, addresses: Sequence[str], pool: ConnectionPool, timeout_ms: int, address_map: AddressMap = ()
    ) -> None:
        """Open no connection. The first of ``addresses``, at least one, is preferred."""
        self._clients = tuple(RemotingClient(BrokerAddress(address), pool, timeout_ms) for address in addresses)
        self._address_map = address_map
        self._preferred = 0

    def __repr__(self) -> str:
        return f"<NameServers {self.addresses}>"

    @property
    def addresses(self) -> str:
        """Addresses of all name servers as configured, joined with ';'."""
        return ";".join(client.address.server for client in self._clients)

    def query_topic_route(self, topic: str) -> TopicRoute:
        """Request the route of ``topic``, wait, and return it, with broker addresses mapped by ``brokerAddressMap``.

        Raises RouteError[TOPIC_NOT_FOUND] if a name server reports a missing topic and no other has a route. Raises
        RouteError[STATIC_TOPIC_NOT_SUPPORTED] for a topic whose queue IDs differ between pulls and the broker's
        statistics. Raises TransportError, BrokerError or RemoteProtocolError if no name server returns a valid
        response, and OptionError[NOT_A_NAME_SERVER] if all of them are other servers.
        """
        response = self.query_topic_routes([topic])[topic]
        if isinstance(response, RocketMQError):
            raise response
        return response

    def query_topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        """Request routes, wait, and return by topic the route, or, not raised, the error that ``query_topic_route``
        would raise. Query one name server for all topics at once, then the next one for topics whose error it may not
        return. The last one that returned a route is queried first next time."""
        results: dict[str, TopicRoute | RocketMQError] = {}
        unresolved = list(topics)
        for index in self._by_preference():
            for topic, response in _query_routes(self._clients[index], unresolved).items():
                if isinstance(response, TopicRoute):
                    self._preferred = index
                    results[topic] = reachable_route(response, self._address_map)
                elif topic not in results or _precedence(response) > _precedence(results[topic]):
                    results[topic] = response
            unresolved = [topic for topic in unresolved if _is_unresolved(results[topic])]
        return results

    def cluster_info(self) -> ClusterInfo:
        """Request and return all registered brokers, from the first name server that responds, with broker addresses
        mapped by ``brokerAddressMap``. Raises TransportError, BrokerError, RemoteProtocolError, and
        OptionError[NOT_A_NAME_SERVER] if all name servers are other servers."""
        info = self._first_response(lambda client: client.call(_cluster_info_rpc(client.address.server)))
        brokers = {name: reachable_broker(broker, self._address_map) for name, broker in info.brokers.items()}
        return replace(info, brokers=brokers)

    def query_user_topics(self) -> frozenset[str]:
        """Request the topics of all name servers, wait, and return their union without the system's topics, even if
        some name servers are unavailable. Raises what ``query_topic_list`` raises."""
        return self.query_topic_list().topics

    def query_topic_list(self) -> TopicList:
        """Request topics and brokers from each name server, one after another, and wait. Return the union without the
        system's topics (``user_topics``). If at least one responds, unavailable ones are omitted, and ``is_complete``
        is False. An error that another name server would also return is raised at once. Raises
        RouteError[NO_MASTER_BROKER] if no name server lists a broker, as after its start, and what ``cluster_info``
        raises.
        """
        topics, broker_names = set[str](), set[str]()
        failures: list[RocketMQError] = []
        for client in self._clients:
            try:
                cluster = client.call(_cluster_info_rpc(client.address.server))
                listed = client.call(_topics_rpc(client.address.server))
                topics.update(user_topics(listed, cluster))
                broker_names |= cluster.brokers.keys()
            except RocketMQError as error:
                if not _must_try_next(error):
                    raise
                failures.append(error)
        if len(failures) == len(self._clients):
            raise max(failures, key=_precedence)
        if not broker_names:
            raise RouteError("NO_MASTER_BROKER", name_servers=self.addresses)
        return TopicList(frozenset(topics), frozenset(broker_names), is_complete=not failures)

    def delete_topic(self, topic: str) -> None:
        """Delete ``topic`` from every name server, one after another, and wait. Call it after ``Broker.delete_topic``
        on every master. The first error is raised, and the name servers after the failed one keep the topic."""
        command = _command(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest(topic=topic).to_fields())
        for client in self._clients:
            client.call(Rpc(command, decode_nothing))

    def _first_response(self, call: Callable[[RemotingClient], T]) -> T:
        """Apply ``call`` to name servers one after another, the preferred one first, until one succeeds; return its
        value and prefer it from now on. An error for which ``_must_try_next`` is False is raised at once. Raises, if
        all fail, the error of highest ``_precedence``, see ``query_topic_route``."""
        failures: list[RocketMQError] = []
        for index in self._by_preference():
            try:
                value = call(self._clients[index])
            except RocketMQError as error:
                if not _must_try_next(error):
                    raise
                failures.append(error)
            else:
                self._preferred = index
                return value
        raise max(failures, key=_precedence)

    def _by_preference(self) -> list[int]:
        """Return the indexes of all name servers: the preferred one, then the next ones, cyclically."""
        first, count = self._preferred, len(self._clients)
        return [(first + step) % count for step in range(count)]


def reachable_broker(broker: BrokerData, address_map: AddressMap) -> BrokerData:
    """Return a copy of ``broker`` with the reachable address of each server, slaves included, that ``address_map``
    contains; other addresses stay."""
    reachable = dict(address_map)
    return replace(broker, addresses={number: reachable.get(at, at) for number, at in broker.addresses.items()})


def reachable_route(route: TopicRoute, address_map: AddressMap) -> TopicRoute:
    """Return ``route`` with ``reachable_broker`` of all its brokers; ``route`` itself without an ``address_map``."""
    if not address_map:
        return route
    return replace(route, brokers=tuple(reachable_broker(broker, address_map) for broker in route.brokers))


def _query_routes(client: RemotingClient, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
    """Request routes from one name server, all at once, and wait. Return the route or error of each topic, for a static
    topic RouteError[STATIC_TOPIC_NOT_SUPPORTED]. If a request cannot be sent, all topics get its error."""
    futures: dict[str, ResponseFuture[TopicRoute]] = {}
    results: dict[str, TopicRoute | RocketMQError] = {}
    for topic in topics:
        try:
            futures[topic] = client.submit(_route_rpc(topic, client.address.server))
        except RocketMQError as error:
            return dict.fromkeys(topics, error)
    for topic, future in futures.items():
        try:
            results[topic] = _reject_static(future.result())
        except RocketMQError as error:
            results[topic] = error
    return results


def _route_rpc(topic: str, address: str) -> Rpc[TopicRoute]:
    """Return the RPC that requests a route from the name server or proxy at ``address``; send nothing. Decoding marks
    all brokers in a proxy's route as proxied. It raises RouteError[TOPIC_NOT_FOUND] without a route,
    OptionError[NOT_A_NAME_SERVER] if the response shows another kind of server, such as a broker."""

    def decode(response: RemotingCommand) -> TopicRoute:
        """Return the route, proxied if from a proxy. Raises the errors of ``_route_rpc``."""
        _check_kind(RequestCode.GET_ROUTEINFO_BY_TOPIC, response, address)
        if meaning_of(RequestCode.GET_ROUTEINFO_BY_TOPIC, response) is Meaning.EMPTY:
            raise RouteError("TOPIC_NOT_FOUND", topic=topic, address=address)
        route = decode_topic_route(topic, response.body)
        return behind_proxy(route) if is_from_proxy(response.fields) else route

    return Rpc(_command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic).to_fields()), decode)


def _cluster_info_rpc(address: str) -> Rpc[ClusterInfo]:
    """Return the RPC that requests all registered brokers from the name server at ``address``. Decoding raises
    OptionError[NOT_A_NAME_SERVER] for the response of another kind of server."""

    def decode(response: RemotingCommand) -> ClusterInfo:
        _check_kind(RequestCode.GET_BROKER_CLUSTER_INFO, response, address)
        return decode_cluster_info(response.body)

    return Rpc(_command(RequestCode.GET_BROKER_CLUSTER_INFO), decode)


def _topics_rpc(address: str) -> Rpc[list[str]]:
    """Return the RPC for the names of all topics, the system's included, to the name server at ``address``. Decoding
    raises OptionError[NOT_A_NAME_SERVER] for the response of another kind of server."""

    def decode(response: RemotingCommand) -> list[str]:
        _check_kind(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, response, address)
        return decode_topic_names(response.body)

    return Rpc(_command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), decode)


def _reject_static(route: TopicRoute) -> TopicRoute:
    """Return ``route`` itself. Raises RouteError[STATIC_TOPIC_NOT_SUPPORTED] for a static topic."""
    if route.is_static:
        raise RouteError("STATIC_TOPIC_NOT_SUPPORTED", topic=route.topic)
    return route


def _check_kind(request: RequestCode, response: RemotingCommand, address: str) -> None:
    """Do nothing for a name server's response to ``request``. Raises OptionError[NOT_A_NAME_SERVER] if the response
    code shows that another kind of server is at ``address``."""
    if meaning_of(request, response) is Meaning.WRONG_SERVER_KIND:
        raise OptionError("NOT_A_NAME_SERVER", address=address, request=request.name)


def _precedence(response: TopicRoute | RocketMQError) -> int:
    """Rank results of several name servers; the largest counts. 3: a route. 2: a RouteError such as a missing topic. 1:
    a retryable error. 0: a permanent error (another kind of server, denied access). It ranks lowest because an
    unresponsive name server may recover."""
    if isinstance(response, TopicRoute):
        return 3
    if isinstance(response, RouteError):
        return 2
    return int(retryability_of_request(response) is not Retryability.PERMANENT)


def _is_unresolved(response: TopicRoute | RocketMQError) -> bool:
    """Return whether ``response`` is an error for which the next name server must be queried."""
    return isinstance(response, RocketMQError) and _must_try_next(response)


def _must_try_next(error: RocketMQError) -> bool:
    """Return whether another name server may return a route. This one is unreachable, undecodable, untrusted, no name
    server, or failed with a retryable error, such as TOPIC_NOT_FOUND."""
    if isinstance(error, RemoteProtocolError | TransportError) or is_no_name_server(error):
        return True
    return retryability_of_request(error) is not Retryability.PERMANENT


def _command(code: int, fields: dict[str, str] | None = None) -> RemotingCommand:
    """Return a request, which is not sent; without ``fields`` it has none."""
    return RemotingCommand(code, fields=fields or {})
