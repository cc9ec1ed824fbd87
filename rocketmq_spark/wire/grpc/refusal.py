"""What a proxy's status means that is none that was asked for: an error that says who refuses, and why.

Source: ``proxy/grpc/v2/common/ResponseBuilder.java``, ``proxy/grpc/v2/common/GrpcValidator.java``.
"""

from __future__ import annotations

import re
from typing import Final

from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError
from rocketmq_spark.wire.grpc.messaging_pb2 import Code, Status
from rocketmq_spark.wire.remoting.refusal import access_refusal

MAY_PASS: Final = frozenset(
    {
        Code.UNRECOGNIZED_CLIENT_TYPE,  # it has forgotten who we are, and is told again
        Code.REQUEST_TIMEOUT,
        Code.TOO_MANY_REQUESTS,
        Code.INTERNAL_ERROR,
        Code.INTERNAL_SERVER_ERROR,
        Code.HA_NOT_AVAILABLE,
        Code.PROXY_TIMEOUT,
        Code.MASTER_PERSISTENCE_TIMEOUT,
        Code.SLAVE_PERSISTENCE_TIMEOUT,
    }
)

_NO_GROUP: Final = re.compile(r"group not found|subscription group \S* ?(?:does )?not exist", re.IGNORECASE)
_NO_READABLE_QUEUE: Final = "no readable queue"
_MESSAGE_IS_GONE: Final = "failed: status is abnormal"
"""How a proxy tells that its broker knows no such message."""


def refusal(address: str, request: str, status: Status, *, topic: str = "") -> RocketMQError:
    """``topic``: that the request is about. The error's words are those of ``conditions``."""
    code, remark = status.code, status.message or "(no remark)"
    if code in {Code.UNAUTHORIZED, Code.FORBIDDEN} and remark != _NO_READABLE_QUEUE:
        known = access_refusal(address, request, code, remark)
        return known or BrokerError("CREDENTIALS_REFUSED", address=address, request=request, code=code, remark=remark)
    if remark == _NO_READABLE_QUEUE:
        return RouteError("NO_READABLE_QUEUE", topic=topic)
    if code == Code.TOPIC_NOT_FOUND:
        return RouteError("TOPIC_NOT_SERVED", address=address, topic=topic)
    if code == Code.CONSUMER_GROUP_NOT_FOUND or _NO_GROUP.search(remark):
        return BrokerError("GROUP_NOT_SERVED", address=address, request=request, code=code, remark=remark)
    if code == Code.ILLEGAL_INVISIBLE_TIME:
        return OptionError("INVISIBLE_DURATION_REFUSED", address=address, remark=remark)
    if code in MAY_PASS:
        return BrokerError(
            "PROXY_FAILED", address=address, request=request, code=code, code_name=name_of(code), remark=remark
        )
    return BrokerError(
        "PROXY_REFUSED", address=address, request=request, code=code, code_name=name_of(code), remark=remark
    )


def is_unknown_handle(status: Status) -> bool:
    """Whether a message was asked about that is not ours any more: its time was over, or it was deleted."""
    return status.code == Code.INVALID_RECEIPT_HANDLE or status.message.endswith(_MESSAGE_IS_GONE)


def name_of(code: int) -> str:
    """Of one of the protocol's codes; those of a later version have none here."""
    known = Code.DESCRIPTOR.values_by_number.get(code)
    return "an unknown code" if known is None else known.name
