"""Routes in a proxy's responses, and errors for a status that refuses a request, with the server and the reason.

Source: ``proxy/grpc/v2/route/RouteActivity.java``, ``proxy/grpc/v2/common/ResponseBuilder.java``,
``proxy/grpc/v2/common/GrpcValidator.java``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from rocketmq_spark.errors import BrokerError, OptionError, RemoteProtocolError, RocketMQError, RouteError
from rocketmq_spark.model import MASTER_ID, MAX_PORT
from rocketmq_spark.wire.bounds import PROXIED_BROKERS, ROUTE_QUEUES
from rocketmq_spark.wire.grpc.messaging_pb2 import (
    Address,
    Code,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    ReceiveMessageResponse,
    Status,
)
from rocketmq_spark.wire.remoting.refusal import REMARK_CHARACTERS, access_error

TRANSIENT_CODES: Final = frozenset(
    {
        Code.MULTIPLE_RESULTS,  # an acknowledgement without a result; it may be repeated
        Code.UNRECOGNIZED_CLIENT_TYPE,  # the proxy has lost the client's settings; they are sent again
        Code.ILLEGAL_POLLING_TIME,  # little time was left when the proxy began the request
        Code.REQUEST_TIMEOUT,  # from a gateway
        Code.TOO_MANY_REQUESTS,  # the proxy, or a broker with SYSTEM_BUSY
        Code.INTERNAL_ERROR,  # failures of gRPC and gateways
        Code.INTERNAL_SERVER_ERROR,  # other refusals of a broker, and failures of the proxy
        Code.HA_NOT_AVAILABLE,  # a broker's replicas; so far only for writes
        Code.PROXY_TIMEOUT,  # its broker is unresponsive
        Code.MASTER_PERSISTENCE_TIMEOUT,  # as HA_NOT_AVAILABLE
        Code.SLAVE_PERSISTENCE_TIMEOUT,  # as HA_NOT_AVAILABLE
    }
)
"""Codes after which a retry may succeed. All other codes concern the request, the group or the client: a retry fails,
too."""

_TRANSIENT_REMARKS: Final = re.compile("cannot find broker |The deadline time remaining is not enough")
"""Beginnings of remarks of transient errors with other codes: a receipt handle of a broker that is no longer in the
route, as invalid; ILLEGAL_POLLING_TIME for client versions below 5.0.3, as BAD_REQUEST.

Source: ``proxy/service/message/ClusterMessageService.java``, ``proxy/grpc/v2/consumer/ReceiveMessageActivity.java``.
"""

_NO_GROUP: Final = re.compile(
    r"(?:process client telemetryCommand failed\. )?(?:group not found|subscription group \S* ?(?:does )?not exist)",
    re.IGNORECASE,
)
"""Beginning of the remark by which a proxy reports that its broker has no such group. Not elsewhere in a remark, here
and below: a proxy's internal errors quote producers."""
_NO_EXPRESSION: Final = "parse the consumer's subscription failed"
"""Beginning of the remark by which a proxy reports that its broker cannot parse a filter."""
_NO_READABLE_QUEUE: Final = "no readable queue"
_MESSAGE_DELETED: Final = "failed: status is abnormal"
"""End of the remark by which a proxy reports that its broker does not have the message."""


def refusal_error(address: str, request: str, status: Status, *, topic: str = "") -> RocketMQError:
    """Return, not raise, the error for a status other than OK of the proxy at ``address``. The first match counts:
    denied access (``_access_error``); RouteError for no readable queue or TOPIC_NOT_FOUND (``topic``: the request's, or
    ""); BrokerError[GROUP_NOT_FOUND.PROXY | FILTER_EXPRESSION_INVALID]; OptionError[INVALID_INVISIBLE_DURATION];
    BrokerError[PROXY_UNAVAILABLE] for ``TRANSIENT_CODES`` or ``_TRANSIENT_REMARKS``, else BrokerError[PROXY_ERROR].
    Long remarks lose their middle."""
    code, remark = status.code, _shorten(status.message or "(no remark)")
    if code in {Code.UNAUTHORIZED, Code.FORBIDDEN} and remark != _NO_READABLE_QUEUE:
        return _access_error(address, request, code, remark)
    if remark == _NO_READABLE_QUEUE:
        return RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
    if code == Code.TOPIC_NOT_FOUND:
        return RouteError("TOPIC_NOT_FOUND", address=address, topic=topic)
    if code == Code.CONSUMER_GROUP_NOT_FOUND or _NO_GROUP.match(remark):
        return BrokerError("GROUP_NOT_FOUND.PROXY", address=address, request=request, code=code, remark=remark)
    if code == Code.ILLEGAL_FILTER_EXPRESSION or remark.startswith(_NO_EXPRESSION):
        return BrokerError("FILTER_EXPRESSION_INVALID", address=address, request=request, code=code, remark=remark)
    if code == Code.ILLEGAL_INVISIBLE_TIME:
        return OptionError("INVALID_INVISIBLE_DURATION", address=address, remark=remark)
    if code in TRANSIENT_CODES or _TRANSIENT_REMARKS.match(remark):
        return BrokerError(
            "PROXY_UNAVAILABLE", address=address, request=request, code=code, code_name=name_of(code), remark=remark
        )
    return BrokerError(
        "PROXY_ERROR", address=address, request=request, code=code, code_name=name_of(code), remark=remark
    )


def _shorten(remark: str) -> str:
    """Return ``remark``; if it has more than REMARK_CHARACTERS, its two ends, as an exception's class is at the end,
    with ``…`` between them."""
    if len(remark) <= REMARK_CHARACTERS:
        return remark
    kept = REMARK_CHARACTERS // 2
    return f"{remark[:kept]}…{remark[-kept:]}"


def _access_error(address: str, request: str, code: int, remark: str) -> BrokerError:
    """Return the error for a denied request. The remark of ACL 2.0 selects it (``access_error``). Any other remark, as
    from gateways, gives ACCESS_DENIED for the code FORBIDDEN, else CREDENTIALS_REJECTED."""
    known_error = access_error(address, request, code, remark)
    if known_error is not None:
        return known_error
    if code == Code.FORBIDDEN:
        return BrokerError("ACCESS_DENIED", address=address, request=request, code=code, remark=remark)
    return BrokerError("CREDENTIALS_REJECTED", address=address, request=request, code=code, remark=remark)


def is_unknown_handle(status: Status) -> bool:
    """Return whether ``status`` reports that a receipt handle is not valid: its invisible duration expired, or its
    message was deleted. False if the proxy only has no route to the broker."""
    is_invalid = status.code == Code.INVALID_RECEIPT_HANDLE and not _TRANSIENT_REMARKS.match(status.message)
    return is_invalid or status.message.endswith(_MESSAGE_DELETED)


def name_of(code: int) -> str:
    """Return the protocol's name of a code, or "an unknown code"."""
    known_error = Code.DESCRIPTOR.values_by_number.get(code)
    return "an unknown code" if known_error is None else known_error.name


_MESSAGE_TAG: Final = ReceiveMessageResponse.MESSAGE_FIELD_NUMBER << 3 | 2
_MAX_LENGTH_BYTES: Final = 5


def message_record(data: bytes, response: ReceiveMessageResponse) -> bytes:
    """Return ``data``, an encoding of ``response``, if it is one message field and nothing else, otherwise an encoding
    of only the message. ``data`` may have one message in several fields, which a decoder of the response merges. The
    decoder of ``ReceivedMessages``, which reads many responses as one, would return a message for each field."""
    if _is_one_message_field(data):
        return data
    return ReceiveMessageResponse(message=response.message).SerializeToString()


def _is_one_message_field(data: bytes) -> bool:
    """Return whether ``data`` is one field ``message`` of a ReceiveMessageResponse, and nothing else."""
    length = 0
    for index, byte in enumerate(data[1 : 1 + _MAX_LENGTH_BYTES]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return data[0] == _MESSAGE_TAG and len(data) == 2 + index + length
    return False


Addresses: TypeAlias = tuple[str, ...]
"""Addresses of one server, each ``host:port``."""

_NAME_CHARACTERS: Final = 255
"""Maximum length of a host name, and of a name in an error."""

_READABLE: Final = frozenset({Permission.READ, Permission.READ_WRITE})


def brokers_of(topic: str, queues: Sequence[MessageQueue]) -> dict[str, Addresses]:
    """Return for each broker whose master has readable queues of ``topic``, by name, the addresses of its proxy; empty
    without any. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY] if one has no address or an invalid one, and for
    more queues than ROUTE_QUEUES or brokers than PROXIED_BROKERS allows."""
    try:
        return _brokers_of(queues)
    except ValueError as problem:
        raise RemoteProtocolError(
            "MALFORMED_RESPONSE.BODY", subject=f"route of topic {topic!r}", problem=str(problem)
        ) from problem


def _brokers_of(queues: Sequence[MessageQueue]) -> dict[str, Addresses]:
    """Return for each broker whose master has readable queues, by name, the addresses of its proxy; empty without any.
    Raises ValueError for a broker without addresses or with an invalid one, and if ROUTE_QUEUES or PROXIED_BROKERS is
    exceeded."""
    ROUTE_QUEUES.check(len(queues))
    readable = [queue for queue in queues if queue.permission in _READABLE and queue.broker.id == MASTER_ID]
    endpoints = {queue.broker.name: queue.broker.endpoints for queue in readable}
    PROXIED_BROKERS.check(len(endpoints))
    return {name: _addresses_of(name, one) for name, one in endpoints.items()}


def is_ordered(queues: Iterable[MessageQueue]) -> bool:
    """Return whether the topic accepts only FIFO messages, which must be consumed in order: one of ``queues`` accepts
    no other type."""
    return any(list(queue.accept_message_types) == [MessageType.FIFO] for queue in queues)


def _addresses_of(broker_name: str, endpoints: Endpoints) -> Addresses:
    """Return the addresses of a broker's proxy, in order, in the syntax of options: ``host:port``, IPv6 in brackets.
    Raises ValueError without any, or for an invalid one."""
    if not endpoints.addresses:
        raise ValueError(f"broker {broker_name[:_NAME_CHARACTERS]!r} has no address")
    return tuple(_address_of(address) for address in endpoints.addresses)


def _address_of(address: Address) -> str:
    """Return ``host:port``, IPv6 in brackets. Raises ValueError for an empty host, one of more than 255 characters, or
    an invalid port."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    if not 0 < len(host) <= _NAME_CHARACTERS or not 0 < address.port <= MAX_PORT:
        raise ValueError(f"an address has the port {address.port} and the host {host[:_NAME_CHARACTERS]!r}")
    return f"{host}:{address.port}"
