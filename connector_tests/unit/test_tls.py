"""TlsStream against the standard library's own TLS server, over the loopback interface."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from connector_tests.support.tcp_server import Serve
from connector_tests.support.timeouts import PATIENT_MS, WAIT_S
from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.memory import memory_pair
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.remoting.tls import tls_over

CERTIFICATE = Path(__file__).parent.parent / "support" / "tls" / "localhost.crt"
KEY = CERTIFICATE.with_suffix(".key")


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))


def secure(accepted: socket.socket) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context.wrap_socket(accepted, server_side=True)


def echo_tls(accepted: socket.socket) -> None:
    with secure(accepted) as secured:
        while data := secured.recv(1 << 20):
            secured.sendall(data)


def greet_and_leave(accepted: socket.socket) -> None:
    with secure(accepted) as secured:
        secured.sendall(b"hello")


def greet_and_take_leave(accepted: socket.socket) -> None:
    with secure(accepted) as secured:
        secured.sendall(b"hello")
        secured.unwrap()


def test_bytes_go_both_ways_while_another_thread_sends(serve: Callable[[Serve], str]) -> None:
    stream = connect_tcp(serve(echo_tls), PATIENT_MS, trusting())
    data = bytes(range(256)) * (16 << 10)
    sender = threading.Thread(target=stream.sendall, args=(data, 30_000))
    sender.start()
    received = bytearray()
    while len(received) < len(data):
        received += stream.recv(1 << 20, PATIENT_MS) or pytest.fail("nothing came back")
    sender.join()
    assert received == data
    stream.shutdown()
    stream.close()


def test_plain_bytes_are_received_into_the_memory_that_is_given(serve: Callable[[Serve], str]) -> None:
    stream = connect_tcp(serve(echo_tls), PATIENT_MS, trusting())
    room = memoryview(bytearray(b"......"))
    assert stream.recv_into(room, 1) is None
    stream.sendall(b"abcd", PATIENT_MS)
    assert [stream.recv_into(room[2:], PATIENT_MS), bytes(room)] == [4, b"..abcd"]
    stream.shutdown()
    stream.close()


def test_nothing_is_received_into_memory_once_the_remote_end_has_closed(serve: Callable[[Serve], str]) -> None:
    stream = connect_tcp(serve(greet_and_take_leave), PATIENT_MS, trusting())
    room = memoryview(bytearray(8))
    assert [stream.recv_into(room, PATIENT_MS), stream.recv_into(room, PATIENT_MS)] == [5, 0]
    stream.shutdown()
    stream.close()


def test_nothing_in_time_is_none_and_shutdown_wakes_a_receiver(serve: Callable[[Serve], str]) -> None:
    stream = connect_tcp(serve(echo_tls), PATIENT_MS, trusting())
    assert stream.recv(99, 1) is None
    ended = threading.Event()

    def receive() -> None:
        with suppress(TransportError):  # the server may have sent its goodbye to the closed end first
            assert stream.recv(1, 60_000) == b""
        ended.set()

    receiver = threading.Thread(target=receive)
    receiver.start()
    stream.shutdown()
    assert ended.wait(WAIT_S)
    receiver.join()
    stream.close()


@pytest.mark.parametrize("server", [greet_and_leave, greet_and_take_leave])
def test_a_server_that_closes_ends_the_stream(serve: Callable[[Serve], str], server: Serve) -> None:
    stream = connect_tcp(serve(server), PATIENT_MS, trusting())
    received = b""
    while data := stream.recv(99, PATIENT_MS):
        received += data
    assert (received, data) == (b"hello", b"")
    stream.close()


def test_an_untrusted_certificate_is_refused(serve: Callable[[Serve], str]) -> None:
    address = serve(echo_tls)
    with pytest.raises(
        TransportError, match=rf"TLS_CERTIFICATE_UNTRUSTED.*{address} is not trusted: self-signed certificate\."
    ):
        connect_tcp(address, PATIENT_MS, ssl.create_default_context())


def test_a_server_that_has_no_tls_is_a_failed_connect(serve: Callable[[Serve], str]) -> None:
    address = serve(lambda accepted: accepted.sendall(b"hello, who is there?"))
    with pytest.raises(TransportError, match=rf"CONNECT_FAILED.*{address}"):
        connect_tcp(address, PATIENT_MS, trusting())


def test_a_server_that_never_responds_to_the_handshake_is_a_failed_connect_in_time(
    serve: Callable[[Serve], str],
) -> None:
    done = threading.Event()
    address = serve(lambda _accepted: (done.wait(), None)[1])
    try:
        with pytest.raises(TransportError, match=rf"CONNECT_FAILED.*{address}.*handshake within 50 ms"):
            connect_tcp(address, 50, trusting())
    finally:
        done.set()


def test_host_that_no_certificate_can_have_is_a_failed_connection() -> None:
    ours, theirs = memory_pair("h:1")
    with pytest.raises(TransportError, match=r"CONNECT_FAILED.*h:1.*server_hostname"):
        tls_over(ours, "h:1", trusting(), "", 1000)
    assert theirs.recv(1, PATIENT_MS) == b""
