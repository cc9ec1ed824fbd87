"""Numbers of requests, and errors of missing responses, shared by both users of the protocol.

In ``connection`` one thread reads for many requests; in ``pull.pull_connection`` the waiting thread reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError, TransportError
from rocketmq_spark.wire.remoting.codes import RequestCode, code_name
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode

MAX_OPAQUE: Final = 0x7FFFFFFF
"""Largest request number: Java's is an int."""

UNRESPONSIVE_LIMIT_MS: Final = 30_000
"""If a response is late and the server has sent nothing for this time, the connection is lost."""

CLOSED_BY_SERVER: Final = "the server closed it"
CLOSED_HERE: Final = "it was closed on this side"
OF_PARENT_PROCESS: Final = "it belongs to the parent process"
"""Reasons of CONNECTION_LOST that both users report."""


def opaques(first: int = 1) -> Iterator[int]:
    """Return an endless iterator of one connection's request numbers: ``first`` to MAX_OPAQUE, then from 0 again.
    Threads: any may use it."""
    return map(MAX_OPAQUE.__and__, count(first))


def timeout_error(address: str, request_code: int, timeout_ms: int) -> TransportError:
    """Return TransportError[RESPONSE_TIMED_OUT] for a request without a response within ``timeout_ms``."""
    request = code_name(RequestCode, request_code)
    return TransportError("RESPONSE_TIMED_OUT", address=address, request=request, timeout_ms=timeout_ms)


def unresponsive_error(address: str, unresponsive_ms: int) -> TransportError | None:
    """Return TransportError[CONNECTION_LOST] if the server last sent data ``unresponsive_ms`` ago and this is at least
    UNRESPONSIVE_LIMIT_MS (30 s), else None. Call it when a response is late."""
    if unresponsive_ms < UNRESPONSIVE_LIMIT_MS:
        return None
    reason = f"no response to any request for {unresponsive_ms} ms"
    return TransportError("CONNECTION_LOST", address=address, reason=reason)


def decode_command(address: str, frame: memoryview) -> RemotingCommand:
    """Decode a frame and return its command. Raises RemoteProtocolError[MALFORMED_FRAME] with ``address`` as the
    sender, which the codec does not have."""
    try:
        return decode(frame)
    except RemoteProtocolError as error:
        problem = f"cannot decode its header: {error.context['problem']}"
        raise RemoteProtocolError("MALFORMED_FRAME", peer=address, problem=problem) from error
