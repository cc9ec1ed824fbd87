"""One server, by its address: requests go over whatever connection is up, refusals come back as ``BrokerError``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.connection import Connection, Pending
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.proxied import addressed
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.meanings import is_going_away, meaning_of
from rocketmq_spark.wire.remoting.refusal import refusal

T = TypeVar("T")


def code_only(_answer: RemotingCommand) -> None:
    """The ``read`` of a question whose answer says nothing beyond its code."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A request and how to understand its answer: ``read`` makes the value of one that ``meaning_of`` knows.

    ``read`` may raise RemoteProtocolError.
    """

    command: RemotingCommand
    read: Callable[[RemotingCommand], T]


class ResponseFuture(Generic[T]):
    """The value of an answer that may still be on its way."""

    __slots__ = ("_connection", "_peer", "_pending", "_question")

    def __init__(self, peer: Peer, connection: Connection, question: Question[T], pending: Pending) -> None:
        self._peer = peer
        self._connection = connection
        self._question = question
        self._pending = pending

    def result(self) -> T:
        """Wait for it, at most until the request's deadline; a server that is going away is asked once more.

        Raises TransportError, BrokerError (see ``wire.remoting.refusal``), RemoteProtocolError. Threads: any but the
        reader.
        """
        answer = self._pending.result()
        if is_going_away(answer):
            answer = self._peer.ask_again(self._connection, self._question.command, self._pending.timeout_ms)
        return self._peer.value(self._question.command, answer, self._question.read)


class Peer:
    """Base of the clients of name servers and brokers. Cheap: it holds no connection of its own.

    All brokers behind a proxy (see ``proxied``) share the connection to it, by which it knows us.
    """

    def __init__(self, address: BrokerAddress, pool: ConnectionPool, timeout_ms: int) -> None:
        self.address = address
        self._pool = pool
        self._timeout_ms = timeout_ms

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    @property
    def is_connected(self) -> bool:
        """Whether a request can be sent without connecting first."""
        return self._pool.is_connected(self.address.server)

    def ask(self, question: Question[T]) -> T:
        """Send and wait; raises what ``submit`` and ``ResponseFuture.result`` raise."""
        return self.submit(question).result()

    def submit(self, question: Question[T]) -> ResponseFuture[T]:
        """Send and do not wait. Raises TransportError[CONNECT_FAILED | CONNECTION_LOST]."""
        connection = self._pool.get(self.address.server)
        sent = self._addressed(question)
        return ResponseFuture(self, connection, sent, connection.submit(sent.command, self._timeout_ms))

    def ask_then(
        self, question: Question[T], on_answer: Callable[[T | RocketMQError], None], timeout_ms: int | None = None
    ) -> None:
        """Send and hand over the value, or whatever went wrong, exactly once. Never raises a RocketMQError.

        ``on_answer`` must be quick: it runs on the reader thread, or on the caller's where nothing could be sent.
        """

        def settled(pending: Pending) -> None:
            on_answer(self._outcome(connection, pending, question.read))

        try:
            connection = self._pool.get(self.address.server)
            connection.submit(
                self._addressed(question).command, self._timeout_ms if timeout_ms is None else timeout_ms, settled
            )
        except RocketMQError as error:
            on_answer(error)

    def _addressed(self, question: Question[T]) -> Question[T]:
        """A proxy is told for whom it is."""
        if self.address.broker_name is None:
            return question
        return replace(question, command=addressed(question.command, self.address.broker_name))

    def _outcome(
        self, connection: Connection, pending: Pending, read: Callable[[RemotingCommand], T]
    ) -> T | RocketMQError:
        """Of a request that is settled: the value, or what went wrong.

        On the reader thread nobody can ask again; GO_AWAY is a refusal then, which passes (``retry``).
        """
        try:
            answer = pending.result()
            if is_going_away(answer):
                self._pool.retire(connection)
            return self.value(pending.request, answer, read)
        except RocketMQError as error:
            return error

    def ask_again(self, leaving: Connection, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """After GO_AWAY: the same request over a new connection.

        Source: ``remoting/netty/NettyRemotingClient.java#invokeImpl``.
        """
        self._pool.retire(leaving)
        return self._pool.get(self.address.server).request(command, timeout_ms)

    def value(self, request: RemotingCommand, answer: RemotingCommand, read: Callable[[RemotingCommand], T]) -> T:
        """Raises the BrokerError of ``refusal`` for an answer without a meaning, and what ``read`` raises."""
        if meaning_of(request.code, answer) is None:
            raise refusal(str(self.address), request.code, answer)
        return read(answer)
