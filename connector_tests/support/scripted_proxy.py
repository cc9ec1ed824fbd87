"""A proxy whose answers a test writes: a real gRPC server on the loopback interface, for what a real proxy cannot be
made to state at will."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.proxy.session import Session
from rocketmq_spark.security import Security, Tls
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Subscription

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
METHODS: Final = pb.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name
CERTIFICATE: Final = Path(__file__).parent / "tls" / "localhost.crt"
THREADS: Final = 8
OK: Final = pb.Status(code=pb.Code.OK, message="OK")
NOTHING: Final = pb.Status(code=pb.Code.MESSAGE_NOT_FOUND, message="no new message")

Handler = Callable[[Any], Any]
"""From a request to its answer; of methods with several answers, to these. It may raise ``Ended``."""


class Ended(Exception):  # noqa: N818  # an order, not an error
    """End the call with a status of gRPC's own."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details


class ReceivedRequest(NamedTuple):
    """One request."""

    method: str
    request: Any
    metadata: Mapping[str, str]


def received(handle: str, body: bytes = b"x", **more: Any) -> pb.ReceiveMessageResponse:
    """An answer with a message."""
    system = pb.SystemProperties(receipt_handle=handle, **more)
    return pb.ReceiveMessageResponse(message=pb.Message(body=body, system_properties=system))


def status(code: pb.Code, message: str = "") -> pb.Status:
    return pb.Status(code=code, message=message)


class ScriptedProxy:
    """Context manager. ``handlers_by_method`` may be changed at any time; ``requests_received`` has what came.

    ``is_tls``: with this ``certificate``, whose key is beside it; ``client_ca``: who wants to be heard has the
    same one.
    """

    def __init__(
        self,
        *,
        is_tls: bool = False,
        certificate: Path = CERTIFICATE,
        client_ca: bool = False,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> None:
        self.requests_received: list[ReceivedRequest] = []
        self.handlers_by_method: dict[str, Handler] = {
            "QueryRoute": lambda _: pb.QueryRouteResponse(status=OK, message_queues=[self.queue()]),
            "Telemetry": lambda request_body: [pb.TelemetryCommand(status=OK, settings=request_body.settings)],
            "Heartbeat": lambda _: pb.HeartbeatResponse(status=OK),
            "ReceiveMessage": lambda _: [pb.ReceiveMessageResponse(status=NOTHING)],
            "AckMessage": acknowledged,
            "ChangeInvisibleDuration": lambda request_body: pb.ChangeInvisibleDurationResponse(
                status=OK, receipt_handle=f"{request_body.receipt_handle}'"
            ),
            "NotifyClientTermination": lambda _: pb.NotifyClientTerminationResponse(status=OK),
        }
        self._threads = ThreadPoolExecutor(THREADS)
        self._server = grpc.server(self._threads, options=[("grpc.so_reuseport", 0)], compression=compression)
        handlers = {name: self._handler(name) for name in METHODS}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        if is_tls:
            key, chain = certificate.with_suffix(".key").read_bytes(), certificate.read_bytes()
            credentials = grpc.ssl_server_credentials([(key, chain)], chain if client_ca else None, client_ca)
            self._port = self._server.add_secure_port("127.0.0.1:0", credentials)
        else:
            self._port = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self) -> ScriptedProxy:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all calls, and take no more."""
        self._server.stop(None).wait()
        self._threads.shutdown()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def queue(self, name: str = "broker-a", **more: Any) -> pb.MessageQueue:
        """One of a broker that is asked here."""
        here = pb.Endpoints(scheme=pb.AddressScheme.IPv4, addresses=[pb.Address(host="127.0.0.1", port=self._port)])
        of_broker: dict[str, Any] = {
            "permission": pb.Permission.READ_WRITE,
            "broker": {"name": name, "endpoints": here},
        }
        return pb.MessageQueue(**of_broker | more)

    def received_methods(self) -> list[str]:
        return [one.method for one in self.requests_received]

    # ------------------------------------------------------------------------------------------ inside

    def _handler(self, name: str) -> Any:
        method = METHODS[name]
        kinds: dict[tuple[bool, bool], Any] = {
            (False, False): (grpc.unary_unary_rpc_method_handler, self._respond),
            (False, True): (grpc.unary_stream_rpc_method_handler, self._respond_stream),
            (True, True): (grpc.stream_stream_rpc_method_handler, self._converse),
        }
        make, behave = kinds[method.client_streaming, method.server_streaming]
        request_class: Any = GetMessageClass(method.input_type)
        return make(
            lambda request, context: behave(name, request, context),
            request_deserializer=request_class.FromString,
            response_serializer=lambda response: (
                response if isinstance(response, bytes) else response.SerializeToString()
            ),
        )

    def _respond(self, name: str, request: Message, context: grpc.ServicerContext) -> Any:
        metadata = {str(key): str(value) for key, value in context.invocation_metadata()}
        self.requests_received.append(ReceivedRequest(name, request, metadata))
        try:
            return self.handlers_by_method[name](request)
        except Ended as end:
            context.abort(end.code, end.details)

    def _respond_stream(self, name: str, request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from self._respond(name, request, context)
        except Ended as end:
            context.abort(end.code, end.details)

    def _converse(self, name: str, requests: Iterator[Message], context: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            yield from self._respond_stream(name, request, context)


def acknowledged(request_body: pb.AckMessageRequest) -> pb.AckMessageResponse:
    """All of them."""
    return of_entries(request_body, [OK] * len(request_body.entries))


def of_entries(request_body: pb.AckMessageRequest, statuses: Sequence[pb.Status]) -> pb.AckMessageResponse:
    """Each with a status of its own."""
    entries = [
        pb.AckMessageResultEntry(receipt_handle=one.receipt_handle, status=of_it)
        for one, of_it in zip(request_body.entries, statuses, strict=True)
    ]
    return pb.AckMessageResponse(status=status(pb.Code.MULTIPLE_RESULTS), entries=entries)


@contextmanager
def in_use() -> Iterator[None]:
    """With a channel to nobody, after a call that was answered."""
    with closing(grpc.insecure_channel("127.0.0.1:1")), ScriptedProxy(is_tls=True) as proxy:
        trusting = Security(tls=Tls(str(CERTIFICATE)))
        session = Session((proxy.address,), Subscription("g", ("T",), "*"), "me", trusting, REQUEST_TIMEOUT_MS)
        session.keep_alive()
        assert session.receive("T", "broker-a", max_messages=1, invisible_ms=1, poll_ms=1).received == []
        session.close()
        proxy.stop()
        yield
