"""The name servers of a cluster: any of them knows every route, none of them has to be up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError, RouteError
from rocketmq_spark.model import TopicRoute
from rocketmq_spark.remoting.peer import Peer, Question, code_only
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Outlook, outlook_of_request
from rocketmq_spark.wire.body.routes import ClusterInfo, decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import DeleteTopicFromNamesrvRequest, GetRouteInfoRequest

T = TypeVar("T")


class NameServers:
    """Asks one name server at a time, beginning with the one that answered last, and the next where that fails."""

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool, timeout_ms: int) -> None:
        self._peers = tuple(Peer(address, pool, timeout_ms) for address in addresses)
        self._preferred = 0

    def __repr__(self) -> str:
        return f"<NameServers {';'.join(peer.address for peer in self._peers)}>"

    def topic_route(self, topic: str) -> TopicRoute:
        """Where ``topic`` lives.

        Raises RouteError[TOPIC_NOT_FOUND] when one name server says that it does not exist and no other knows it: one
        that has just started knows nothing yet. Raises RouteError[STATIC_TOPIC] for a topic whose queue ids mean one
        thing in a pull and another in a broker's statistics. Raises TransportError, BrokerError or RemoteProtocolError
        when none of them answers, or not as a name server does.
        """
        command = _command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic).to_fields())
        question = Question(command, lambda answer: decode_topic_route(topic, answer.body))
        return self._first_answer(lambda peer: _ask_route(peer, question, topic))

    def cluster_info(self) -> ClusterInfo:
        """All brokers that are registered. Raises TransportError or BrokerError."""
        command = _command(RequestCode.GET_BROKER_CLUSTER_INFO)
        question = Question(command, lambda answer: decode_cluster_info(answer.body))
        return self._first_answer(lambda peer: peer.ask(question))

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
        raise next((error for error in failures if isinstance(error, RouteError)), failures[-1])

    def _in_turn(self) -> list[int]:
        first, count = self._preferred, len(self._peers)
        return [(first + step) % count for step in range(count)]


def _ask_route(peer: Peer, question: Question[TopicRoute], topic: str) -> TopicRoute:
    try:
        route = peer.ask(question)
    except BrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            raise RouteError("TOPIC_NOT_FOUND", topic=topic, address=peer.address) from error
        raise
    if route.is_static:
        raise RouteError("STATIC_TOPIC", topic=topic)
    return route


def _another_may_know(error: RocketMQError) -> bool:
    return isinstance(error, RemoteProtocolError) or outlook_of_request(error) is not Outlook.FINAL


def _command(code: int, fields: dict[str, str] | None = None) -> RemotingCommand:
    return RemotingCommand(code, fields=fields or {})
