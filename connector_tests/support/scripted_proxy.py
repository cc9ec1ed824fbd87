"""A proxy whose answers a test writes: a real gRPC server on the loopback interface, for what a real proxy cannot be
made to say at will."""

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

from rocketmq_spark.proxy.session import Session
from rocketmq_spark.security import Security, Tls
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Subscription

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
METHODS: Final = pb.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name
CERTIFICATE: Final = Path(__file__).parent / "tls" / "localhost.crt"
THREADS: Final = 8
TIMEOUT_MS: Final = 10_000
OK: Final = pb.Status(code=pb.Code.OK, message="OK")
NOTHING: Final = pb.Status(code=pb.Code.MESSAGE_NOT_FOUND, message="no new message")

Handler = Callable[[Any], Any]
"""From a request to its answer; of methods with several answers, to these. It may raise ``Ended``."""


class Ended(Exception):  # noqa: N818  # an order, not an error
    """End the call with a status of gRPC's own."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details


class Asked(NamedTuple):
    """One request."""

    method: str
    request: Any
    metadata: Mapping[str, str]


def given(handle: str, body: bytes = b"x", **more: Any) -> pb.ReceiveMessageResponse:
    """An answer with a message."""
    system = pb.SystemProperties(receipt_handle=handle, **more)
    return pb.ReceiveMessageResponse(message=pb.Message(body=body, system_properties=system))


def status(code: pb.Code, message: str = "") -> pb.Status:
    return pb.Status(code=code, message=message)


class ScriptedProxy:
    """Context manager. ``answers`` may be changed at any time; ``asked`` has what came.

    ``speaks_tls``: with this ``certificate``, whose key is beside it; ``knows_clients``: who wants to be heard has the
    same one.
    """

    def __init__(
        self,
        *,
        speaks_tls: bool = False,
        certificate: Path = CERTIFICATE,
        knows_clients: bool = False,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> None:
        self.asked: list[Asked] = []
        self.answers: dict[str, Handler] = {
            "QueryRoute": lambda _: pb.QueryRouteResponse(status=OK, message_queues=[self.queue()]),
            "Telemetry": lambda said: [pb.TelemetryCommand(status=OK, settings=said.settings)],
            "Heartbeat": lambda _: pb.HeartbeatResponse(status=OK),
            "ReceiveMessage": lambda _: [pb.ReceiveMessageResponse(status=NOTHING)],
            "AckMessage": acknowledged,
            "ChangeInvisibleDuration": lambda said: pb.ChangeInvisibleDurationResponse(
                status=OK, receipt_handle=f"{said.receipt_handle}'"
            ),
            "NotifyClientTermination": lambda _: pb.NotifyClientTerminationResponse(status=OK),
        }
        self._threads = ThreadPoolExecutor(THREADS)
        self._server = grpc.server(self._threads, options=[("grpc.so_reuseport", 0)], compression=compression)
        handlers = {name: self._handler(name) for name in METHODS}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        if speaks_tls:
            key, chain = certificate.with_suffix(".key").read_bytes(), certificate.read_bytes()
            credentials = grpc.ssl_server_credentials([(key, chain)], chain if knows_clients else None, knows_clients)
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

    def methods_asked(self) -> list[str]:
        return [one.method for one in self.asked]

    # ------------------------------------------------------------------------------------------ inside

    def _handler(self, name: str) -> Any:
        method = METHODS[name]
        kinds: dict[tuple[bool, bool], Any] = {
            (False, False): (grpc.unary_unary_rpc_method_handler, self._answer),
            (False, True): (grpc.unary_stream_rpc_method_handler, self._answers),
            (True, True): (grpc.stream_stream_rpc_method_handler, self._converse),
        }
        make, behave = kinds[method.client_streaming, method.server_streaming]
        request_class: Any = GetMessageClass(method.input_type)
        return make(
            lambda request, context: behave(name, request, context),
            request_deserializer=request_class.FromString,
            response_serializer=lambda answer: answer if isinstance(answer, bytes) else answer.SerializeToString(),
        )

    def _answer(self, name: str, request: Message, context: grpc.ServicerContext) -> Any:
        metadata = {str(key): str(value) for key, value in context.invocation_metadata()}
        self.asked.append(Asked(name, request, metadata))
        try:
            return self.answers[name](request)
        except Ended as end:
            context.abort(end.code, end.details)

    def _answers(self, name: str, request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from self._answer(name, request, context)
        except Ended as end:
            context.abort(end.code, end.details)

    def _converse(self, name: str, requests: Iterator[Message], context: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            yield from self._answers(name, request, context)


def acknowledged(said: pb.AckMessageRequest) -> pb.AckMessageResponse:
    """All of them."""
    return of_entries(said, [OK] * len(said.entries))


def of_entries(said: pb.AckMessageRequest, told: Sequence[pb.Status]) -> pb.AckMessageResponse:
    """Each with a status of its own."""
    entries = [
        pb.AckMessageResultEntry(receipt_handle=one.receipt_handle, status=of_it)
        for one, of_it in zip(said.entries, told, strict=True)
    ]
    return pb.AckMessageResponse(status=status(pb.Code.MULTIPLE_RESULTS), entries=entries)


@contextmanager
def in_use() -> Iterator[None]:
    """With a channel to nobody, after a call that was answered."""
    with closing(grpc.insecure_channel("127.0.0.1:1")), ScriptedProxy(speaks_tls=True) as proxy:
        trusting = Security(tls=Tls(str(CERTIFICATE)))
        session = Session((proxy.address,), Subscription("g", ("T",), "*"), "me", trusting, TIMEOUT_MS)
        session.keep()
        assert session.receive("T", "broker-a", most=1, invisible_ms=1, poll_ms=1).given == []
        session.close()
        proxy.stop()
        yield
