"""Opening of connections: plaintext, or with TLS according to the options.

Certificate files are read for each connection, in the process that opens it: replaced certificates take effect with the
next connection.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from rocketmq_spark.errors import OptionError, TransportError
from rocketmq_spark.remoting.error_kinds import is_disconnected
from rocketmq_spark.remoting.stream import Buffer, Stream, reason_of
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.remoting.transport_probe import AcceptedTransports, is_http2, probe_transports
from rocketmq_spark.security import Tls

A = TypeVar("A")
R = TypeVar("R")

Connect = Callable[[str, int], Stream]
"""Function of (address, timeout_ms) that returns a connected stream; raises TransportError[CONNECT_FAILED], over TLS
[TLS_NOT_SUPPORTED | TLS_CERTIFICATE_UNTRUSTED | TLS_HOSTNAME_MISMATCH | TLS_CLIENT_CERTIFICATE_REJECTED] or
OptionError[TLS_FILE_UNUSABLE]."""

HANDSHAKE_DROPPED: Final = (ssl.SSLError, ConnectionResetError, BrokenPipeError)
"""Errors of a TLS handshake with a server that does not support TLS."""


def connect_with(tls: Tls | None) -> Connect:
    """Return a function that opens connections with ``tls``, or in plaintext for None."""
    return _connect_plain if tls is None else partial(_connect_tls, tls)


def _connect_plain(address: str, timeout_ms: int) -> Stream:
    """Connect without TLS. Raises TransportError[CONNECT_FAILED]."""
    return PlainStream(connect_tcp(address, timeout_ms), address)


def _connect_tls(tls: Tls, address: str, timeout_ms: int) -> Stream:
    """Connect with TLS as ``connect_tcp`` does; reads the certificate files of ``tls``. If the server drops the
    handshake, probe it on new connections, and raise TransportError[TLS_NOT_SUPPORTED] if it accepts only plaintext,
    else the error of the handshake. Raises also the other errors that the type ``Connect`` lists."""
    try:
        return connect_tcp(address, timeout_ms, tls_context(tls))
    except TransportError as error:
        is_dropped = is_disconnected(error) and isinstance(error.__cause__, HANDSHAKE_DROPPED)
        if is_dropped and probe_transports(address) == AcceptedTransports(plain=True, tls=False):
            reason = str(error.context["reason"])
            raise TransportError("TLS_NOT_SUPPORTED", address=address, reason=reason) from error
        raise


# ---------------------------------------------------------------------------------------------------------- plain


class PlainStream:
    """Plaintext stream over ``raw``. Receiving raises TransportError[TLS_REQUIRED] if a server that requires TLS ends
    it without a response, and TransportError[PROXY_REQUIRES_ENDPOINTS] if the server uses HTTP/2. Threads: as for any
    ``Stream``.
    """

    def __init__(self, raw: Stream, address: str) -> None:
        self.address = address
        self._raw = raw
        self._has_sent = self._is_verified = False
        """``_has_sent``: data was sent. ``_is_verified``: data was received, or this side ended the stream."""

    def recv(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Receive as ``Stream.recv`` does. Raises also TransportError[TLS_REQUIRED] if the stream ends before any
        response because the server accepts only TLS, which is probed, and TransportError[PROXY_REQUIRES_ENDPOINTS] for
        HTTP/2."""
        received = self._received(self._raw.recv, max_bytes, timeout_ms)
        if received and not self._is_verified:
            self._verify(received)
        return received

    def recv_into(self, buffer: memoryview, timeout_ms: int) -> int | None:
        """Receive as ``Stream.recv_into`` does. Raises also what ``PlainStream.recv`` raises."""
        received = self._received(self._raw.recv_into, buffer, timeout_ms)
        if received and not self._is_verified:
            self._verify(buffer[:received])
        return received

    def _received(self, receive: Callable[[A, int], R | None], argument: A, timeout_ms: int) -> R | None:
        """Call ``receive`` and return its result; None is a timeout. If the server closes the connection before its
        first response, after data was sent, probe whether it accepts only TLS. Raises TransportError[TLS_REQUIRED] if
        so. Otherwise return the empty result, or raise the error of ``receive``."""
        try:
            received = receive(argument, timeout_ms)
        except TransportError as error:
            self._check_tls_required(error)
            raise
        if received is not None and not received:
            self._check_tls_required(None)
        return received

    def _verify(self, first: Buffer) -> None:
        """Record that data was received, and check the first bytes. Raises TransportError[PROXY_REQUIRES_ENDPOINTS] if
        they are HTTP/2."""
        self._is_verified = True
        if is_http2(first):
            raise TransportError("PROXY_REQUIRES_ENDPOINTS", address=self.address, reason="it uses HTTP/2")

    def _check_tls_required(self, cause: TransportError | None) -> None:
        """Probe the server, over new connections, if data was sent and none was received before the connection ended,
        unless this side ended it. Raises TransportError[TLS_REQUIRED] if it accepts only TLS, else return."""
        is_dropped = self._has_sent and not self._is_verified
        if is_dropped and probe_transports(self.address) == AcceptedTransports(plain=False, tls=True):
            raise TransportError("TLS_REQUIRED", address=self.address) from cause

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        """Send as ``Stream.sendall`` does. An end before any response may then mean that the server requires TLS."""
        self._has_sent = True
        self._raw.sendall(data, timeout_ms)

    def shutdown(self) -> None:
        """Shut down the stream. An end of the stream from now on does not suggest that the server requires TLS."""
        self._is_verified = True
        self._raw.shutdown()

    def close(self) -> None:
        """Close the raw stream, see ``Stream.close``."""
        self._raw.close()


# ------------------------------------------------------------------------------------------------------------ TLS


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return a client's TLS context for the options; reads their files now. It verifies the server's certificate if
    ``auth_server`` is set, and the host name only with ``check_host_name`` as well. Raises
    OptionError[TLS_FILE_UNUSABLE]."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.auth_server and tls.check_host_name
    context.verify_mode = ssl.CERT_REQUIRED if tls.auth_server else ssl.CERT_NONE
    _load("tlsTrustCertPath", tls.trust_cert_path, partial(_load_trusted, context, tls))
    _load("tlsCertPath", tls.cert_path, partial(_load_client_certificate, context, tls))
    return context


def _load_trusted(context: ssl.SSLContext, tls: Tls) -> None:
    """Load the certificates at ``tls.trust_cert_path`` into ``context``; without a path the system's, or none if
    ``tls`` does not authenticate servers. Raises OSError for an unusable file."""
    if tls.trust_cert_path is not None:
        context.load_verify_locations(tls.trust_cert_path)
    elif tls.auth_server:
        context.load_default_certs()


def _load_client_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Load the certificate and key of ``tls`` into ``context``, if it has them. Raises OSError or ValueError for
    unusable files or a wrong password."""
    if tls.cert_path is not None:
        # Without a password OpenSSL would prompt for that of an encrypted key at the terminal.
        password = "" if tls.key_password is None else tls.key_password.reveal()
        context.load_cert_chain(tls.cert_path, tls.key_path, password)


def _load(option: str, path: str | None, load: Callable[[], None]) -> None:
    """Call ``load``. Raises OptionError[TLS_FILE_UNUSABLE], which names ``option`` and ``path``, for its OSError or
    ValueError."""
    try:
        load()
    except (OSError, ValueError) as error:
        problem = reason_of(error)
        raise OptionError(
            "TLS_FILE_UNUSABLE", option=option, path=str(path), host=socket.gethostname(), problem=problem
        ) from None
