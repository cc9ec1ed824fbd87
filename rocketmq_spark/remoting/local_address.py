"""The local address that a server sees, and client IDs, which begin with it."""

from __future__ import annotations

import os
import socket
from uuid import uuid4

from rocketmq_spark.model import split_address


def local_ip(towards: str) -> str:
    """Return the local IP address of a connection to ``host:port``; loopback if there is no network route, or
    ``towards`` is invalid.

    Resolves the host name, and sends nothing to the host: connecting a datagram socket only resolves the network route.
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
    """Return a new client ID, unique by its random part: ``IP@process ID@random``, with ``local_ip(towards)``."""
    return f"{local_ip(towards)}@{os.getpid()}@{uuid4().hex}"
