"""Errors for responses that refuse a request, with the server and the reason.

Access control has no codes of its own. ACL 2.0 returns NO_PERMISSION, as for a topic without read permission; ACL 1.0
and proxies return SYSTEM_ERROR, which may be anything. The remarks distinguish them.
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
"""Of a remark; a frame can carry 16 million, which would all be in an error, a log line and a Spark event."""


@dataclass(frozen=True, slots=True)
class _ErrorResponse:
    """Server, request, code and remark of a refusal. ``name``: the topic or group that the remark names, else empty."""

    address: str
    request: str
    code: int
    remark: str
    name: str = ""


def _credentials_missing(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[CREDENTIALS_MISSING]."""
    return BrokerError("CREDENTIALS_MISSING", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _credentials_refused(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[CREDENTIALS_REJECTED]."""
    return BrokerError("CREDENTIALS_REJECTED", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _topic_forbidden(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[TOPIC_DENIED], with the topic that the remark names."""
    return BrokerError(
        "TOPIC_DENIED", address=it.address, request=it.request, code=it.code, remark=it.remark, topic=it.name
    )


def _group_forbidden(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[GROUP_DENIED], with the group that the remark names."""
    return BrokerError(
        "GROUP_DENIED", address=it.address, request=it.request, code=it.code, remark=it.remark, group=it.name
    )


def _access_forbidden(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[ACCESS_DENIED]."""
    return BrokerError("ACCESS_DENIED", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _group_not_found(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[GROUP_NOT_FOUND.BROKER]."""
    return BrokerError("GROUP_NOT_FOUND.BROKER", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _topic_reserved(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[TOPIC_RESERVED], with the topic that the remark names."""
    return BrokerError(
        "TOPIC_RESERVED", address=it.address, request=it.request, code=it.code, remark=it.remark, topic=it.name
    )


def _expression_invalid(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[FILTER_EXPRESSION_INVALID]."""
    return BrokerError(
        "FILTER_EXPRESSION_INVALID", address=it.address, request=it.request, code=it.code, remark=it.remark
    )


def _property_filter_disabled(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[PROPERTY_FILTER_DISABLED]."""
    return BrokerError(
        "PROPERTY_FILTER_DISABLED", address=it.address, request=it.request, code=it.code, remark=it.remark
    )


def _pull_rejected(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[PULL_REJECTED]."""
    return BrokerError("PULL_REJECTED", address=it.address, request=it.request, code=it.code, remark=it.remark)


def _unclassified_error(it: _ErrorResponse) -> BrokerError:
    """Return BrokerError[BROKER_ERROR], with the name of the response code."""
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
"""Beginnings of ACL 2.0's remarks, over any protocol, and their errors; the first match applies."""

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
    # all servers
    (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, r"", _group_not_found),
    (ResponseCode.SUBSCRIPTION_PARSE_FAILED, r"", _expression_invalid),
    (
        ResponseCode.SYSTEM_ERROR,
        r"The broker does not support consumer to filter message",
        _property_filter_disabled,
    ),
    (ResponseCode.SUBSCRIPTION_NOT_EXIST, r".*the pull consumer is rejected by server", _pull_rejected),
    (ResponseCode.NO_PERMISSION, r"Sending message to topic\[(?P<name>.*)\] is forbidden", _topic_reserved),
)
"""Response code, beginning of the remark, and error; the first match applies."""


def access_error(address: str, request: str, code: int, remark: str) -> BrokerError | None:
    """Return the error for a refusal by ACL 2.0, whatever its ``code``; None if the remark does not begin with one of
    ``ACCESS_WORDS``. Raise nothing. ``request``: name of the refused request, for the error."""
    for words, error_of in ACCESS_WORDS:
        match = re.match(words, remark)
        if match is not None:
            return error_of(_ErrorResponse(address, request, code, remark, match.groupdict().get("name", "")))
    return None


def refusal_error(address: str, request_code: int, response: RemotingCommand) -> BrokerError:
    """Return the error for a response by which the server at ``address`` refuses a request: by the first entry of
    ``REFUSALS`` that matches code and remark, else BROKER_ERROR. A remark is cut to REMARK_CHARACTERS, a missing one is
    "(no remark)". Raise nothing."""
    request, remark = code_name(RequestCode, request_code), (response.remark or "(no remark)")[:REMARK_CHARACTERS]
    for code, words, error_of in REFUSALS:
        match = re.match(words, remark) if response.code == code else None
        if match is not None:
            return error_of(_ErrorResponse(address, request, response.code, remark, match.groupdict().get("name", "")))
    return _unclassified_error(_ErrorResponse(address, request, response.code, remark))


def not_supported_response(request: RemotingCommand) -> RemotingCommand:
    """Return the response REQUEST_CODE_NOT_SUPPORTED to a server's request; send nothing. It has neither
    ``request.opaque`` nor FLAG_RESPONSE: the caller sets them."""
    remark = f"request type {request.code} not supported"
    return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
