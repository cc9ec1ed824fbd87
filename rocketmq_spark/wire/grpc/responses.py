"""What a proxy answers: where a topic is, and what a status means that is none that was asked for, as an error that
says who refuses, and why.

Source: ``proxy/grpc/v2/route/RouteActivity.java``, ``proxy/grpc/v2/common/ResponseBuilder.java``,
``proxy/grpc/v2/common/GrpcValidator.java``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError
from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.wire.grpc.messaging_pb2 import Code, Endpoints, MessageQueue, MessageType, Permission, Status
from rocketmq_spark.wire.remoting.refusal import access_refusal

TRANSIENT_CODES: Final = frozenset(
    {
        Code.MULTIPLE_RESULTS,  # of an acknowledgement that it says nothing of: it may be made twice
        Code.UNRECOGNIZED_CLIENT_TYPE,  # it has forgotten who we are, and is told again
        Code.ILLEGAL_POLLING_TIME,  # it came to the request when hardly any of its time was left
        Code.REQUEST_TIMEOUT,  # by a server in between
        Code.TOO_MANY_REQUESTS,  # the proxy, or a broker that says SYSTEM_BUSY
        Code.INTERNAL_ERROR,  # what gRPC and gateways fail with
        Code.INTERNAL_SERVER_ERROR,  # whatever else a broker refuses, and what goes wrong in the proxy
        Code.HA_NOT_AVAILABLE,  # a broker's replicas; of what is written only, by now
        Code.PROXY_TIMEOUT,  # its broker does not answer
        Code.MASTER_PERSISTENCE_TIMEOUT,  # as HA_NOT_AVAILABLE
        Code.SLAVE_PERSISTENCE_TIMEOUT,  # as HA_NOT_AVAILABLE
    }
)
"""What is not in here is final: it is about the request, the group or us, and the next one would be the same."""

_TRANSIENT_REMARKS: Final = re.compile("cannot find broker |deadline time remaining is not enough")
"""With a code that says something else: a handle of a broker that is out of the route now, called invalid, and
ILLEGAL_POLLING_TIME to clients whose version is below 5.0.3, called BAD_REQUEST.

Source: ``proxy/service/message/ClusterMessageService.java``, ``proxy/grpc/v2/consumer/ReceiveMessageActivity.java``.
"""

_NO_GROUP: Final = re.compile(r"group not found|subscription group \S* ?(?:does )?not exist", re.IGNORECASE)
_NO_READABLE_QUEUE: Final = "no readable queue"
_MESSAGE_DELETED: Final = "failed: status is abnormal"
"""How a proxy tells that its broker knows no such message."""


def refusal(address: str, request: str, status: Status, *, topic: str = "") -> RocketMQError:
    """``topic``: that the request is about. The error's words are those of ``conditions``."""
    code, remark = status.code, status.message or "(no remark)"
    if code in {Code.UNAUTHORIZED, Code.FORBIDDEN} and remark != _NO_READABLE_QUEUE:
        return _access_error(address, request, code, remark)
    if remark == _NO_READABLE_QUEUE:
        return RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
    if code == Code.TOPIC_NOT_FOUND:
        return RouteError("TOPIC_NOT_FOUND", address=address, topic=topic)
    if code == Code.CONSUMER_GROUP_NOT_FOUND or _NO_GROUP.search(remark):
        return BrokerError("GROUP_NOT_FOUND.PROXY", address=address, request=request, code=code, remark=remark)
    if code == Code.ILLEGAL_INVISIBLE_TIME:
        return OptionError("INVALID_INVISIBLE_DURATION", address=address, remark=remark)
    if code in TRANSIENT_CODES or _TRANSIENT_REMARKS.search(remark):
        return BrokerError(
            "PROXY_UNAVAILABLE", address=address, request=request, code=code, code_name=name_of(code), remark=remark
        )
    return BrokerError(
        "PROXY_ERROR", address=address, request=request, code=code, code_name=name_of(code), remark=remark
    )


def _access_error(address: str, request: str, code: int, remark: str) -> BrokerError:
    """By the words of ACL 2.0; where a gateway has others, its code says whether it knows who we are."""
    known_error = access_refusal(address, request, code, remark)
    if known_error is not None:
        return known_error
    if code == Code.FORBIDDEN:
        return BrokerError("ACCESS_DENIED", address=address, request=request, code=code, remark=remark)
    return BrokerError("CREDENTIALS_REJECTED", address=address, request=request, code=code, remark=remark)


def is_unknown_handle(status: Status) -> bool:
    """Whether a message was asked about that is not ours any more: its time was over, or it was deleted."""
    is_invalid = status.code == Code.INVALID_RECEIPT_HANDLE and not _TRANSIENT_REMARKS.search(status.message)
    return is_invalid or status.message.endswith(_MESSAGE_DELETED)


def name_of(code: int) -> str:
    """Of one of the protocol's codes; those of a later version have none here."""
    known_error = Code.DESCRIPTOR.values_by_number.get(code)
    return "an unknown code" if known_error is None else known_error.name


Addresses: TypeAlias = tuple[str, ...]
"""Of one server, ``host:port`` each."""

_READABLE: Final = frozenset({Permission.READ, Permission.READ_WRITE})


def brokers_of(queues: Iterable[MessageQueue]) -> dict[str, Addresses]:
    """By the names of brokers that have readable queues: where they are asked, which is a proxy each."""
    readable = (queue for queue in queues if queue.permission in _READABLE and queue.broker.id == MASTER_ID)
    return {queue.broker.name: addresses_of(queue.broker.endpoints) for queue in readable}


def is_ordered(queues: Iterable[MessageQueue]) -> bool:
    """Whether the topic takes messages that are to be read in order, and no others."""
    return any(list(queue.accept_message_types) == [MessageType.FIFO] for queue in queues)


def addresses_of(endpoints: Endpoints) -> Addresses:
    """In the spelling of options."""
    return tuple(
        f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
        for address in endpoints.addresses
    )
