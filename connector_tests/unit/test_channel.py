"""Channels: what the library would do by itself, and TLS as it takes it, from our options."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from connector_tests.support.scripted_proxy import CERTIFICATE
from connector_tests.support.tcp_server import Serve
from connector_tests.support.timeouts import PROCESS_S, TIMEOUT_FACTOR, WAIT_S
from rocketmq_spark.errors import TransportError
from rocketmq_spark.proxy.channel import PeerCertificate, TlsCredentials, fetch_tls_credentials, name_in, open_channel
from rocketmq_spark.security import Tls

FAIL = """
import ssl
from rocketmq_spark.proxy.channel import open_channel
from rocketmq_spark.security import Tls
import socket, threading

listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: listening.accept()[0].sendall(b"no TLS at all"), daemon=True).start()
channel = open_channel(f"127.0.0.1:{listening.getsockname()[1]}", Tls(), 2_000)
try:
    channel.unary_unary("/a/b")(b"", timeout=2)
except Exception as error:
    print(type(error).__name__)
channel.close()
"""


def test_nothing_is_written_to_standard_error_but_by_us() -> None:
    done = subprocess.run([sys.executable, "-c", FAIL], capture_output=True, text=True, check=True, timeout=PROCESS_S)
    assert (done.stdout.strip(), done.stderr) == ("_InactiveRpcError", "")


def test_host_is_no_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's route may have any host; gRPC knows unix, dns, xds and others."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("1")
        listening.listen()
        listening.setblocking(False)
        channel = open_channel("unix:1", None, TIMEOUT_MS)
        call: Any = channel.unary_unary("/a/b")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=WAIT_S)
        channel.close()
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.parametrize("host", ["127.0.0.1?", "127.0.0.1#", "127.0.0.1%3F"])
def test_a_port_follows_any_host(host: str) -> None:
    """With part of the address cut off, the channel connected to port 443 of 127.0.0.1."""
    channel = open_channel(f"{host}:1", None, TIMEOUT_MS)
    call: Any = channel.unary_unary("/a/b")
    with pytest.raises(grpc.RpcError, match=re.escape(f"{host}:1")):
        call(b"", timeout=WAIT_S)
    channel.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::1%lo]"])
def test_hosts_are_names_and_addresses(host: str) -> None:
    """Nothing listens on their port 1."""
    channel = open_channel(f"{host}:1", None, TIMEOUT_MS)
    call: Any = channel.unary_unary("/a/b")
    with pytest.raises(grpc.RpcError, match="failed to connect"):
        call(b"", timeout=WAIT_S)
    channel.close()


KEY = CERTIFICATE.with_suffix(".key")
NO_SERVER = "127.0.0.1:1"
TIMEOUT_MS = int(5_000 * TIMEOUT_FACTOR)


def shake_hands(accepted: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    with context.wrap_socket(accepted, server_side=True) as secured:
        secured.recv(1)


def test_files_are_passed_and_no_server_is_called() -> None:
    mine = Tls(str(CERTIFICATE), str(CERTIFICATE), str(KEY))
    certificate = CERTIFICATE.read_bytes()
    assert fetch_tls_credentials(NO_SERVER, mine, TIMEOUT_MS) == TlsCredentials(
        certificate, KEY.read_bytes(), certificate, None
    )


def test_a_certificate_and_its_key_may_be_in_one_file(tmp_path: Path) -> None:
    both = CERTIFICATE.read_bytes() + KEY.read_bytes()
    file = tmp_path / "both.pem"
    file.write_bytes(both)
    found = fetch_tls_credentials(NO_SERVER, Tls(str(CERTIFICATE), str(file)), TIMEOUT_MS)
    assert (found.key, found.chain) == (both, both)


def test_what_the_system_trusts_is_trusted_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    roots = fetch_tls_credentials(NO_SERVER, Tls(), TIMEOUT_MS).roots
    assert roots is not None
    assert ssl.PEM_cert_to_DER_cert(CERTIFICATE.read_text()) in map(ssl.PEM_cert_to_DER_cert, certificates(roots))


def certificates(roots: bytes) -> list[str]:
    end = "-----END CERTIFICATE-----\n"
    return [part + end for part in roots.decode().split(end) if part.strip()]


def test_a_server_whose_host_name_is_not_checked_is_known_by_the_name_that_it_has(
    serve: Callable[[Serve], str],
) -> None:
    found = fetch_tls_credentials(serve(shake_hands), Tls(str(CERTIFICATE), check_host_name=False), TIMEOUT_MS)
    assert (found.roots, found.name) == (CERTIFICATE.read_bytes(), "localhost")


def test_a_server_without_credentials_is_trusted(serve: Callable[[Serve], str]) -> None:
    found = fetch_tls_credentials(serve(shake_hands), Tls(auth_server=False), TIMEOUT_MS)
    assert found.name == "localhost"
    assert found.roots is not None
    assert ssl.PEM_cert_to_DER_cert(found.roots.decode()) == ssl.PEM_cert_to_DER_cert(CERTIFICATE.read_text())


def test_a_certificate_of_another_authority_is_refused(serve: Callable[[Serve], str]) -> None:
    with pytest.raises(TransportError, match="TLS_CERTIFICATE_UNTRUSTED"):
        fetch_tls_credentials(serve(shake_hands), Tls(check_host_name=False), TIMEOUT_MS)


def test_a_server_that_is_unavailable_cannot_be_probed() -> None:
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        fetch_tls_credentials(NO_SERVER, Tls(auth_server=False), TIMEOUT_MS)


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        ({"subjectAltName": (("DNS", "a.example"), ("DNS", "b.example"))}, "a.example"),
        ({"subjectAltName": (("DNS", "*.example"),)}, "any-host.example"),
        ({"subjectAltName": (("email", "a@b"), ("IP Address", "10.0.0.1"))}, "10.0.0.1"),
        ({"subject": ((("organizationName", "x"),), (("commonName", "old.example"),))}, "old.example"),
        ({}, "any-host"),
    ],
)
def test_a_certificate_has_a_name_somewhere(certificate: PeerCertificate, name: str) -> None:
    assert name_in(certificate) == name
