"""Which address of this machine a server sees: the first half of a client id."""

from __future__ import annotations

import os
import socket
from uuid import uuid4

from rocketmq_spark.model import split_address


def local_ip(towards: str) -> str:
    """The address that a connection to ``host:port`` would have on this side; loopback when there is no way there.

    Nothing is sent: connecting a datagram socket only looks the route up.
    """
    try:
        host, port = split_address(towards)
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"


def new_client_id(towards: str) -> str:
    """Return a client ID that no other client has: address, process ID and a random part."""
    return f"{local_ip(towards)}@{os.getpid()}@{uuid4().hex}"
