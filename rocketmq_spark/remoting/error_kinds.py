"""Kinds of errors, by condition, response code or remark. Only this module compares conditions of errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeGuard

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.wire.remoting.codes import ResponseCode


def is_broker_error(error: RocketMQError) -> TypeGuard[BrokerError]:
    """Return whether a broker refused by a response code, for another reason than this client's rights or group."""
    return error.condition == "BROKER_ERROR"


def _remark(error: RocketMQError) -> str:
    """Return the broker's remark; "" for an error other than BROKER_ERROR."""
    return str(error.context.get("remark", "")) if is_broker_error(error) else ""


def _condition_in(*conditions: str) -> Callable[[RocketMQError], bool]:
    """Return a function that returns whether an error has one of ``conditions``."""
    return lambda error: error.condition in conditions


def _code_in(*codes: int) -> Callable[[RocketMQError], bool]:
    """Return a function that returns whether an error is a BROKER_ERROR with one of the response ``codes``."""
    return lambda error: is_broker_error(error) and error.code in codes


is_topic_missing_at_broker: Final = _code_in(ResponseCode.TOPIC_NOT_EXIST)
"""Whether a broker does not have the topic of the request."""

is_busy: Final = _code_in(ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL)
"""Whether a broker rejects requests of any kind for a moment, without processing them."""

is_pull_forbidden: Final = _code_in(ResponseCode.NO_PERMISSION)
"""Whether a broker, a topic or a group does not permit a pull, for another reason than ACL 2.0. Source:
``broker/processor/PullMessageProcessor.java``."""

is_queue_missing: Final = _code_in(ResponseCode.INVALID_PARAMETER)
"""Whether a broker rejects a pull because its topic does not have the queue. Source:
``broker/processor/PullMessageProcessor.java``."""

_is_system_busy: Final = _code_in(ResponseCode.SYSTEM_BUSY)


def is_slave_read_disabled(error: RocketMQError) -> bool:
    """Return whether a broker rejected a pull because it is a slave without ``slaveReadEnable``, by the remark: other
    rejections with this code begin otherwise. Source: ``broker/processor/PullMessageProcessor.java#rejectRequest``,
    ``remoting/netty/NettyRemotingAbstract.java#processRequestCommand``."""
    return _is_system_busy(error) and _remark(error).startswith("[REJECTREQUEST]")


_has_no_member: Final = _code_in(ResponseCode.CONSUMER_NOT_ONLINE)


def is_group_offline(error: RocketMQError) -> bool:
    """Return whether a broker without ``useServerSideResetOffset`` rejected an offset reset because the group has no
    member to notify, or no offset to change. Source: ``broker/client/net/Broker2Client.java#resetOffset``."""
    return _has_no_member(error) or _remark(error).startswith("THe consumer group <")


is_name_server_outage: Final = _condition_in("NAME_SERVERS_UNAVAILABLE")
"""Whether no name server responds: no failure of a topic or broker."""

is_no_name_server: Final = _condition_in("NOT_A_NAME_SERVER")
"""Whether the server at a name server's address is another kind of server."""

is_unknown_topic: Final = _condition_in("TOPIC_NOT_FOUND")
"""Whether no name server or proxy has the topic."""

is_topic_or_group_missing: Final = _condition_in(
    "TOPIC_NOT_FOUND", "GROUP_NOT_FOUND.PROXY", "STATIC_TOPIC_NOT_SUPPORTED"
)
"""Whether an operator must create the topic or group: servers have none, or only a static topic."""

is_topic_route_lost: Final = _condition_in("TOPIC_UNAVAILABLE.NO_ROUTE")
"""Whether the topic had a route and no name server has one now."""


def is_topic_without_route(error: RocketMQError) -> bool:
    """Return whether no name server or proxy has a route of the topic now; it may have had one."""
    return is_unknown_topic(error) or is_topic_route_lost(error)


is_unknown_broker: Final = _condition_in("UNKNOWN_BROKER")
"""Whether a row names a broker that its topic's route does not have."""

is_pull_rejected: Final = _condition_in("PULL_REJECTED")
"""Whether the broker rejects the pulls of all clients."""

is_retry_expired: Final = _condition_in("CLUSTER_TIMEOUT")
"""Whether a subject has failed for its whole limit."""

is_reset_pending: Final = _condition_in("OFFSET_RESET_PENDING")
"""Whether the broker stores no offset until a pull has received an operator's reset."""

is_disconnected: Final = _condition_in("CONNECT_FAILED", "CONNECTION_LOST")
"""Whether there is no connection, for an unknown reason."""

is_timed_out: Final = _condition_in("RESPONSE_TIMED_OUT")
"""Whether a connection is open and no response came over it in time."""

is_unanswered: Final = _condition_in("CONNECT_FAILED", "CONNECTION_LOST", "RESPONSE_TIMED_OUT")
"""Whether a server gave no response: it is down, hangs, or cannot be reached."""

is_response_lost: Final = _condition_in("CONNECTION_LOST", "RESPONSE_TIMED_OUT")
"""Whether a request may have been sent, and processed, and got no response."""

is_access_denied: Final = _condition_in("ACCESS_DENIED", "GROUP_DENIED", "TOPIC_DENIED")
"""Whether the client's credentials lack a permission."""

is_response_too_large: Final = _condition_in("RESPONSE_TOO_LARGE")
"""Whether a proxy's response exceeds the maximum number of messages or bytes."""

_is_proxy_unavailable: Final = _condition_in("PROXY_UNAVAILABLE")
_CONVERSION_FAILURE: Final = re.compile(
    r"\. (?!Remoting|MQ(?:Broker|Client)Exception|NullPointerException\. \S+\.ReceiveMessageActivity\.receiveMessage\()"
    r"\w+(?:Exception|Error)(?:\. \S+\([^()]*\))?$"
)
"""At the end of a remark, the class and the first stack frame that proxies append to the message of an exception. Not
of these: its broker is unavailable or has refused, or the proxy has forgotten the client's settings. Not elsewhere:
before them a remark may quote a producer. A broker's own remark, which proxies pass on, has neither.

Source: ``common/utils/ExceptionUtils.java#getErrorDetailMessage``."""


def is_unrecognized_client(error: RocketMQError) -> bool:
    """Return whether a proxy does not have, or has lost, the settings of the client."""
    return _is_proxy_unavailable(error) and error.context.get("code_name") == "UNRECOGNIZED_CLIENT_TYPE"


def is_conversion_failure(error: RocketMQError) -> bool:
    """Return whether a proxy failed to process its broker's response, such as one with a message that it cannot
    convert. False for overload, for a broker's refusal, and for an unavailable proxy or broker. Source:
    ``proxy/grpc/v2/common/ResponseBuilder.java#buildStatus``."""
    is_internal = _is_proxy_unavailable(error) and error.context.get("code_name") == "INTERNAL_SERVER_ERROR"
    return is_internal and _CONVERSION_FAILURE.search(str(error.context.get("remark", ""))) is not None


def is_too_large(error: RocketMQError) -> bool:
    """Return whether a broker refused a message or batch for its size, by the remark, whatever the code."""
    return "body size exceeded" in _remark(error) or "body length limit" in _remark(error)


def cannot_be_stored_again(error: RocketMQError) -> bool:
    """Return whether a broker refused to store a message again, by SYSTEM_ERROR and its store's status. The message has
    no capacity for more properties, has no body, has INNER_NUM, or is an inner batch. Source:
    ``broker/util/HookUtils.java``."""
    return _remark(error).startswith(("PROPERTIES_SIZE_EXCEEDED", "MESSAGE_ILLEGAL"))
