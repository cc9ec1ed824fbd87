"""Errors for responses that refuse a request, with the server and the reason.

Access control has no codes of its own. ACL 2.0 returns NO_PERMISSION, as for a topic without read permission; ACL 1.0
and proxies return SYSTEM_ERROR, which may be anything. The remarks distinguish them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode, code_name
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand, encode

REMARK_CHARACTERS: Final = 2_000
"""Of a remark; a frame can carry 16 million, which would all be in an error, a log line and a Spark event."""


ACCESS_WORDS: Final[tuple[tuple[str, str], ...]] = (
    (r"username cannot be null", "CREDENTIALS_MISSING"),
    (r"check signature failed|User:\S+ is (?:not found|disabled)", "CREDENTIALS_REJECTED"),
    (r"User:\S+ has no permission to access Topic:(?P<topic>\S+)", "TOPIC_DENIED"),
    (r"User:\S+ has no permission to access Group:(?P<group>\S+)", "GROUP_DENIED"),
    (r"User:\S+ has no permission to access ", "ACCESS_DENIED"),
)
"""Beginnings of ACL 2.0's remarks, over any protocol, and conditions of BrokerError; the first match applies. A named
group is a parameter of the condition."""

REFUSALS: Final[tuple[tuple[int, str, str], ...]] = (
    # ACL 2.0: brokers, and proxies
    *((ResponseCode.NO_PERMISSION, words, condition) for words, condition in ACCESS_WORDS),
    *((ResponseCode.SYSTEM_ERROR, words, condition) for words, condition in ACCESS_WORDS),
    # ACL 1.0
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: No accessKey is configured", "CREDENTIALS_MISSING"),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: (?:Check signature failed|No acl config)", "CREDENTIALS_REJECTED"),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: No .*?permission for topic:(?P<topic>[^\s,]+)", "TOPIC_DENIED"),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: No .*?permission for group:(?P<group>[^\s,]+)", "GROUP_DENIED"),
    (ResponseCode.SYSTEM_ERROR, r"\S*\.AclException: ", "ACCESS_DENIED"),
    # all servers
    (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, r"", "GROUP_NOT_FOUND.BROKER"),
    (ResponseCode.SUBSCRIPTION_PARSE_FAILED, r"", "FILTER_EXPRESSION_INVALID"),
    (ResponseCode.SYSTEM_ERROR, r"The broker does not support consumer to filter message", "PROPERTY_FILTER_DISABLED"),
    (ResponseCode.SUBSCRIPTION_NOT_EXIST, r".*the pull consumer is rejected by server", "PULL_REJECTED"),
    (ResponseCode.NO_PERMISSION, r"Sending message to topic\[(?P<topic>.*)\] is forbidden", "TOPIC_RESERVED"),
)
"""Response code, beginning of the remark, and condition, as in ``ACCESS_WORDS``; the first match applies."""


def access_error(address: str, request: str, code: int, remark: str) -> BrokerError | None:
    """Return the error for a refusal by ACL 2.0, whatever its ``code``. Return None if the remark does not begin with
    one of ``ACCESS_WORDS``. Raise nothing. ``request``: name of the refused request."""
    return _first_match(ACCESS_WORDS, address, request, code, remark)


def refusal_error(address: str, request_code: int, response: RemotingCommand) -> BrokerError:
    """Return the error for a response by which the server at ``address`` refuses a request. The first entry of
    ``REFUSALS`` with its code and remark selects the error; without one it is BROKER_ERROR. A remark is cut to
    REMARK_CHARACTERS, a missing one is "(no remark)". Raise nothing."""
    request, remark = code_name(RequestCode, request_code), (response.remark or "(no remark)")[:REMARK_CHARACTERS]
    rows = [(words, condition) for code, words, condition in REFUSALS if code == response.code]
    return _first_match(rows, address, request, response.code, remark) or BrokerError(
        "BROKER_ERROR",
        address=address,
        request=request,
        code=response.code,
        code_name=code_name(ResponseCode, response.code),
        remark=remark,
    )


def _first_match(
    rows: Iterable[tuple[str, str]], address: str, request: str, code: int, remark: str
) -> BrokerError | None:
    """Return the error of the first of ``rows`` (as in ``ACCESS_WORDS``) that matches ``remark``, or None."""
    for words, condition in rows:
        if (match := re.match(words, remark)) is not None:
            named = match.groupdict()
            return BrokerError(condition, address=address, request=request, code=code, remark=remark, **named)
    return None


def response_frame(request: RemotingCommand, response: RemotingCommand | None = None) -> bytes:
    """Return the frame of ``response`` to a server's request, or of REQUEST_CODE_NOT_SUPPORTED for None, with the
    request's opaque and FLAG_RESPONSE. Raises LocalProtocolError[INVALID_MESSAGE] as ``encode`` does."""
    if response is None:
        remark = f"request type {request.code} not supported"
        response = RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
    return encode(replace(response, opaque=request.opaque, flag=FLAG_RESPONSE))
