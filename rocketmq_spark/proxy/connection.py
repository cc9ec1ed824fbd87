"""``Connection``: calls of the service's methods, by name, over one channel."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from rocketmq_spark.errors import RemoteProtocolError, TransportError
from rocketmq_spark.proxy.channel import open_channel
from rocketmq_spark.proxy.failures import check_control_response, failure_of
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.grpc.requests import Identity

A = TypeVar("A", bound=Message)

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"


class PendingCall(Generic[A]):
    """A call with one response to a proxy, in flight."""

    def __init__(self, result: Callable[[], A]) -> None:
        self._result = result

    def result(self) -> A:
        """Wait for the response, at most until the call's timeout, and return it. Raises what ``Connection``
        describes."""
        return self._result()


class Connection:
    """gRPC connection to the proxy at one address. Each call carries the client's metadata and signature.

    Calls raise what ``failure_of`` returns, RemoteProtocolError[MALFORMED_RESPONSE.BODY] for an undecodable response,
    and TransportError[CONNECTION_LOST] after ``close``. A method with one response raises
    RemoteProtocolError[RESPONSE_TOO_LARGE] for more than CONTROL_RESPONSE_BYTES.

    Threads: any.
    """

    def __init__(self, address: str, tls: Tls | None, identity: Identity, timeout_ms: int) -> None:
        """Open the channel; it connects at the first call. Raises what ``open_channel`` does."""
        self.address = address
        self._identity = identity
        self._timeout_ms = timeout_ms
        self._channel = open_channel(address, tls, timeout_ms)

    def call(self, method: str, request: Message, response_type: type[A], timeout_ms: int | None = None) -> A:
        """Call a method with one response, wait and return it, whatever its status. ``timeout_ms``: None or 0: the
        connection's."""
        return self.submit(method, request, response_type, timeout_ms).result()

    def submit(
        self, method: str, request: Message, response_type: type[A], timeout_ms: int | None = None
    ) -> PendingCall[A]:
        """Call a method as ``call`` does, without waiting. ``PendingCall.result`` waits, returns the response and
        raises the errors of the class. Raises TransportError[CONNECTION_LOST] after ``close``. ``timeout_ms``: None or
        0: the connection's."""
        limit_ms = timeout_ms or self._timeout_ms
        call: Any = self._channel.unary_unary(SERVICE + method, request_serializer=_to_bytes)
        with self._raising_connection_lost():
            future = call.future(request, timeout=limit_ms / 1000, metadata=self._metadata())

        def result() -> A:
            """Wait and return the response, whatever its status, or raise an error of the class."""
            try:
                data = future.result()
            except grpc.RpcError as error:
                raise failure_of(error, self.address, method, limit_ms) from error
            check_control_response(data, self.address, method)
            return parse_response(response_type, data)

        return PendingCall(result)

    def stream(self, method: str, request: Message, timeout_ms: int) -> Generator[bytes]:
        """Yield the undecoded responses of a method that streams them, on the caller's thread. The call starts with the
        first response that the caller requests; ``timeout_ms`` limits it as a whole. Closing the generator cancels the
        call. Raises what ``failure_of`` returns, during iteration."""
        call: Any = self._channel.unary_stream(SERVICE + method, request_serializer=_to_bytes)
        with self._raising_connection_lost():
            responses = call(request, timeout=timeout_ms / 1000, metadata=self._metadata())
        try:
            yield from responses
        except grpc.RpcError as error:
            raise failure_of(error, self.address, method, timeout_ms) from error
        finally:  # also when the caller closes the generator
            responses.cancel()
            _finish_cancelled(responses)

    def open_stream(self, method: str, requests: Iterator[Message]) -> Any:
        """Start a method that streams in both directions, without a timeout, and return gRPC's call without waiting.
        gRPC sends ``requests`` on a thread of its own. Iterating over the call yields undecoded responses, and raises
        RpcErrors as they are. Raises TransportError[CONNECTION_LOST] after ``close``."""
        with self._raising_connection_lost():
            call: Any = self._channel.stream_stream(SERVICE + method, request_serializer=_to_bytes)
            return call(requests, metadata=self._metadata())

    def close(self) -> None:
        """Close the channel. Calls in flight end with TransportError[CONNECTION_LOST], those of ``open_stream`` with an
        RpcError."""
        self._channel.close()

    @contextmanager
    def _raising_connection_lost(self) -> Iterator[None]:
        """Run the block. Raises TransportError[CONNECTION_LOST] in place of a ValueError of the block, which gRPC
        raises if another thread has just closed the channel."""
        try:
            yield
        except ValueError as error:
            raise TransportError("CONNECTION_LOST", address=self.address, reason=str(error)) from error

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call that starts now, with credentials signed."""
        return self._identity.metadata(time.time())


def parse_response(response_type: type[A], data: bytes) -> A:
    """Decode a response to a message of ``response_type``. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    try:
        return response_type.FromString(data)
    except DecodeError as problem:
        raise RemoteProtocolError(
            "MALFORMED_RESPONSE.BODY", subject=response_type.DESCRIPTOR.name, problem=str(problem)
        ) from problem


def _finish_cancelled(call: Any) -> None:
    """Consume the last events of a cancelled call, which come at once. With SingleThreadedUnaryStream gRPC does not,
    and would keep the call and its connection open after ``close``. Do nothing for a gRPC library without the private
    method for it."""
    consume_next_event = getattr(call, "_consume_next_event", None)
    while consume_next_event is not None and call._state.due:
        consume_next_event()


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()
