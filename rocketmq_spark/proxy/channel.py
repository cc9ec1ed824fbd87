"""gRPC channels to one address, and TLS credentials in gRPC's form: the bytes of the files, and the expected server
name if host names are not verified.

gRPC cannot switch off verification of certificates or host names. If an option does, the server's certificate or name
is fetched before the channel is opened, and then expected."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from rocketmq_spark.model import split_address
from rocketmq_spark.remoting.secured import tls_context
from rocketmq_spark.remoting.stream import raising_connect_failed
from rocketmq_spark.remoting.tls import raising_tls_errors
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.bounds import RESPONSE_BYTES

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
"""Without this gRPC writes its own lines to standard error before this module raises the failure."""

import grpc  # noqa: E402  # reads the variable when it is imported
from grpc.experimental import ChannelOptions  # noqa: E402  # likewise

OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    (ChannelOptions.SingleThreadedUnaryStream, 1),  # halves the cost of receiving a message
    ("grpc.enable_http_proxy", 0),  # as with all other connections of the connector
    ("grpc.enable_retries", 0),  # a change of the invisible duration must not be repeated
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
    ("grpc.max_receive_message_length", RESPONSE_BYTES.maximum),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none: older libraries check the length after decompression
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


def open_channel(address: str, tls: Tls | None, timeout_ms: int) -> grpc.Channel:
    """Return a channel that connects at the first call, within ``timeout_ms`` for each attempt. ``tls`` None:
    plaintext. With TLS, read certificate files now, and connect now if ``fetch_tls_credentials`` must. Raises what
    ``fetch_tls_credentials`` raises."""
    options = (*OPTIONS, ("grpc.min_reconnect_backoff_ms", timeout_ms))
    # Without a scheme, a host named unix, dns or xds would be one; ? and # would end the target, and so drop the port.
    target = "dns:///" + quote(address, safe=":[]")
    if tls is None:
        return grpc.insecure_channel(target, options)
    material = fetch_tls_credentials(address, tls, timeout_ms)
    credentials = grpc.ssl_channel_credentials(material.roots, material.key, material.chain)
    name = () if material.name is None else (("grpc.ssl_target_name_override", material.name),)
    return grpc.secure_channel(target, credentials, (*options, *name))


PeerCertificate = dict[str, Any]
"""A certificate as ``SSLSocket.getpeercert`` returns it."""

_ANY_HOST: Final = "any-host"


class TlsCredentials(NamedTuple):
    """TLS credentials of a channel. ``roots``: trusted certificates in PEM; None: those that gRPC includes. ``key``,
    ``chain``: the client's, in PEM. ``name``: the expected server name; None: the host of the address."""

    roots: bytes | None
    key: bytes | None
    chain: bytes | None
    name: str | None


def fetch_tls_credentials(address: str, tls: Tls, timeout_ms: int) -> TlsCredentials:
    """Read the files of ``tls`` and return the credentials for the server at ``address``. If ``tls`` does not verify
    certificates, connect twice, to fetch the server's certificate and a name in it. Only this certificate is then
    trusted, and the name expected. If ``tls`` only does not verify host names, connect once, to fetch the name.

    Raises OptionError[TLS_FILE_UNUSABLE]; if it connects, also TransportError[CONNECT_FAILED |
    TLS_CERTIFICATE_UNTRUSTED].
    """
    context = tls_context(tls)
    key, chain = _read(tls.key_path or tls.cert_path), _read(tls.cert_path)
    if not tls.auth_server:
        roots = _fetch_certificate(address, context, timeout_ms)
        return TlsCredentials(roots.encode(), key, chain, _fetch_name(address, _context_trusting(roots), timeout_ms))
    name = None if tls.check_host_name else _fetch_name(address, context, timeout_ms)
    return TlsCredentials(_read(tls.trust_cert_path) or _system_roots(context), key, chain, name)


def _read(path: str | None) -> bytes | None:
    """Return the content of a file that ``tls_context`` has loaded before, or None without a path."""
    return None if path is None else Path(path).read_bytes()


def _system_roots(context: ssl.SSLContext) -> bytes | None:
    """Return the trusted certificates that ``context`` has loaded, in PEM. Return None if it has loaded none, as where
    OpenSSL reads the system's one by one when required."""
    found = "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True)))
    return found.encode() or None


def _context_trusting(certificate: str) -> ssl.SSLContext:
    """Return a TLS context that trusts only ``certificate`` (PEM), for any host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context


def _fetch_certificate(address: str, context: ssl.SSLContext, timeout_ms: int) -> str:
    """Connect with TLS, and return the server's certificate in PEM. Raises what ``_connect_tls`` does."""
    with _connect_tls(address, context, timeout_ms) as session:
        return ssl.DER_cert_to_PEM_cert(session.getpeercert(binary_form=True) or b"")


def _fetch_name(address: str, context: ssl.SSLContext, timeout_ms: int) -> str:
    """Connect with TLS, and return ``name_in`` of the server's certificate. Raises what ``_connect_tls`` does."""
    with _connect_tls(address, context, timeout_ms) as session:
        return name_in(session.getpeercert() or {})


@contextmanager
def _connect_tls(address: str, context: ssl.SSLContext, timeout_ms: int) -> Iterator[ssl.SSLSocket]:
    """Connect with TLS, yield the session, and close it. ``timeout_ms`` limits each step. Raises
    TransportError[CONNECT_FAILED] and the errors of ``raising_tls_errors``."""
    with raising_connect_failed(address), raising_tls_errors(address):
        host, port = split_address(address)
        with (
            socket.create_connection((host, port), timeout_ms / 1000) as raw,
            context.wrap_socket(raw, server_hostname=host) as session,
        ):
            yield session


def name_in(certificate: PeerCertificate) -> str:
    """Return a host name for which the certificate is valid: the first subject alternative name, or without one the
    common name. ``any-host`` replaces ``*`` in it, and a missing name."""
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind in {"DNS", "IP Address"}]
    names += [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    return str(names[0]).replace("*", _ANY_HOST) if names else _ANY_HOST
