"""What an answer means whose code is none that was asked for: an error that says who refuses, and why.

Access control has no codes of its own. ACL 2.0 says NO_PERMISSION, which is also said of a topic that nobody may read,
ACL 1.0 and proxies say SYSTEM_ERROR, which may be anything; the remarks tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode, code_name
from rocketmq_spark.wire.remoting.command import RemotingCommand

REMARK_CHARACTERS: Final = 2_000
"""Of a remark; a frame has room for 16 million, which would all be in an error, a log line and a Spark event."""


@dataclass(frozen=True, slots=True)
class _ErrorResponse:
    """Where, what, and with which words. ``name``: of what the words are about, where they name it."""

    address: str
    request: str
    code: int
    remark: str
    name: str = ""


def _credentials_missing(it: _ErrorResponse) -> BrokerError:
    return BrokerError("CREDENTIALS_MISSING", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _credentials_refused(it: _ErrorResponse) -> BrokerError:
    return BrokerError("CREDENTIALS_REJECTED", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _topic_forbidden(it: _ErrorResponse) -> BrokerError:
    return BrokerError(
        "TOPIC_DENIED", address=it.address, request=it.request, code=it.code, remark=it.remark, topic=it.name
    )


def _group_forbidden(it: _ErrorResponse) -> BrokerError:
    return BrokerError(
        "GROUP_DENIED", address=it.address, request=it.request, code=it.code, remark=it.remark, group=it.name
    )


def _access_forbidden(it: _ErrorResponse) -> BrokerError:
    return BrokerError("ACCESS_DENIED", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _group_not_found(it: _ErrorResponse) -> BrokerError:
    return BrokerError("GROUP_NOT_FOUND.BROKER", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _topic_reserved(it: _ErrorResponse) -> BrokerError:
    return BrokerError(
        "TOPIC_RESERVED", address=it.address, request=it.request, code=it.code, remark=it.remark, topic=it.name
    )


def _pull_rejected(it: _ErrorResponse) -> BrokerError:
    return BrokerError("PULL_REJECTED", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _unclassified_error(it: _ErrorResponse) -> BrokerError:
    return BrokerError(
        "BROKER_ERROR",
        address=it.address,
        request=it.request,
        code=it.code,
        code_name=code_name(ResponseCode, it.code),
        remark=it.remark,
    )


ACCESS_WORDS: Final[tuple[tuple[str, Callable[[_ErrorResponse], BrokerError]], ...]] = (
    (r"username cannot be null", _credentials_missing),
    (r"check signature failed|User:\S+ is (?:not found|disabled)", _credentials_refused),
    (r"User:\S+ has no permission to access Topic:(?P<name>\S+)", _topic_forbidden),
    (r"User:\S+ has no permission to access Group:(?P<name>\S+)", _group_forbidden),
    (r"User:\S+ has no permission to access ", _access_forbidden),
)
"""What ACL 2.0 says, over any protocol: the beginning of the remark; the first line that fits counts."""

REFUSALS: Final[tuple[tuple[int, str, Callable[[_ErrorResponse], BrokerError]], ...]] = (
    # ACL 2.0: brokers, and proxies
    *((ResponseCode.NO_PERMISSION, words, error_of) for words, error_of in ACCESS_WORDS),
    *((ResponseCode.SYSTEM_ERROR, words, error_of) for words, error_of in ACCESS_WORDS),
    # ACL 1.0
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: No accessKey is configured", _credentials_missing),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: (?:Check signature failed|No acl config)", _credentials_refused),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: No .*?permission for topic:(?P<name>[^\s,]+)", _topic_forbidden),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: No .*?permission for group:(?P<name>[^\s,]+)", _group_forbidden),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: ", _access_forbidden),
    # any
    (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, r"", _group_not_found),
    (ResponseCode.SUBSCRIPTION_NOT_EXIST, r".*the pull consumer is rejected by server", _pull_rejected),
    (ResponseCode.NO_PERMISSION, r"Sending message to topic\[(?P<name>.*)\] is forbidden", _topic_reserved),
)
"""By code and beginning of the remark; the first line that fits counts."""


def access_refusal(address: str, request: str, code: int, remark: str) -> BrokerError | None:
    """What a refusal by ACL 2.0 is, whatever code it comes with; None for other words."""
    for words, error_of in ACCESS_WORDS:
        match = re.match(words, remark)
        if match is not None:
            return error_of(_ErrorResponse(address, request, code, remark, match.groupdict().get("name", "")))
    return None


def refusal(address: str, request_code: int, response: RemotingCommand) -> BrokerError:
    """The BrokerError by the server at ``address``: BROKER_ERROR, unless ``REFUSALS`` knows it better."""
    request, remark = code_name(RequestCode, request_code), (response.remark or "(no remark)")[:REMARK_CHARACTERS]
    for code, words, error_of in REFUSALS:
        match = re.match(words, remark) if response.code == code else None
        if match is not None:
            return error_of(_ErrorResponse(address, request, response.code, remark, match.groupdict().get("name", "")))
    return _unclassified_error(_ErrorResponse(address, request, response.code, remark))


def not_supported_response(request: RemotingCommand) -> RemotingCommand:
    """What a server is answered that asks for what nobody here knows."""
    remark = f"request type {request.code} not supported"
    return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
