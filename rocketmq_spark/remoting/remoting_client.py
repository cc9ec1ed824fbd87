"""Client of the server at one address: sends requests over the pool's connection, raises refusals as BrokerError."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.connection import Connection, PendingResponse
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.proxied import with_broker_name
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.meanings import is_go_away, meaning_of
from rocketmq_spark.wire.remoting.refusal import refusal_error

T = TypeVar("T")


def decode_nothing(_response: RemotingCommand) -> None:
    """Return None: the ``decode`` of an RPC whose response carries only a code."""


@dataclass(frozen=True, slots=True)
class Rpc(Generic[T]):
    """A request command and the decoder of its response. ``decode`` receives responses that have a ``meaning_of``, and
    may raise RemoteProtocolError."""

    command: RemotingCommand
    decode: Callable[[RemotingCommand], T]


class ResponseFuture(Generic[T]):
    """The future decoded response of one RPC."""

    __slots__ = ("_client", "_connection", "_pending", "_rpc")

    def __init__(self, client: RemotingClient, connection: Connection, rpc: Rpc[T], pending: PendingResponse) -> None:
        self._client = client
        self._connection = connection
        self._rpc = rpc
        self._pending = pending

    def result(self) -> T:
        """Wait, at most until the request's deadline, and return the decoded response. After GO_AWAY (the server shuts
        down) retire the connection, send the request once more over a new one, and wait with the full timeout again. A
        second GO_AWAY is a BrokerError. Call ``result`` once: a second call decodes again, or sends again after
        GO_AWAY.

        Raises TransportError, BrokerError (see ``wire.remoting.refusal``), RemoteProtocolError, and what the RPC's
        ``decode`` raises. Threads: any but the reader.
        """
        response = self._pending.result()
        if is_go_away(response):
            response = self._client.call_on_new_connection(
                self._connection, self._rpc.command, self._pending.timeout_ms
            )
        return self._client.decode_response(self._rpc.command, response, self._rpc.decode)


class RemotingClient:
    """Base of the clients of name servers and brokers. Cheap: the pool owns the connection.

    All brokers behind a proxy (see ``proxied``) share the connection to it, by which the proxy identifies this client.
    """

    def __init__(self, address: BrokerAddress, pool: ConnectionPool, timeout_ms: int) -> None:
        """Open no connection. ``timeout_ms``: limit of each request."""
        self.address = address
        self._pool = pool
        self._timeout_ms = timeout_ms

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open, so that a request is sent without connecting first."""
        return self._pool.is_connected(self.address.server)

    def call(self, rpc: Rpc[T]) -> T:
        """Send a request, wait, and return its decoded response. Raises what ``submit`` and ``ResponseFuture.result``
        raise."""
        return self.submit(rpc).result()

    def submit(self, rpc: Rpc[T]) -> ResponseFuture[T]:
        """Send a request without waiting for the response. If there is no connection, open one first, and wait until it
        is open. Raises TransportError[CONNECT_FAILED | CONNECTION_LOST], and what ``ConnectionPool.get`` and
        ``Connection.submit`` raise."""
        connection = self._pool.get(self.address.server)
        sent = self._with_broker_name(rpc)
        return ResponseFuture(self, connection, sent, connection.submit(sent.command, self._timeout_ms))

    def call_async(
        self, rpc: Rpc[T], on_response: Callable[[T | RocketMQError], None], timeout_ms: int | None = None
    ) -> None:
        """Send a request, after opening a connection if there is none, and return. ``on_response`` receives the decoded
        response or the error, once. ``timeout_ms``: None: the client's. Never raises a RocketMQError.

        ``on_response`` must be quick: it runs on the reader thread, or on the caller's if sending failed.
        """

        def on_done(pending: PendingResponse) -> None:
            on_response(self._outcome(connection, pending, rpc.decode))

        try:
            connection = self._pool.get(self.address.server)
            connection.submit(
                self._with_broker_name(rpc).command, self._timeout_ms if timeout_ms is None else timeout_ms, on_done
            )
        except RocketMQError as error:
            on_response(error)

    def _with_broker_name(self, rpc: Rpc[T]) -> Rpc[T]:
        """Return ``rpc``; for a broker behind a proxy a copy with the broker's name in a field of its command."""
        if self.address.broker_name is None:
            return rpc
        return replace(rpc, command=with_broker_name(rpc.command, self.address.broker_name))

    def _outcome(
        self, connection: Connection, pending: PendingResponse, decode: Callable[[RemotingCommand], T]
    ) -> T | RocketMQError:
        """Return the decoded response, or the error, of a completed request; raise no RocketMQError.

        After GO_AWAY, retire the connection, so that later requests open another, and return the refusal, which is
        transient. The reader thread calls this, so it cannot send the request again.
        """
        try:
            response = pending.result()
            if is_go_away(response):
                self._pool.retire(connection)
            return self.decode_response(pending.request, response, decode)
        except RocketMQError as error:
            return error

    def call_on_new_connection(self, retired: Connection, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Retire a connection after GO_AWAY, send the same request over another one, opened if there is none, wait, and
        return the response, whatever its code. Raises what ``RemotingClient.submit`` and ``PendingResponse.result`` do.

        Source: ``remoting/netty/NettyRemotingClient.java#invokeImpl``.
        """
        self._pool.retire(retired)
        return self._pool.get(self.address.server).request(command, timeout_ms)

    def decode_response(
        self, request: RemotingCommand, response: RemotingCommand, decode: Callable[[RemotingCommand], T]
    ) -> T:
        """Return ``decode(response)``; its errors are raised. A response code without a ``meaning_of`` for the request
        refuses it: raise the BrokerError of ``refusal_error`` without decoding."""
        if meaning_of(request.code, response) is None:
            raise refusal_error(str(self.address), request.code, response)
        return decode(response)
