"""``Session``: registration with a proxy and all calls to it. One session per proxy, which may have several addresses.

A proxy delivers messages only to a client that has sent its settings and keeps sending heartbeats. Without these the
proxy drops the client, and calls fail.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from rocketmq_spark.errors import (
    BrokerError,
    OptionError,
    RemoteProtocolError,
    RocketMQError,
    RouteError,
    TransportError,
)
from rocketmq_spark.model import split_address
from rocketmq_spark.proxy.connection import Connection, parse_response
from rocketmq_spark.proxy.failures import probe_cause, response_too_large_error
from rocketmq_spark.proxy.telemetry import METHOD as TELEMETRY
from rocketmq_spark.proxy.telemetry import Telemetry
from rocketmq_spark.remoting.error_kinds import is_response_too_large, is_timed_out, is_unrecognized_client
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.security import Security
from rocketmq_spark.wire.bounds import MESSAGE_BYTES_BESIDE_BODY, RESPONSE_BYTES
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Identity, Subscription, route
from rocketmq_spark.wire.grpc.responses import (
    Addresses,
    brokers_of,
    is_ordered,
    is_unknown_handle,
    message_record,
    refusal_error,
)

A = TypeVar("A", pb.QueryRouteResponse, pb.HeartbeatResponse)

MIN_HOLD_MS: Final = 5_000
"""Minimum time for which a proxy holds a receive request while there are no messages."""

HOLD_SLACK_MS: Final = 5_000
TERMINATION_TIMEOUT_MS: Final = 1_000


class ProxiedMessage(NamedTuple):
    """A delivered message: its receipt handle, the encoded response that contains only it, its queue ID and offset."""

    handle: str
    record: bytes
    queue_id: int
    offset: int


class Response(NamedTuple):
    """Delivered messages of one broker. ``failure``: the error that ended the response early, or None."""

    received: list[ProxiedMessage]
    failure: RocketMQError | None = None


class _StatusResponse(Protocol):
    @property
    def status(self) -> pb.Status: ...


class Session:
    """A client's registration with one proxy, and all its calls to that proxy. The constructor opens no connection.

    Calls raise what ``Connection`` does, and ``refusal_error`` for a status other than OK.

    Threads: one thread calls ``find_brokers`` and ``keep_alive``; any thread makes the other calls, and may close it
    for good.
    """

    def __init__(
        self, addresses: Addresses, subscription: Subscription, client_id: str, security: Security, timeout_ms: int
    ) -> None:
        """Open no connection. ``addresses``: of the same proxy, at least one; the first is used first."""
        self.addresses = addresses
        self._subscription = subscription
        self._identity = Identity(client_id, security.credentials)
        self._tls = security.tls
        self._timeout_ms = timeout_ms
        self._address_index = 0
        self._connection: Connection | None = None
        self._telemetry: Telemetry | None = None
        self._is_disconnected = self._is_unrecognized = self._is_closed = False

    # ------------------------------------------------------------------------------------------ one thread

    def find_brokers(self, topic: str) -> dict[str, Addresses]:
        """Request the topic's route, and return by broker name the proxy addresses for each broker whose master has
        readable queues of it. Raises OptionError[FIFO_NOT_SUPPORTED] for a FIFO topic,
        RouteError[TOPIC_UNAVAILABLE.NO_READABLE_QUEUE] without such a broker,
        RemoteProtocolError[MALFORMED_RESPONSE.BODY] for an invalid route, TransportError[CONNECT_FAILED] after
        ``close``."""
        proxy_addresses = [split_address(address) for address in self.addresses]
        response = self._call("QueryRoute", route(topic, proxy_addresses), pb.QueryRouteResponse, topic)
        if is_ordered(response.message_queues):
            raise OptionError("FIFO_NOT_SUPPORTED", subject=f"Topic {topic!r}")
        brokers = brokers_of(topic, response.message_queues)
        if not brokers:
            raise RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
        return brokers

    def keep_alive(self) -> None:
        """Register with the proxy, or send a heartbeat if registered, and wait. If a call has lost the connection,
        connect to the proxy's next address and register there. Register again if the telemetry stream has ended, or if
        the proxy has lost the registration, as a call or this heartbeat shows.

        Raises the errors of a call (see the class), also OptionError[FIFO_NOT_SUPPORTED] for a FIFO group, and
        TransportError[CONNECT_FAILED] after ``close``.
        """
        telemetry = self._telemetry
        if telemetry is None or telemetry.is_over or self._is_unrecognized or self._is_disconnected:
            self._start_telemetry()
            return
        try:
            self._call("Heartbeat", self._subscription.heartbeat(), pb.HeartbeatResponse)
        except BrokerError as error:
            if not is_unrecognized_client(error):
                raise
            self._start_telemetry()

    def close(self) -> None:
        """Unless the connection is lost, notify the proxy that this client leaves the group, and wait up to
        TERMINATION_TIMEOUT_MS (1 s). Then close the connection, which ends all calls. Failures are ignored. Later calls
        raise TransportError[CONNECT_FAILED]."""
        self._is_closed = True
        connection = self._connection
        if connection is not None and not self._is_disconnected:
            with suppress(RocketMQError):
                termination = self._subscription.termination()
                connection.call(
                    "NotifyClientTermination", termination, pb.NotifyClientTerminationResponse, TERMINATION_TIMEOUT_MS
                )
        self._disconnect()

    def _start_telemetry(self) -> None:
        """Register the client, in place of an earlier registration (``_register``). Raises the errors of
        ``keep_alive``; a registration that was lost then stays marked as lost."""
        was_unrecognized = self._is_unrecognized
        self._is_unrecognized = False  # before the request: a loss that a call finds from now on is another one
        try:
            response = self._register()
        except RocketMQError:
            if was_unrecognized:
                self._is_unrecognized = True
            raise
        if response.settings.subscription.fifo:
            raise OptionError("FIFO_NOT_SUPPORTED", subject=f"Group {self._subscription.group!r}")

    def _register(self) -> pb.TelemetryCommand:
        """Connect, end the previous telemetry stream, send the client's settings over a new one, wait, and return the
        proxy's response. Raises the errors of ``_call``, and then leaves the new stream open."""
        with self._diagnosing():
            connection = self._connect()
            self._end_telemetry()
            settings = self._subscription.settings(socket.gethostname(), self._timeout_ms)
            self._telemetry = Telemetry(connection, settings, self._timeout_ms)
            response = self._telemetry.wait_for_response()
            _check(connection, TELEMETRY, response)
            return response

    def _call(self, method: str, request: Message, response: type[A], topic: str = "") -> A:
        """Send a request over the connection, opened if there is none; wait and return the response, whose status is
        OK. Raises what ``refusal_error`` returns for another status (``topic``: for its text), and what ``_diagnosing``
        raises."""
        with self._diagnosing():
            connection = self._connect()
            result_response = connection.call(method, request, response)
            _check(connection, method, result_response, topic)
            return result_response

    @contextmanager
    def _diagnosing(self) -> Iterator[None]:
        """Run the block. After a TransportError, mark the connection as lost, so that the next call uses the proxy's
        next address. A timeout with a single address does not lose it. Then probe the server over other connections.
        Raises what ``probe_cause`` returns."""
        try:
            yield
        except TransportError as error:
            if not is_timed_out(error) or len(self.addresses) > 1:
                self._is_disconnected = True
            raise probe_cause(error, self._tls) from error

    def _connect(self) -> Connection:
        """Return the connection; create it, without a request, if there is none. If it is marked as lost, close it
        first, with the telemetry stream, and use the proxy's next address. Raises TransportError[CONNECT_FAILED] after
        ``close``."""
        if self._is_disconnected:
            self._disconnect()
            self._address_index += 1
        connection = self._connection
        if connection is None:
            address = self.addresses[self._address_index % len(self.addresses)]
            connection = self._connection = Connection(address, self._tls, self._identity, self._timeout_ms)
            self._is_disconnected = False
        if self._is_closed:
            self._disconnect()
            raise TransportError("CONNECT_FAILED", address=self.addresses[0], reason="the client was stopped")
        return connection

    def _disconnect(self) -> None:
        """Close the telemetry stream and the connection, if there are any."""
        self._end_telemetry()
        connection, self._connection = self._connection, None  # also called by ``close``, on another thread
        if connection is not None:
            connection.close()

    def _end_telemetry(self) -> None:
        """Close the telemetry stream, if there is one."""
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is not None:
            telemetry.close()

    # ------------------------------------------------------------------------------------------ any thread

    def receive(self, topic: str, broker_name: str, *, max_messages: int, invisible_ms: int, poll_ms: int) -> Response:
        """Request up to ``max_messages`` messages of one broker, invisible for ``invisible_ms``, and wait until the
        proxy ends its response. Without messages, the proxy holds it for ``poll_ms``, at least 5 s. After a failure,
        return the messages received before and the failure; raise it without messages. Raises
        TransportError[CONNECT_FAILED] if there is no connection yet, what ``check_message`` does, and, even after
        messages, RemoteProtocolError[RESPONSE_TOO_LARGE] for more than ``max_messages`` or RESPONSE_BYTES."""
        request = self._subscription.receive(
            topic, broker_name, max_messages=max_messages, invisible_ms=invisible_ms, poll_ms=poll_ms
        )
        limit_ms = max(poll_ms, MIN_HOLD_MS) + HOLD_SLACK_MS + self._timeout_ms
        received: list[ProxiedMessage] = []
        try:
            connection = self._current_connection()
            responses = connection.stream("ReceiveMessage", request, limit_ms)
            with self._tracking_failures(connection), closing(limit_size(responses, connection.address)) as bounded:
                for data in bounded:
                    check_message(data, connection.address)
                    response = parse_response(pb.ReceiveMessageResponse, data)
                    if response.HasField("message") and len(received) == max_messages:
                        raise response_too_large_error(connection.address, "ReceiveMessage")
                    if response.HasField("message"):
                        fields = response.message.system_properties
                        record = message_record(data, response)
                        received.append(
                            ProxiedMessage(fields.receipt_handle, record, fields.queue_id, fields.queue_offset)
                        )
                    elif response.HasField("status") and response.status.code != pb.Code.MESSAGE_NOT_FOUND:
                        _check(connection, "ReceiveMessage", response, topic)
        except RocketMQError as error:
            if not received or is_response_too_large(error):
                raise
            return Response(received, error)
        return Response(received)

    def submit_ack(self, topic: str, handles: Sequence[str]) -> Callable[[], list[bool | RocketMQError]]:
        """Send acknowledgements without waiting. The returned function waits, and returns for each of ``handles``, in
        order, True if it was valid, False if not, or its error, not raised. It raises an error of the whole call.
        Raises TransportError[CONNECT_FAILED] if there is no connection."""
        connection = self._current_connection()
        request = self._subscription.acknowledge(topic, handles)
        pending = connection.submit("AckMessage", request, pb.AckMessageResponse)

        def result() -> list[bool | RocketMQError]:
            """Wait, and return the result for each handle. The status of the whole response counts for a handle without
            an entry."""
            with self._tracking_failures(connection):
                response = pending.result()
                by_handle = {entry.receipt_handle: entry.status for entry in response.entries}
                statuses = (by_handle.get(handle, response.status) for handle in handles)
                return [_ack_result(connection.address, status) for status in statuses]

        return result

    def submit_change_invisible_duration(
        self, topic: str, handle: str, invisible_ms: int, *, suspend: bool
    ) -> Callable[[], str | None]:
        """Request a change of a message's invisible duration to ``invisible_ms`` from now on, without waiting. With
        ``suspend`` the delivery is no consume attempt. The returned function waits, and returns the new receipt handle,
        or None if ``handle`` is not valid. Never repeat the call: each response causes a redelivery unless
        acknowledged. Raises TransportError[CONNECT_FAILED] if there is no connection."""
        request = self._subscription.change(topic, handle, invisible_ms, suspend=suspend)
        connection = self._current_connection()
        pending = connection.submit("ChangeInvisibleDuration", request, pb.ChangeInvisibleDurationResponse)

        def result() -> str | None:
            """Wait and return the new receipt handle, or None if ``handle`` is not valid."""
            with self._tracking_failures(connection):
                response = pending.result()
                if is_unknown_handle(response.status):
                    return None
                _check(connection, "ChangeInvisibleDuration", response)
                return response.receipt_handle

        return result

    def _current_connection(self) -> Connection:
        """Return the connection, which may be marked as lost. Raises TransportError[CONNECT_FAILED] if there is
        none."""
        if self._connection is None:
            raise TransportError("CONNECT_FAILED", address=self.addresses[0], reason="no connection was open")
        return self._connection

    @contextmanager
    def _tracking_failures(self, connection: Connection) -> Iterator[None]:
        """Run the block, and raise its errors unchanged. After a TransportError, unless it is a timeout, mark
        ``connection`` as lost, if it is the current one. After a transient BrokerError, mark the registration as lost.
        The next ``keep_alive`` then connects or registers."""
        try:
            yield
        except TransportError as error:
            if not is_timed_out(error) and connection is self._connection:
                self._is_disconnected = True
            raise
        except BrokerError as error:
            if retryability_of_request(error) is Retryability.TRANSIENT:
                self._is_unrecognized = True  # never reset here: another call may have set it meanwhile
            raise


def limit_size(responses: Generator[bytes], address: str) -> Generator[bytes]:
    """Yield ``responses`` (the bytes of each) while their total size is at most RESPONSE_BYTES (128 MiB), and close
    them at the end. Raises RemoteProtocolError[RESPONSE_TOO_LARGE], during iteration, beyond this size."""
    size_bytes = 0
    with closing(responses):
        for data in responses:
            size_bytes += len(data)
            if size_bytes > RESPONSE_BYTES.maximum:
                raise response_too_large_error(address, "ReceiveMessage")
            yield data


def check_message(data: bytes, address: str) -> None:
    """Check an undecoded response: do nothing if it has, beside the body of its message, at most
    MESSAGE_BYTES_BESIDE_BODY. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY] if it has more, or is longer than
    that and cannot be decoded."""
    if len(data) <= MESSAGE_BYTES_BESIDE_BODY.maximum:
        return
    try:
        MESSAGE_BYTES_BESIDE_BODY.check(len(data) - len(parse_response(pb.ReceivedBody, data).message.body))
    except ValueError as problem:
        raise RemoteProtocolError(
            "MALFORMED_RESPONSE.BODY", subject=f"response of {address} to ReceiveMessage", problem=str(problem)
        ) from problem


def _check(connection: Connection, request: str, response: _StatusResponse, topic: str = "") -> None:
    """Do nothing for status OK. Raises what ``refusal_error`` returns for another status (``topic``: for its text)."""
    if response.status.code != pb.Code.OK:
        raise refusal_error(connection.address, request, response.status, topic=topic)


def _ack_result(address: str, status: pb.Status) -> bool | RocketMQError:
    """Return True for OK, False for a receipt handle that is no longer valid, else the error, not raised."""
    if status.code == pb.Code.OK:
        return True
    return False if is_unknown_handle(status) else refusal_error(address, "AckMessage", status)
