"""Probes of the transports that a server accepts: plaintext, TLS, or HTTP/2 (gRPC). Used after a server closed a
connection.

A RocketMQ server that requires TLS, or rejects it, closes the connection without a response. So does a server that is
stopping, or an intermediary whose server is unavailable. Only a probe of both transports shows the reason. A busy
server does not respond in time, which shows nothing.
"""

from __future__ import annotations

import ssl
from contextlib import closing
from typing import Final, NamedTuple

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.stream import Buffer
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

PROBE_TIMEOUT_MS: Final = 1_000
PROBE_FRAME: Final = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO).frame(1)
"""A request that name servers fulfil and brokers refuse; both send a response."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_RECEIVED_BYTES: Final = len(_PREFACE)

_SETTINGS: Final = b"\x04\x00\x00\x00\x00\x00"
_SETTINGS_AT: Final = 3
"""Position of a frame's type, flags and stream, after its length: an HTTP/2 server starts with a SETTINGS frame. In
RocketMQ's protocol these bytes would mean a frame without a header, which does not exist."""


class AcceptedTransports(NamedTuple):
    """Whether a server accepts plaintext, and whether it accepts TLS. None if it did not respond in time."""

    plain: bool | None
    tls: bool | None


def probe_transports(address: str) -> AcceptedTransports:
    """Probe plaintext and TLS; never raises. Opens two connections, each step of which takes at most 1 s."""
    return AcceptedTransports(_accepts_plaintext(address), _accepts_tls(address))


def _accepts_plaintext(address: str) -> bool | None:
    """Return whether the server responds to a plaintext request, or None if not in time. False if it closes or rejects
    the connection. Waits up to 1 s each for connecting, sending and receiving."""
    first = _first_response(address, PROBE_FRAME)
    return None if first is None else bool(first)


def _first_response(address: str, request: bytes) -> bytes | None:
    """Send ``request`` over a new plaintext connection, and return the first received bytes. Return ``b""`` if the
    server closed or refused the connection, None if connecting or the response took longer than 1 s. Raises no
    RocketMQError."""
    try:
        with closing(connect_tcp(address, PROBE_TIMEOUT_MS)) as stream:
            stream.sendall(request, PROBE_TIMEOUT_MS)
            return stream.recv(_RECEIVED_BYTES, PROBE_TIMEOUT_MS)
    except RocketMQError as error:
        return None if _is_timeout(error) else b""


def _is_timeout(error: RocketMQError) -> bool:
    """Return whether ``error`` was caused by a timeout of connecting or of the TLS handshake."""
    return isinstance(error.__cause__, TimeoutError)


def _accepts_tls(address: str) -> bool | None:
    """Return whether a TLS handshake succeeds, or None if the server does not respond within 1 s. False if it cannot be
    connected. No data is sent, and the server's certificate is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connect_tcp(address, PROBE_TIMEOUT_MS, context).close()
    except RocketMQError as error:
        return None if _is_timeout(error) else False
    return True


def accepts_http2(address: str) -> bool | None:
    """Return whether the server accepts plaintext HTTP/2, as gRPC uses it, or None if it did not respond in time. False
    if it refuses or closes the connection. Never raises. Opens one connection."""
    first = _first_response(address, _PREFACE)
    return None if first is None else is_http2(first)


def is_http2(first: Buffer) -> bool:
    """Return whether the ``first`` bytes from a server are HTTP/2; False for fewer than 9 bytes."""
    return bytes(first[_SETTINGS_AT : _SETTINGS_AT + len(_SETTINGS)]) == _SETTINGS
