"""Retry rules of members, executors and producers: which errors are retried, and with which pauses.

``retryability_of_request``, ``retryability_of_pull``, ``retryability_of_send`` and ``retryability_of_write`` classify
an error by one table. ``requires_route_refresh`` returns whether a retry needs a new route, ``Pauses`` when it is due.
``Policy`` has the limits.

Not in here: after GO_AWAY a request is sent once more over a new connection (``remoting_client``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.error_kinds import (
    cannot_be_stored_again,
    is_broker_error,
    is_name_server_outage,
    is_retry_expired,
    is_too_large,
    is_topic_or_group_missing,
)
from rocketmq_spark.wire.remoting.codes import ResponseCode


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
    """Return whether ``error`` of a pull is an outage of its broker: a retryable error, or CLUSTER_TIMEOUT at the end
    of the retry limit. Return False if its ``__cause__`` is an outage of the name servers."""
    cause = error.__cause__
    if isinstance(cause, RocketMQError) and is_name_server_outage(cause):
        return False
    return is_retry_expired(error) or retryability_of_pull(error) is not Retryability.PERMANENT


def retryability_of_send(error: RocketMQError) -> Retryability:
    """Return the retryability of sending a message to another queue. PERMANENT for an error not in ``RETRYABILITY``, or
    if a broker refused the message for its size or content."""
    return _retryability(error).send


def retryability_of_write(error: RocketMQError) -> Retryability:
    """Return the retryability of sending the same rows once more after a pause, to their own queue or any. PERMANENT
    for an error not in ``RETRYABILITY``, or if a broker refused a message for its size or content."""
    return _retryability(error).write


def requires_route_refresh(error: RocketMQError) -> bool:
    """Return whether the route must be refreshed from the name servers before a retry. True unless the error's entry in
    ``RETRYABILITY`` has ``refresh`` False (FLOW_CONTROL), also without an entry."""
    return _retryability(error).refresh


def _retryability(error: RocketMQError) -> OperationRetryability:
    """Return the entry of ``RETRYABILITY`` for ``error``, by response code for BROKER_ERROR, else by condition.
    Permanent for all operations if there is no entry, or if a broker refused a message for its size or content."""
    if is_too_large(error) or cannot_be_stored_again(error):
        return _ALL_PERMANENT
    return RETRYABILITY.get(error.code if is_broker_error(error) else error.condition, _ALL_PERMANENT)


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


class Policy(NamedTuple):
    """Retry policy: which failures are retried, with which pauses, and for how long.

    ``limit_ms``: for transient failures; ``unavailable_limit_ms``: for failures that last until an operator acts, of
    these only for missing topics and groups if ``is_for_missing_only``, else for all. The pauses of a
    ``FailureTracker`` are its own. docs/dev/unavailable-servers.md has a table of all policies.
    """

    retryability_of: Callable[[RocketMQError], Retryability]
    pauses: Pauses
    limit_ms: int
    unavailable_limit_ms: int
    is_for_missing_only: bool = False

    def limit_ms_of(self, error: RocketMQError) -> int:
        """Return how long a failure by ``error`` is retried, in ms: 0 if it is permanent."""
        retryability = self.retryability_of(error)
        if retryability is Retryability.PERMANENT:
            return 0
        is_unavailable = retryability is Retryability.UNAVAILABLE
        if is_unavailable and (not self.is_for_missing_only or is_topic_or_group_missing(error)):
            return self.unavailable_limit_ms
        return self.limit_ms


def request_policy(cluster_timeout_ms: int, missing_topic_timeout_ms: int) -> Policy:
    """Return the policy for metadata: requests to name servers, and to brokers for offsets."""
    return Policy(retryability_of_request, REQUEST_PAUSES, cluster_timeout_ms, missing_topic_timeout_ms)


def send_back_policy(cluster_timeout_ms: int, missing_topic_timeout_ms: int) -> Policy:
    """Return the policy for single messages that are stored at a broker again: sent back for retry, or as dead
    letters."""
    return Policy(retryability_of_request, SEND_BACK_PAUSES, cluster_timeout_ms, missing_topic_timeout_ms)


def message_mode_policy(cluster_timeout_ms: int, missing_topic_timeout_ms: int) -> Policy:
    """Return the policy for message mode. A broker that refuses, and a topic that has a route without readable queues,
    have the limit of brokers: without ``missingQueues``, a running query waits for both as long as for a broker."""
    return Policy(
        retryability_of_pull, SEND_BACK_PAUSES, cluster_timeout_ms, missing_topic_timeout_ms, is_for_missing_only=True
    )
