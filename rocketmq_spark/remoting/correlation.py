"""What all who speak the protocol know: how requests are numbered, and when an answer is given up.

``connection`` has a thread that reads for many, ``pull.pull_exchange`` is read by the thread that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError, TransportError
from rocketmq_spark.wire.remoting.codes import RequestCode, code_name
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode

MAX_OPAQUE: Final = 0x7FFFFFFF
"""Java's, whose number is an int."""

UNRESPONSIVE_LIMIT_MS: Final = 30_000
"""A server that was asked, is late, and has said nothing at all for so long is given up with its connection."""


def opaques(first: int = 1) -> Iterator[int]:
    """Numbers for one connection's requests, from 0 to MAX_OPAQUE and round again. Threads: any may take the next."""
    return map(MAX_OPAQUE.__and__, count(first))


def timeout_error(address: str, request_code: int, timeout_ms: int) -> TransportError:
    """What becomes of a request that was not answered in its time."""
    request = code_name(RequestCode, request_code)
    return TransportError("RESPONSE_TIMED_OUT", address=address, request=request, timeout_ms=timeout_ms)


def unresponsive_error(address: str, unresponsive_ms: int) -> TransportError | None:
    """Whether a server that is late, and was last heard ``unresponsive_ms`` ago, is to be given up: with what error."""
    if unresponsive_ms < UNRESPONSIVE_LIMIT_MS:
        return None
    reason = f"no response to any request for {unresponsive_ms} ms"
    return TransportError("CONNECTION_LOST", address=address, reason=reason)


def decode_command(address: str, frame: memoryview) -> RemotingCommand:
    """Raises RemoteProtocolError[MALFORMED_FRAME]: the codec knows what is wrong, and here it is known who sent it."""
    try:
        return decode(frame)
    except RemoteProtocolError as error:
        problem = f"cannot decode its header: {error.context['problem']}"
        raise RemoteProtocolError("MALFORMED_FRAME", peer=address, problem=problem) from error
