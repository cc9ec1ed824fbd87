"""Doors: whether a server takes plain connections, and whether it takes TLS, or is no door of ours but one for gRPC.
Asked when it has shut one on us.

A server of RocketMQ that is to take no other than TLS, or no TLS, says nothing: it ends the connection. So does one
that is being stopped, and whatever stands between it and us while it is away; only who knocks at both doors can tell.
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
"""A request that name servers answer and brokers refuse: an answer, both."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_SETTINGS: Final = b"\x04\x00\x00\x00\x00\x00"
_SETTINGS_AT: Final = 3
"""Behind its length: a frame's type, flags and stream, with which a server of HTTP/2 begins. Of RocketMQ's it would be
one without a header, which there is not."""


class AcceptedTransports(NamedTuple):
    """Which of them opened."""

    plain: bool
    tls: bool


def probe_transports(address: str) -> AcceptedTransports:
    """Knock at both; never raises. Takes two connections, and at most a second for each step of them."""
    return AcceptedTransports(_accepts_plaintext(address), _accepts_tls(address))


def _accepts_plaintext(address: str) -> bool:
    try:
        with closing(connect_tcp(address, PROBE_TIMEOUT_MS)) as stream:
            stream.sendall(PROBE_FRAME, PROBE_TIMEOUT_MS)
            return bool(stream.recv(1, PROBE_TIMEOUT_MS))
    except RocketMQError:
        return False


def _accepts_tls(address: str) -> bool:
    """Nothing is told to whoever is there, so nobody needs to prove who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connect_tcp(address, PROBE_TIMEOUT_MS, context).close()
    except RocketMQError:
        return False
    return True


def accepts_http2(address: str) -> bool:
    """Whether who is there takes plain gRPC; never raises. One connection."""
    try:
        with closing(connect_tcp(address, PROBE_TIMEOUT_MS)) as stream:
            stream.sendall(_PREFACE, PROBE_TIMEOUT_MS)
            frame = stream.recv(len(_PREFACE), PROBE_TIMEOUT_MS) or b""
    except RocketMQError:
        return False
    return is_http2(frame)


def is_http2(first: Buffer) -> bool:
    """Whether a server speaks HTTP/2 that begins like this."""
    return bytes(first[_SETTINGS_AT : _SETTINGS_AT + len(_SETTINGS)]) == _SETTINGS
