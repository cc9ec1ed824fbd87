"""Translation of gRPC's failures into the connector's errors, and diagnosis of connect failures that gRPC lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import grpc

from rocketmq_spark.errors import OptionError, RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.remoting.error_kinds import is_disconnected, is_timed_out
from rocketmq_spark.remoting.secured import connect_with
from rocketmq_spark.remoting.transport_probe import (
    PROBE_TIMEOUT_MS,
    AcceptedTransports,
    accepts_http2,
    probe_transports,
)
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.bounds import CONTROL_RESPONSE_BYTES, RESPONSE_BYTES, Bound
from rocketmq_spark.wire.grpc.messaging_pb2 import Code, Status
from rocketmq_spark.wire.grpc.responses import refusal_error

NOT_CONNECTED: Final = "failed to connect to all addresses"
"""Start of gRPC's details if there was no connection."""

_TOO_LARGE: Final = "message larger than max"
_COMPRESSED: Final = re.compile("[Cc]ompression algorithm (.* is disabled|not supported)")
"""gRPC's details for responses that the options in ``channel`` reject."""

_CODES: Final[Mapping[grpc.StatusCode, Code]] = {
    grpc.StatusCode.UNAUTHENTICATED: Code.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: Code.FORBIDDEN,
    grpc.StatusCode.INVALID_ARGUMENT: Code.BAD_REQUEST,
    grpc.StatusCode.NOT_FOUND: Code.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Code.TOO_MANY_REQUESTS,
    grpc.StatusCode.INTERNAL: Code.INTERNAL_ERROR,
    grpc.StatusCode.UNKNOWN: Code.INTERNAL_ERROR,
    grpc.StatusCode.ABORTED: Code.INTERNAL_ERROR,
}
"""Proxy codes for gRPC statuses. Proxies return their own codes for nearly all failures; these statuses occur if a call
fails before the proxy can respond."""


def failure_of(error: grpc.RpcError, address: str, request: str, timeout_ms: int) -> RocketMQError:
    """Return, not raise, the connector's error for a failed call. A response that is too large gives
    RESPONSE_TOO_LARGE, a compressed one MALFORMED_RESPONSE.BODY. The deadline gives RESPONSE_TIMED_OUT. A cancelled
    call or an unavailable proxy gives CONNECT_FAILED or CONNECTION_LOST, UNIMPLEMENTED gives NOT_A_GRPC_PROXY. Any
    other gRPC status gives the ``refusal_error`` of the proxy's code in ``_CODES``, else of BAD_REQUEST."""
    code, details = error.code(), error.details() or "(no details)"
    if _TOO_LARGE in details:
        return response_too_large_error(address, request)
    if _COMPRESSED.search(details):
        subject, problem = f"response of {address} to {request}", "it is compressed, which is not supported"
        return RemoteProtocolError("MALFORMED_RESPONSE.BODY", subject=subject, problem=problem)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TransportError("RESPONSE_TIMED_OUT", address=address, request=request, timeout_ms=timeout_ms)
    if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}:
        if details.startswith(NOT_CONNECTED):
            return TransportError("CONNECT_FAILED", address=address, reason=_reason(details))
        return TransportError("CONNECTION_LOST", address=address, reason=details)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return OptionError("NOT_A_GRPC_PROXY", address=address, reason=f"it returned {details} for {request}")
    return refusal_error(address, request, Status(code=_CODES.get(code, Code.BAD_REQUEST), message=details))


def response_too_large_error(address: str, request: str, bound: Bound = RESPONSE_BYTES) -> RemoteProtocolError:
    """Return the error for a response, of one message or several, above the maximum size."""
    return RemoteProtocolError("RESPONSE_TOO_LARGE", address=address, request=request, limit_bytes=bound.maximum)


def check_control_response(data: bytes, address: str, request: str) -> None:
    """Check the size of an undecoded response without messages. Raises RemoteProtocolError[RESPONSE_TOO_LARGE] for more
    bytes than CONTROL_RESPONSE_BYTES (4 MiB) allows, else do nothing."""
    if len(data) > CONTROL_RESPONSE_BYTES.maximum:
        raise response_too_large_error(address, request, CONTROL_RESPONSE_BYTES)


def _reason(details: str) -> str:
    """Return the specific part of gRPC's details: the text after the last ": ", without general text and address."""
    _, _, reason = details.partition("last error: ")
    return (reason or details).rpartition(": ")[2]


def probe_cause(error: TransportError, tls: Tls | None) -> RocketMQError:
    """Probe the server at the address of ``error`` over a few connections, each step within 1 s. Return, not raise, the
    error that shows the cause of the failed call, else ``error``. A timeout is returned without a probe. ``tls`` None:
    the calls are plaintext."""
    address = str(error.context["address"])
    if is_timed_out(error):
        return error
    try:
        if tls is None:
            _probe_plaintext(address)
        else:
            _probe_tls(address, tls)
    except RocketMQError as cause:
        return error if is_disconnected(cause) else cause
    return error


def _probe_plaintext(address: str) -> None:
    """Return if the server accepts HTTP/2 without TLS, or if the probes show no cause. A port that accepts no
    connection may belong to an unavailable server; one that does not respond in time may belong to a busy server.
    Raises TransportError[TLS_REQUIRED] if it accepts TLS only, OptionError[NOT_A_GRPC_PROXY] for RocketMQ's remoting
    protocol."""
    if accepts_http2(address) is False:
        transports = probe_transports(address)
        if transports == AcceptedTransports(plain=False, tls=True):
            raise TransportError("TLS_REQUIRED", address=address)
        if transports.plain and accepts_http2(address) is False:  # it did not just start
            raise OptionError("NOT_A_GRPC_PROXY", address=address, reason="it uses RocketMQ's remoting protocol")


def _probe_tls(address: str, tls: Tls) -> None:
    """Open a connection with ``tls``, wait up to 1 s for data, and close it. Raises what ``secured.Connect`` and
    ``Stream.recv`` raise. A server that rejects the client certificate reports it after the handshake, so this receives
    without sending: data that is sent causes a reset."""
    with closing(connect_with(tls)(address, PROBE_TIMEOUT_MS)) as stream:
        stream.recv(1, PROBE_TIMEOUT_MS)
