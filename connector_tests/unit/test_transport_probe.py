"""What ends a connection without a word, and what is made of it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker
from connector_tests.support.tcp_server import Serve
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting import transport_probe
from rocketmq_spark.remoting.secured import connect_with
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.remoting.transport_probe import PROBE_FRAME, AcceptedTransports, accepts_http2, probe_transports
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.remoting.codes import RequestCode

CERTIFICATE = Path(__file__).parent.parent / "support" / "tls" / "localhost.crt"
TRUSTING = Tls(trust_cert_path=str(CERTIFICATE))
TIMEOUT_MS = int(5_000 * TIMEOUT_FACTOR)
FIRST_OF_TLS = b"\x16"


def only_tls(accepted: socket.socket) -> None:
    """As RocketMQ with ``tls.server.mode`` enforcing."""
    if accepted.recv(1, socket.MSG_PEEK) == FIRST_OF_TLS:
        use_tls(accepted)
    else:
        accepted.recv(1 << 16)


def only_plain(accepted: socket.socket) -> None:
    """As RocketMQ with ``tls.server.mode`` disabled."""
    if accepted.recv(1, socket.MSG_PEEK) == FIRST_OF_TLS:
        accepted.recv(1 << 16)
    else:
        echo(accepted)


def both(accepted: socket.socket) -> None:
    (use_tls if accepted.recv(1, socket.MSG_PEEK) == FIRST_OF_TLS else echo)(accepted)


def nothing(accepted: socket.socket) -> None:
    """As a balancer whose servers are all away."""
    accepted.recv(1 << 16)


def only_http2(accepted: socket.socket) -> None:
    """As a proxy at its gRPC port: what it takes comes first, and then what it is told it does not take."""
    accepted.sendall(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + b"\x00\x04\x00\x10\x00\x00")
    accepted.recv(1 << 16)


def only_words(accepted: socket.socket) -> None:
    """Something else than RocketMQ."""
    accepted.recv(1 << 16)
    accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def use_tls(accepted: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
    with context.wrap_socket(accepted, server_side=True) as secured:
        while data := secured.recv(1 << 16):
            secured.sendall(data)


def echo(accepted: socket.socket) -> None:
    while data := accepted.recv(1 << 16):
        accepted.sendall(data)


@pytest.fixture(autouse=True)
def patient_probe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in a thread of a busy machine may respond after a second; not one that never does."""
    if "busy" not in request.node.name:
        monkeypatch.setattr(transport_probe, "PROBE_TIMEOUT_MS", TIMEOUT_MS)


@pytest.mark.parametrize(
    ("server", "entry_points"),
    [
        (only_tls, AcceptedTransports(plain=False, tls=True)),
        (only_plain, AcceptedTransports(plain=True, tls=False)),
        (both, AcceptedTransports(plain=True, tls=True)),
        (nothing, AcceptedTransports(plain=False, tls=False)),
    ],
)
def test_a_server_is_called_at_both_ports(
    serve: Callable[[Serve], str], server: Serve, entry_points: AcceptedTransports
) -> None:
    assert probe_transports(serve(server)) == entry_points


def test_a_server_that_is_not_there_has_no_open_ports() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert probe_transports(f"127.0.0.1:{closed.getsockname()[1]}") == AcceptedTransports(plain=False, tls=False)


def test_a_knock_is_a_request_that_a_broker_responds_to() -> None:
    with ScriptedBroker() as broker, closing(connect_tcp(broker.listen(), TIMEOUT_MS)) as stream:
        stream.sendall(PROBE_FRAME, TIMEOUT_MS)
        assert broker.next_session().next_received().code == RequestCode.GET_BROKER_CLUSTER_INFO
        assert stream.recv(1, TIMEOUT_MS)
        stream.shutdown()


@pytest.mark.parametrize("is_into", [False, True])
def test_a_plain_connection_that_ends_without_a_response_reports_that_tls_is_required(
    serve: Callable[[Serve], str], is_into: bool
) -> None:
    address = serve(only_tls)
    with closing(connect_with(None)(address, TIMEOUT_MS)) as stream:
        stream.sendall(PROBE_FRAME, TIMEOUT_MS)
        with pytest.raises(TransportError) as raised:
            _ = stream.recv_into(memoryview(bytearray(9)), TIMEOUT_MS) if is_into else stream.recv(9, TIMEOUT_MS)
    assert str(raised.value) == (
        f"[ROCKETMQ_TLS_REQUIRED] {address} requires TLS: it closed a plain connection without a response, and "
        "accepts TLS. Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its certificate."
    )


@pytest.mark.parametrize("is_into", [False, True])
def test_a_plain_connection_to_an_http2_server_reports_that_grpc_is_required(
    serve: Callable[[Serve], str], is_into: bool
) -> None:
    address = serve(only_http2)
    room = memoryview(bytearray(99))
    with closing(connect_with(None)(address, TIMEOUT_MS)) as stream, pytest.raises(TransportError) as raised:
        _ = stream.recv_into(room, TIMEOUT_MS) if is_into else stream.recv(99, TIMEOUT_MS)
    assert str(raised.value) == (
        f"[ROCKETMQ_PROXY_REQUIRES_ENDPOINTS] {address} is a RocketMQ 5 proxy, not a name server or broker: it "
        "uses HTTP/2. For loadBalance=message, set 'endpoints' to the proxy's gRPC address (port 8081 by "
        "default) and remove 'namesrvAddr'. For loadBalance=queue, set 'namesrvAddr' to its remoting address "
        "(port 8080 by default)."
    )


@pytest.mark.parametrize("server", [only_http2, echo, only_words, nothing])
def test_only_a_server_that_responds_in_http2_uses_it(serve: Callable[[Serve], str], server: Serve) -> None:
    assert accepts_http2(serve(server)) is (server is only_http2)


def no_response(accepted: socket.socket) -> None:
    """Until the client ends the connection."""
    while accepted.recv(1 << 16):
        pass


def test_a_busy_server_shows_nothing(serve: Callable[[Serve], str]) -> None:
    """A proxy that took longer than 1 s to respond was reported as a server of another protocol, and a server that
    accepts TLS too as one that requires it: such a query failed at once."""
    address = serve(no_response)
    assert accepts_http2(address) is None
    assert probe_transports(address) == AcceptedTransports(plain=None, tls=None)


@pytest.mark.parametrize("server", [nothing, both])
def test_an_end_that_may_pass_is_an_end(serve: Callable[[Serve], str], server: Serve) -> None:
    """Of a server that is being stopped, whatever stands before it: it is connected to again."""
    endings = [nothing]

    def first_nothing(accepted: socket.socket) -> None:
        (endings.pop() if endings else server)(accepted)

    with closing(connect_with(None)(serve(first_nothing), TIMEOUT_MS)) as stream:
        stream.sendall(PROBE_FRAME, TIMEOUT_MS)
        assert stream.recv(9, TIMEOUT_MS) == b""


def test_a_server_that_has_responded_once_is_called_at_no_port(serve: Callable[[Serve], str]) -> None:
    """It has shown that it takes plain connections."""
    accepted_count = []

    def respond_once(accepted: socket.socket) -> None:
        accepted_count.append(1)
        if len(accepted_count) == 1:
            accepted.sendall(accepted.recv(1 << 16)[:1])
        else:
            only_tls(accepted)

    with closing(connect_with(None)(serve(respond_once), TIMEOUT_MS)) as stream:
        stream.sendall(b"ab", TIMEOUT_MS)
        assert [stream.recv(9, TIMEOUT_MS), stream.recv(9, TIMEOUT_MS)] == [b"a", b""]
    assert len(accepted_count) == 1


@pytest.mark.parametrize("is_ours", [False, True])
def test_an_end_that_we_made_or_did_not_request_sends_us_to_no_port(
    serve: Callable[[Serve], str], is_ours: bool
) -> None:
    accepted_count = threading.Semaphore(0)

    def hold(accepted: socket.socket) -> None:
        accepted_count.release()
        if is_ours:
            accepted.recv(1 << 16)
            accepted.recv(1 << 16)

    with closing(connect_with(None)(serve(hold), TIMEOUT_MS)) as stream:
        assert accepted_count.acquire(timeout=TIMEOUT_MS)
        if is_ours:
            stream.sendall(PROBE_FRAME, TIMEOUT_MS)
            stream.shutdown()
        assert stream.recv(9, TIMEOUT_MS) == b""
    assert not accepted_count.acquire(blocking=False)


def test_a_handshake_that_ends_with_a_plain_response_reports_that_tls_is_missing(
    serve: Callable[[Serve], str],
) -> None:
    address = serve(only_plain)
    with pytest.raises(TransportError) as raised:
        connect_with(TRUSTING)(address, TIMEOUT_MS)
    assert raised.value.condition == "TLS_NOT_SUPPORTED"
    assert str(raised.value).startswith(
        f"[ROCKETMQ_TLS_NOT_SUPPORTED] {address} does not support TLS: it responds to plain requests. The "
        "handshake failed: "
    )
    assert str(raised.value).endswith(
        "Set 'useTLS' to false, or set the server's 'tls.server.mode' to permissive or enforcing."
    )


def test_a_handshake_with_something_else_reports_it(serve: Callable[[Serve], str]) -> None:
    with pytest.raises(TransportError, match=r"TLS_NOT_SUPPORTED.*WRONG_VERSION_NUMBER|record layer"):
        connect_with(TRUSTING)(serve(only_words), TIMEOUT_MS)


def test_a_handshake_that_may_succeed_later_is_tried_again(serve: Callable[[Serve], str]) -> None:
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        connect_with(TRUSTING)(serve(nothing), TIMEOUT_MS)


def test_a_server_that_has_tls_is_connected(serve: Callable[[Serve], str]) -> None:
    with closing(connect_with(TRUSTING)(serve(only_tls), TIMEOUT_MS)) as stream:
        stream.sendall(b"hello", TIMEOUT_MS)
        assert stream.recv(9, TIMEOUT_MS) == b"hello"
        stream.shutdown()
