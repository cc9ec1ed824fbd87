"""Doors: whether a server takes plain connections, and whether it takes TLS. Asked when it has shut one on us.

A server of RocketMQ that is to take no other than TLS, or no TLS, says nothing: it ends the connection. So does one
that is being stopped, and whatever stands between it and us while it is away; only who knocks at both doors can tell.
"""

from __future__ import annotations

import ssl
from contextlib import closing
from typing import Final, NamedTuple

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

KNOCK_TIMEOUT_MS: Final = 1_000
KNOCK: Final = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO).frame(1)
"""A request that name servers answer and brokers refuse: an answer, both."""


class Doors(NamedTuple):
    """Which of them opened."""

    plain: bool
    tls: bool


def doors_of(address: str) -> Doors:
    """Knock at both; never raises. Takes two connections, and at most a second for each step of them."""
    return Doors(_answers_plain(address), _shakes_hands(address))


def _answers_plain(address: str) -> bool:
    try:
        with closing(connect_tcp(address, KNOCK_TIMEOUT_MS)) as stream:
            stream.sendall(KNOCK, KNOCK_TIMEOUT_MS)
            return bool(stream.recv(1, KNOCK_TIMEOUT_MS))
    except RocketMQError:
        return False


def _shakes_hands(address: str) -> bool:
    """Nothing is told to whoever is there, so nobody needs to prove who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connect_tcp(address, KNOCK_TIMEOUT_MS, context).close()
    except RocketMQError:
        return False
    return True
