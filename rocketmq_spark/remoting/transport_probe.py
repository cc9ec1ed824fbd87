"""Probes of the transports that a server accepts: plaintext, TLS, or HTTP/2 (gRPC). Used after a server closed a
connection.

A RocketMQ server that requires TLS, or rejects it, closes the connection without a response. So does a server that is
stopping, or an intermediary whose server is unavailable. Only a probe of both transports shows the reason.
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
_SETTINGS: Final = b"\x04\x00\x00\x00\x00\x00"
_SETTINGS_AT: Final = 3
"""Position of a frame's type, flags and stream, after its length: an HTTP/2 server starts with a SETTINGS frame. In
RocketMQ's protocol these bytes would mean a frame without a header, which does not exist."""


class AcceptedTransports(NamedTuple):
    """Whether a server accepts plaintext, and whether it accepts TLS."""

    plain: bool
    tls: bool


def probe_transports(address: str) -> AcceptedTransports:
    """Probe plaintext and TLS; never raises. Opens two connections, each step of which takes at most 1 s."""
    return AcceptedTransports(_accepts_plaintext(address), _accepts_tls(address))


def _accepts_plaintext(address: str) -> bool:
    """Return whether the server responds to a plaintext request; waits up to 1 s each for connecting, sending and
    receiving."""
    try:
        with closing(connect_tcp(address, PROBE_TIMEOUT_MS)) as stream:
            stream.sendall(PROBE_FRAME, PROBE_TIMEOUT_MS)
            return bool(stream.recv(1, PROBE_TIMEOUT_MS))
    except RocketMQError:
        return False


def _accepts_tls(address: str) -> bool:
    """Return whether a TLS handshake succeeds. No data is sent, and the server's certificate is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connect_tcp(address, PROBE_TIMEOUT_MS, context).close()
    except RocketMQError:
        return False
    return True


def accepts_http2(address: str) -> bool:
    """Return whether the server accepts plaintext HTTP/2, as gRPC uses it; never raises. Opens one connection."""
    try:
        with closing(connect_tcp(address, PROBE_TIMEOUT_MS)) as stream:
            stream.sendall(_PREFACE, PROBE_TIMEOUT_MS)
            frame = stream.recv(len(_PREFACE), PROBE_TIMEOUT_MS) or b""
    except RocketMQError:
        return False
    return is_http2(frame)


def is_http2(first: Buffer) -> bool:
    """Return whether ``first``, the first bytes from a server, are HTTP/2."""
    return bytes(first[_SETTINGS_AT : _SETTINGS_AT + len(_SETTINGS)]) == _SETTINGS
