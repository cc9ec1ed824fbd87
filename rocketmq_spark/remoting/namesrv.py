"""The name servers of a cluster: any of them knows every route, none of them has to be up. Proxies may be given in
their place (see ``proxied``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rocketmq_spark.errors import OptionError, RemoteProtocolError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, TopicRoute
from rocketmq_spark.remoting.peer import Peer, Question, ResponseFuture, code_only
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.proxied import behind_proxy, is_from_proxy
from rocketmq_spark.remoting.retry import Outlook, is_no_name_server, outlook_of_request
from rocketmq_spark.wire.body.routes import ClusterInfo, decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import DeleteTopicFromNamesrvRequest, GetRouteInfoRequest
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of

T = TypeVar("T")


class NameServers:
    """Asks one name server at a time, beginning with the one that answered last, and the next where that fails.

    Threads: any.
    """

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool, timeout_ms: int) -> None:
        self._peers = tuple(Peer(BrokerAddress(address), pool, timeout_ms) for address in addresses)
        self._preferred = 0

    def __repr__(self) -> str:
        return f"<NameServers {self.addresses}>"

    @property
    def addresses(self) -> str:
        """Of all of them, as they are given."""
        return ";".join(peer.address.server for peer in self._peers)

    def topic_route(self, topic: str) -> TopicRoute:
        """Where ``topic`` lives.

        Raises RouteError[TOPIC_NOT_FOUND] when one name server says that it does not exist and no other knows it: one
        that has just started knows nothing yet. Raises RouteError[STATIC_TOPIC_NOT_SUPPORTED] for a topic whose queue
        ids mean one thing in a pull and another in a broker's statistics. Raises TransportError, BrokerError or
        RemoteProtocolError when none of them answers, or not as a name server does; OptionError[NOT_A_NAME_SERVER] when
        all of them are something else.
        """
        answer = self.topic_routes([topic])[topic]
        if isinstance(answer, RocketMQError):
            raise answer
        return answer

    def topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        """``topic_route`` of each topic, or what it would raise. A name server is asked for all of them at once, and
        the next one for those that it could not tell."""
        told: dict[str, TopicRoute | RocketMQError] = {}
        open_topics = list(topics)
        for index in self._in_turn():
            for topic, answer in _ask_routes(self._peers[index], open_topics).items():
                if isinstance(answer, TopicRoute):
                    self._preferred = index
                if topic not in told or _telling(answer) > _telling(told[topic]):
                    told[topic] = answer
            open_topics = [topic for topic in open_topics if _is_open(told[topic])]
        return told

    def cluster_info(self) -> ClusterInfo:
        """All brokers that are registered. Raises TransportError, BrokerError, and OptionError[NOT_A_NAME_SERVER] when
        all of them are something else."""
        return self._first_answer(lambda peer: peer.ask(_cluster_question(peer.address.server)))

    def delete_topic(self, topic: str) -> None:
        """Make every name server forget ``topic``, after ``Broker.delete_topic`` on every master."""
        command = _command(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest(topic=topic).to_fields())
        for peer in self._peers:
            peer.ask(Question(command, code_only))

    def _first_answer(self, ask: Callable[[Peer], T]) -> T:
        """The first value; else the most telling failure, which is a missing topic where somebody said so."""
        failures: list[RocketMQError] = []
        for index in self._in_turn():
            try:
                value = ask(self._peers[index])
            except RocketMQError as error:
                if not _another_may_know(error):
                    raise
                failures.append(error)
            else:
                self._preferred = index
                return value
        raise max(failures, key=_telling)

    def _in_turn(self) -> list[int]:
        first, count = self._preferred, len(self._peers)
        return [(first + step) % count for step in range(count)]


def _ask_routes(peer: Peer, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
    """What one name server says of each topic, or what went wrong."""
    asked: dict[str, ResponseFuture[TopicRoute]] = {}
    told: dict[str, TopicRoute | RocketMQError] = {}
    for topic in topics:
        try:
            asked[topic] = peer.submit(_route_question(topic, peer.address.server))
        except RocketMQError as error:
            return dict.fromkeys(topics, error)
    for topic, answer in asked.items():
        try:
            told[topic] = _usable(answer.result())
        except RocketMQError as error:
            told[topic] = error
    return told


def _route_question(topic: str, address: str) -> Question[TopicRoute]:
    """``address``: of the name server that is asked."""

    def read(answer: RemotingCommand) -> TopicRoute:
        _check_kind(RequestCode.GET_ROUTEINFO_BY_TOPIC, answer, address)
        if meaning_of(RequestCode.GET_ROUTEINFO_BY_TOPIC, answer) is Meaning.NOTHING:
            raise RouteError("TOPIC_NOT_FOUND", topic=topic, address=address)
        route = decode_topic_route(topic, answer.body)
        return behind_proxy(route) if is_from_proxy(answer.fields) else route

    return Question(_command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic).to_fields()), read)


def _cluster_question(address: str) -> Question[ClusterInfo]:
    def read(answer: RemotingCommand) -> ClusterInfo:
        _check_kind(RequestCode.GET_BROKER_CLUSTER_INFO, answer, address)
        return decode_cluster_info(answer.body)

    return Question(_command(RequestCode.GET_BROKER_CLUSTER_INFO), read)


def _usable(route: TopicRoute) -> TopicRoute:
    if route.is_static:
        raise RouteError("STATIC_TOPIC_NOT_SUPPORTED", topic=route.topic)
    return route


def _check_kind(request: RequestCode, answer: RemotingCommand, address: str) -> None:
    if meaning_of(request, answer) is Meaning.OF_ANOTHER_KIND:
        raise OptionError("NOT_A_NAME_SERVER", address=address, request=request.name)


def _telling(answer: TopicRoute | RocketMQError) -> int:
    """Of what several name servers say, the largest counts: a route, then that there is none. Who is no name server, or
    does not let us in, tells least, because another one, which is silent now, may come back."""
    if isinstance(answer, TopicRoute):
        return 3
    if isinstance(answer, RouteError):
        return 2
    return int(outlook_of_request(answer) is not Outlook.FINAL)


def _is_open(answer: TopicRoute | RocketMQError) -> bool:
    return isinstance(answer, RocketMQError) and _another_may_know(answer)


def _another_may_know(error: RocketMQError) -> bool:
    """Of one that cannot be understood, reached or trusted, or is none, nobody knows what it would say."""
    if isinstance(error, RemoteProtocolError | TransportError) or is_no_name_server(error):
        return True
    return outlook_of_request(error) is not Outlook.FINAL


def _command(code: int, fields: dict[str, str] | None = None) -> RemotingCommand:
    return RemotingCommand(code, fields=fields or {})
