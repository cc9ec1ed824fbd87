"""Connection: calls over one channel, a method of the service each by its name."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from rocketmq_spark.errors import RemoteProtocolError, TransportError
from rocketmq_spark.proxy.channel import open_channel
from rocketmq_spark.proxy.failures import failure_of
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.grpc.requests import Identity

A = TypeVar("A", bound=Message)

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"


class PendingCall(Generic[A]):
    """A call whose answer is awaited by who wants it."""

    def __init__(self, result: Callable[[], A]) -> None:
        self._result = result

    def result(self) -> A:
        """The answer. Raises what ``failure_of`` says."""
        return self._result()


class Connection:
    """To the proxy at one address. Calls raise what ``failure_of`` says, RemoteProtocolError[MALFORMED_RESPONSE.BODY]
    for an answer that cannot be read, TransportError[CONNECTION_LOST] after ``close``.

    Threads: any.
    """

    def __init__(self, address: str, tls: Tls | None, identity: Identity, timeout_ms: int) -> None:
        """Raises what ``open_channel`` does."""
        self.address = address
        self._identity = identity
        self._timeout_ms = timeout_ms
        self._channel = open_channel(address, tls, timeout_ms)

    def call(self, method: str, request: Message, response_type: type[A], timeout_ms: int | None = None) -> A:
        """The answer of a method that has one."""
        return self.submit(method, request, response_type, timeout_ms).result()

    def submit(
        self, method: str, request: Message, response_type: type[A], timeout_ms: int | None = None
    ) -> PendingCall[A]:
        """The same, while others are asked."""
        limit_ms = timeout_ms or self._timeout_ms
        call: Any = self._channel.unary_unary(SERVICE + method, request_serializer=_to_bytes)
        with self._open():
            future = call.future(request, timeout=limit_ms / 1000, metadata=self._metadata())

        def result() -> A:
            try:
                return parse_response(response_type, future.result())
            except grpc.RpcError as error:
                raise failure_of(error, self.address, method, limit_ms) from error

        return PendingCall(result)

    def stream(self, method: str, request: Message, timeout_ms: int) -> Generator[bytes]:
        """The answers of a method that has several, as they came; on the caller's thread. Closing it ends the call."""
        call: Any = self._channel.unary_stream(SERVICE + method, request_serializer=_to_bytes)
        with self._open():
            responses = call(request, timeout=timeout_ms / 1000, metadata=self._metadata())
        try:
            yield from responses
        except grpc.RpcError as error:
            raise failure_of(error, self.address, method, timeout_ms) from error
        finally:
            responses.cancel()  # whoever closes the iterator wants no more

    def open_stream(self, method: str, requests: Iterator[Message]) -> Any:
        """A method that takes several requests and answers when it likes; raises RpcErrors as they are."""
        with self._open():
            call: Any = self._channel.stream_stream(SERVICE + method, request_serializer=_to_bytes)
            return call(requests, metadata=self._metadata())

    def close(self) -> None:
        """End all calls."""
        self._channel.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        """A call begins. Another thread may have closed the channel just now: gRPC then says ValueError."""
        try:
            yield
        except ValueError as error:
            raise TransportError("CONNECTION_LOST", address=self.address, reason=str(error)) from error

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return self._identity.metadata(time.time())


def parse_response(response_type: type[A], data: bytes) -> A:
    """Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    try:
        return response_type.FromString(data)
    except DecodeError as problem:
        raise RemoteProtocolError(
            "MALFORMED_RESPONSE.BODY", subject=response_type.DESCRIPTOR.name, problem=str(problem)
        ) from problem


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()
