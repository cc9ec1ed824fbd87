"""Retry rules of members, executors and producers: which errors are retried, and with which pauses.

``retryability_of_request``, ``retryability_of_pull``, ``retryability_of_send`` and ``retryability_of_write`` classify
an error by one table, ``requires_route_refresh`` returns whether a retry needs a new route, ``Pauses`` when it is due;
``failures`` has the limits. This is the only module that compares conditions of errors.

Not in here: after GO_AWAY a request is sent once more over a new connection (``remoting_client``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeGuard

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.wire.remoting.codes import ResponseCode

# ------------------------------------------------------------------------------------------------- retryability


class Retryability(Enum):
    """Class of a failure: whether and how a retry may succeed."""

    TRANSIENT = "It may pass by itself: the same call, made later, may succeed."
    UNAVAILABLE = "No server serves it now. That lasts until an operator changes it, so it has a limit of its own."
    PERMANENT = "The same call will fail in the same way."


class OperationRetryability(NamedTuple):
    """Retryability of one error, by operation."""

    request: Retryability
    """Of a request to a name server or broker: metadata, an offset, a lock, a message sent back for retry."""
    pull: Retryability
    """Of a pull of an offset range planned from a route; a changed route may change back."""
    send: Retryability
    """Of a message whose next attempt goes to another queue."""
    write: Retryability
    """Of rows, to their own queue or to any: with pauses, for as long as the options allow."""
    refresh: bool = True
    """Whether a wrong or outdated address may cause it: the next attempt then queries the name servers. Callers that
    refresh routes periodically, as members do, get the new address that way."""


_TRANSIENT, _UNAVAILABLE, _PERMANENT = Retryability
_row = OperationRetryability  # of a request, a pull, a send, a write
_ALL_TRANSIENT: Final = _row(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT)
_ALL_UNAVAILABLE: Final = _row(_UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE)
_ALL_PERMANENT: Final = _row(_PERMANENT, _PERMANENT, _PERMANENT, _PERMANENT)

RETRYABILITY: Final[Mapping[int | str, OperationRetryability]] = MappingProxyType(
    {
        # a broker's refusals
        ResponseCode.SYSTEM_ERROR: _ALL_TRANSIENT,  # also while it starts and stops
        ResponseCode.SYSTEM_BUSY: _ALL_TRANSIENT,  # also of a master that has become a slave
        ResponseCode.SERVICE_NOT_AVAILABLE: _ALL_TRANSIENT,
        ResponseCode.GO_AWAY: _ALL_TRANSIENT,
        # of the right broker, which has too much
        ResponseCode.FLOW_CONTROL: _row(_TRANSIENT, _TRANSIENT, _PERMANENT, _TRANSIENT, refresh=False),
        ResponseCode.NOT_LEADER_FOR_QUEUE: _row(_TRANSIENT, _TRANSIENT, _PERMANENT, _TRANSIENT),
        ResponseCode.TOPIC_NOT_EXIST: _row(_PERMANENT, _UNAVAILABLE, _TRANSIENT, _UNAVAILABLE),
        ResponseCode.NO_PERMISSION: _row(_PERMANENT, _UNAVAILABLE, _TRANSIENT, _UNAVAILABLE),
        # of a queue ID that the topic no longer has
        ResponseCode.INVALID_PARAMETER: _row(_PERMANENT, _UNAVAILABLE, _PERMANENT, _UNAVAILABLE),
        ResponseCode.NO_BUYER_ID: _row(_PERMANENT, _PERMANENT, _TRANSIENT, _PERMANENT),
        ResponseCode.NOT_IN_CURRENT_UNIT: _row(_PERMANENT, _PERMANENT, _TRANSIENT, _PERMANENT),
        # no response
        "CONNECT_FAILED": _ALL_TRANSIENT,
        "RESPONSE_TIMED_OUT": _ALL_TRANSIENT,
        "CONNECTION_LOST": _ALL_TRANSIENT,
        "PROXY_UNAVAILABLE": _ALL_TRANSIENT,
        "POLL_REQUEST_EXPIRED": _row(_TRANSIENT, _TRANSIENT, _PERMANENT, _PERMANENT),
        "GROUP_NOT_FOUND.PROXY": _ALL_UNAVAILABLE,  # or only by this proxy, by now
        "INVALID_QUEUE_OFFSETS": _row(_TRANSIENT, _PERMANENT, _PERMANENT, _PERMANENT),
        "SEARCH_STALLED": _row(_TRANSIENT, _PERMANENT, _PERMANENT, _PERMANENT),
        # routes from the name servers
        "MASTER_UNAVAILABLE": _row(_TRANSIENT, _UNAVAILABLE, _TRANSIENT, _TRANSIENT),
        "READING_FROM_SLAVE": _row(_TRANSIENT, _UNAVAILABLE, _TRANSIENT, _TRANSIENT),
        "BROKER_ADDRESS_MISMATCH": _ALL_TRANSIENT,
        "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE": _row(_TRANSIENT, _UNAVAILABLE, _TRANSIENT, _UNAVAILABLE),
        "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE": _ALL_UNAVAILABLE,
        "TOPIC_NOT_FOUND": _ALL_UNAVAILABLE,
        "TOPIC_UNAVAILABLE.NO_ROUTE": _ALL_TRANSIENT,  # of a topic that had a route
        "TOPIC_UNAVAILABLE.QUEUE": _ALL_UNAVAILABLE,
        "UNKNOWN_BROKER": _ALL_UNAVAILABLE,
        "NAME_SERVERS_UNAVAILABLE": _ALL_TRANSIENT,
        "NO_MASTER_BROKER": _ALL_UNAVAILABLE,  # also of a name server that has just started
        "STATIC_TOPIC_NOT_SUPPORTED": _ALL_UNAVAILABLE,
        # stored, but not flushed or not replicated as required
        "MESSAGE_NOT_DURABLE": _row(_PERMANENT, _PERMANENT, _PERMANENT, _TRANSIENT),
    }
)
"""Retryability by ResponseCode for BROKER_ERROR, else by condition (``errors``). Missing keys are permanent, with
``refresh`` because a wrong broker may have returned them. Errors of credentials, permissions, certificates or
encryption are permanent too: options or an operator change these, waiting does not.
Source of the column ``send``: ``client/producer/DefaultMQProducer.java#retryResponseCodes``."""


def retryability_of_request(error: RocketMQError) -> Retryability:
    """Return the retryability of a request to a name server or broker that failed with ``error``. PERMANENT for an
    error not in ``RETRYABILITY``, or if a broker refused a message for its size or content."""
    return _retryability(error).request


def retryability_of_pull(error: RocketMQError) -> Retryability:
    """Return the retryability of a pull of the same offsets; PERMANENT for an error not in ``RETRYABILITY``."""
    return _retryability(error).pull


def is_broker_outage(error: RocketMQError) -> bool:
    """Return whether ``error`` of a pull is an outage of its broker: it is retryable, or a CLUSTER_TIMEOUT, raised at
    the end of the retry limit. Return False if its ``__cause__`` is an outage of the name servers."""
    cause = error.__cause__
    if isinstance(cause, RocketMQError) and is_name_server_outage(cause):
        return False
    return error.condition == "CLUSTER_TIMEOUT" or retryability_of_pull(error) is not Retryability.PERMANENT


def retryability_of_send(error: RocketMQError) -> Retryability:
    """Return the retryability of sending a message to another queue. PERMANENT for an error not in ``RETRYABILITY``, or
    if a broker refused the message for its size or content."""
    return _retryability(error).send


def retryability_of_write(error: RocketMQError) -> Retryability:
    """Return the retryability of sending the same rows once more after a pause, to their own queue or any. PERMANENT
    for an error not in ``RETRYABILITY``, or if a broker refused a message for its size or content."""
    return _retryability(error).write


def requires_route_refresh(error: RocketMQError) -> bool:
    """Return whether the route must be refreshed from the name servers before a retry: True, also for errors that are
    not in ``RETRYABILITY``, unless the entry has ``refresh`` False (FLOW_CONTROL)."""
    return _retryability(error).refresh


def is_too_large(error: RocketMQError) -> bool:
    """Return whether a broker refused a message or batch for its size, by the remark, whatever the code."""
    return "body size exceeded" in _remark(error) or "body length limit" in _remark(error)


def _cannot_be_stored_again(error: RocketMQError) -> bool:
    """Return whether a broker refused to store a message again, which it does with SYSTEM_ERROR and its store's status:
    there is no room for the properties that it adds, or the message has no body, has INNER_NUM, or is an inner batch.
    Source: ``broker/util/HookUtils.java``."""
    return _remark(error).startswith(("PROPERTIES_SIZE_EXCEEDED", "MESSAGE_ILLEGAL"))


def _remark(error: RocketMQError) -> str:
    """Return the broker's remark; "" for an error other than BROKER_ERROR."""
    return str(error.context.get("remark", "")) if is_broker_error(error) else ""


def _retryability(error: RocketMQError) -> OperationRetryability:
    """Return the entry of ``RETRYABILITY`` for ``error``, by response code for BROKER_ERROR, else by condition.
    Permanent for all operations if there is no entry, or if a broker refused a message for its size or content."""
    if is_too_large(error) or _cannot_be_stored_again(error):
        return _ALL_PERMANENT
    return RETRYABILITY.get(error.code if is_broker_error(error) else error.condition, _ALL_PERMANENT)


# ------------------------------------------------------------------------------------------------- kinds of errors


def is_broker_error(error: RocketMQError) -> TypeGuard[BrokerError]:
    """Return whether a broker refused by a response code, for another reason than this client's rights or group."""
    return error.condition == "BROKER_ERROR"


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

_has_no_member: Final = _code_in(ResponseCode.CONSUMER_NOT_ONLINE)


def is_group_offline(error: RocketMQError) -> bool:
    """Return whether a broker without ``useServerSideResetOffset`` rejected an offset reset: the group has no member
    that it could notify, or no offset that it could change. Source:
    ``broker/client/net/Broker2Client.java#resetOffset``."""
    return _has_no_member(error) or _remark(error).startswith("THe consumer group <")


is_name_server_outage: Final = _condition_in("NAME_SERVERS_UNAVAILABLE")
"""Whether no name server responds: no failure of a topic or broker."""

is_no_name_server: Final = _condition_in("NOT_A_NAME_SERVER")
"""Whether the server at a name server's address is another kind of server."""

is_unknown_topic: Final = _condition_in("TOPIC_NOT_FOUND")
"""Whether no name server or proxy has the topic."""

is_unknown_group: Final = _condition_in("GROUP_NOT_FOUND.PROXY")
"""Whether no proxy has the group."""

is_topic_route_lost: Final = _condition_in("TOPIC_UNAVAILABLE.NO_ROUTE")
"""Whether the topic had a route and no name server has one now."""


def is_topic_without_route(error: RocketMQError) -> bool:
    """Return whether no name server or proxy has a route of the topic now; it may have had one."""
    return is_unknown_topic(error) or is_topic_route_lost(error)


is_unknown_broker: Final = _condition_in("UNKNOWN_BROKER")
"""Whether a row names a broker that its topic's route does not have."""

is_pull_rejected: Final = _condition_in("PULL_REJECTED")
"""Whether the broker rejects the pulls of all clients."""

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


def is_conversion_failure(error: RocketMQError) -> bool:
    """Return whether a proxy failed while it processed a response of its broker, as it does for a message that it
    cannot convert. False for overload, for a broker's refusal, and for an unavailable proxy or broker. Source:
    ``proxy/grpc/v2/common/ResponseBuilder.java#buildStatus``."""
    is_internal = _is_proxy_unavailable(error) and error.context.get("code_name") == "INTERNAL_SERVER_ERROR"
    return is_internal and _CONVERSION_FAILURE.search(str(error.context.get("remark", ""))) is not None


# ------------------------------------------------------------------------------------------------------------- pauses


class Pauses(NamedTuple):
    """Pauses between attempts, in ms, each twice the one before up to the longest."""

    shortest_ms: int
    longest_ms: int

    def after(self, pause_ms: int | None) -> int:
        """Return the pause (ms) that follows ``pause_ms``: twice as long, at most the longest; None: the first."""
        return self.shortest_ms if pause_ms is None else min(2 * pause_ms, self.longest_ms)


REQUEST_PAUSES: Final = Pauses(250, 5_000)
"""Between two requests to a server that does not respond."""

PULL_PAUSES: Final = Pauses(50, 2_000)
"""Between two pulls of the same offsets."""

SEND_BACK_PAUSES: Final = Pauses(250, 250)
"""Between two attempts to send a message back, while an entire task waits for it."""

WRITE_PAUSES: Final = Pauses(50, 2_000)
"""Between two attempts to send the same rows."""

SEND_ATTEMPTS: Final = 3
"""Attempts to send a message, without pauses, because each goes to another queue."""

# ------------------------------------------------------------------------------------------------- outage subjects

NAME_SERVERS: Final = "the name servers"
"""Subject of an outage of the name servers."""

TOPIC_LIST: Final = "the name servers that list topics"
"""Subject of an outage while the topics of a pattern are looked up."""


def broker_subject(broker_name: str) -> str:
    """Return the subject of a broker's outage."""
    return f"broker {broker_name}"


def master_subject(broker_name: str) -> str:
    """Return the subject of a broker that is read at a slave until it has a master."""
    return f"the master of {broker_subject(broker_name)}"


def conversion_subject(topic: str, broker_name: str) -> str:
    """Return the subject of responses that a proxy cannot convert. Their broker has responded."""
    return f"convertible messages of {topic_subject(topic)} at {broker_subject(broker_name)}"


def topic_subject(topic: str) -> str:
    """Return the subject of a topic's outage: the name servers do not have it, or no client may use it."""
    return f"topic {topic}"
