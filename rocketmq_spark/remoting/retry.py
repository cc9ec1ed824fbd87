"""What may be tried again, and with what pause: for members, executors and producers.

``retryability_of_request``, ``retryability_of_pull``, ``retryability_of_send`` and ``retryability_of_write`` say what
becomes of a failure, all from one table, and ``requires_route_refresh`` whether another attempt looks the route up;
``Pauses`` says when that is due. For how long: ``failures``. This is the one module that compares conditions of errors.

Not in here: a server that says GO_AWAY is asked once more over a new connection, within one request
(``remoting_client``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeGuard

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.wire.remoting.codes import ResponseCode

# ------------------------------------------------------------------------------------------ what may be tried again


class Retryability(Enum):
    """What becomes of a failure."""

    TRANSIENT = "It may pass by itself: the same call, made later, may succeed."
    UNAVAILABLE = "No server serves it now. That lasts until an operator changes it, so it has a limit of its own."
    PERMANENT = "The same call will fail in the same way."


class OperationRetryability(NamedTuple):
    """Of one failure, by what was tried."""

    request: Retryability
    """To a name server or broker: a survey, an offset, a lock, a message that is sent back."""
    pull: Retryability
    """Of a range that was planned from a route: where that has changed, it may change back."""
    send: Retryability
    """Of a message, where the next attempt goes to another queue."""
    write: Retryability
    """Of rows, to the queue that is theirs or to any: with pauses, for as long as the options allow."""
    refresh: bool = True
    """Whether it may come of an address that is wrong or old: the next attempt then asks the name servers for it. Who
    asks for routes by a timer, as a member does, has the next address by that."""


_TRANSIENT, _UNAVAILABLE, _PERMANENT = Retryability.TRANSIENT, Retryability.UNAVAILABLE, Retryability.PERMANENT

RETRYABILITY: Final[Mapping[int | str, OperationRetryability]] = MappingProxyType(
    {
        # a broker's refusals                           request    pull       send       write    refresh
        ResponseCode.SYSTEM_ERROR: OperationRetryability(
            _TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT
        ),  # also while it starts and stops
        ResponseCode.SYSTEM_BUSY: OperationRetryability(
            _TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT
        ),  # also of a master that has become a slave
        ResponseCode.SERVICE_NOT_AVAILABLE: OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        ResponseCode.GO_AWAY: OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        ResponseCode.FLOW_CONTROL: OperationRetryability(
            _TRANSIENT, _TRANSIENT, _PERMANENT, _TRANSIENT, False
        ),  # the right broker, which has too much
        ResponseCode.NOT_LEADER_FOR_QUEUE: OperationRetryability(_TRANSIENT, _TRANSIENT, _PERMANENT, _TRANSIENT),
        ResponseCode.TOPIC_NOT_EXIST: OperationRetryability(_PERMANENT, _UNAVAILABLE, _TRANSIENT, _UNAVAILABLE),
        ResponseCode.NO_PERMISSION: OperationRetryability(_PERMANENT, _UNAVAILABLE, _TRANSIENT, _UNAVAILABLE),
        ResponseCode.INVALID_PARAMETER: OperationRetryability(
            _PERMANENT, _UNAVAILABLE, _PERMANENT, _UNAVAILABLE
        ),  # a queue id that the topic has no more
        ResponseCode.NO_BUYER_ID: OperationRetryability(_PERMANENT, _PERMANENT, _TRANSIENT, _PERMANENT),
        ResponseCode.NOT_IN_CURRENT_UNIT: OperationRetryability(_PERMANENT, _PERMANENT, _TRANSIENT, _PERMANENT),
        # no answer
        "CONNECT_FAILED": OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        "RESPONSE_TIMED_OUT": OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        "CONNECTION_LOST": OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        "PROXY_UNAVAILABLE": OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        "POLL_REQUEST_EXPIRED": OperationRetryability(_TRANSIENT, _TRANSIENT, _PERMANENT, _PERMANENT),
        "GROUP_NOT_FOUND.PROXY": OperationRetryability(
            _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE
        ),  # or only by this proxy, by now
        "INVALID_QUEUE_OFFSETS": OperationRetryability(_TRANSIENT, _PERMANENT, _PERMANENT, _PERMANENT),
        # what the name servers say
        "MASTER_UNAVAILABLE": OperationRetryability(_TRANSIENT, _UNAVAILABLE, _TRANSIENT, _TRANSIENT),
        "BROKER_ADDRESS_MISMATCH": OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE": OperationRetryability(
            _TRANSIENT, _UNAVAILABLE, _TRANSIENT, _UNAVAILABLE
        ),
        "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE": OperationRetryability(
            _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE
        ),
        "TOPIC_NOT_FOUND": OperationRetryability(_UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE),
        "TOPIC_UNAVAILABLE.NO_ROUTE": OperationRetryability(
            _TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT
        ),  # of a topic that had a route
        "TOPIC_UNAVAILABLE.QUEUE": OperationRetryability(_UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE),
        "UNKNOWN_BROKER": OperationRetryability(_UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE),
        "NAME_SERVERS_UNAVAILABLE": OperationRetryability(_TRANSIENT, _TRANSIENT, _TRANSIENT, _TRANSIENT),
        "STATIC_TOPIC_NOT_SUPPORTED": OperationRetryability(_UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE, _UNAVAILABLE),
        # stored, and less safely than was asked for
        "MESSAGE_NOT_DURABLE": OperationRetryability(_PERMANENT, _PERMANENT, _PERMANENT, _TRANSIENT),
    }
)
"""By ResponseCode for BROKER_ERROR, else by condition (``errors``). What is not in here is final, and a wrong broker
may have said it. So are all that say what credentials, rights, certificates or encryption are wanted: that is in the
options, or is an operator's decision, and waiting changes neither.
Source of the column ``send``: ``client/producer/DefaultMQProducer.java#retryResponseCodes``."""

_ALL_PERMANENT: Final = OperationRetryability(_PERMANENT, _PERMANENT, _PERMANENT, _PERMANENT)


def retryability_of_request(error: RocketMQError) -> Retryability:
    """Whether a name server or broker may be asked the same again."""
    return _retryability(error).request


def retryability_of_pull(error: RocketMQError) -> Retryability:
    """Whether the same offsets may be pulled again."""
    return _retryability(error).pull


def is_broker_outage(error: RocketMQError) -> bool:
    """Whether a pull that failed so was tried for as long as it may be: something passes, and has not passed. While no
    name server answers that says nothing of its broker."""
    cause = error.__cause__
    if isinstance(cause, RocketMQError) and is_name_server_outage(cause):
        return False
    return error.condition == "CLUSTER_TIMEOUT" or retryability_of_pull(error) is not Retryability.PERMANENT


def retryability_of_send(error: RocketMQError) -> Retryability:
    """Whether a message may be stored by another attempt, on another queue."""
    return _retryability(error).send


def retryability_of_write(error: RocketMQError) -> Retryability:
    """Whether rows may be sent again."""
    return _retryability(error).write


def requires_route_refresh(error: RocketMQError) -> bool:
    """Whether the name servers are asked anew where a broker is, before what failed is tried there again."""
    return _retryability(error).refresh


def is_too_large(error: RocketMQError) -> bool:
    """Whether a broker has refused a message, or a batch, for its size; of a batch some say so with SYSTEM_ERROR."""
    remark = str(error.context.get("remark", "")) if is_broker_error(error) else ""
    return "body size exceeded" in remark or "body length limit" in remark


def _retryability(error: RocketMQError) -> OperationRetryability:
    if is_too_large(error):
        return _ALL_PERMANENT
    return RETRYABILITY.get(error.code if is_broker_error(error) else error.condition, _ALL_PERMANENT)


# -------------------------------------------------------------------------------------------------- which failure it is


def is_broker_error(error: RocketMQError) -> TypeGuard[BrokerError]:
    """Whether a broker has refused by a code, and not only us, who lack a right or a group."""
    return error.condition == "BROKER_ERROR"


def _condition_in(*conditions: str) -> Callable[[RocketMQError], bool]:
    return lambda error: error.condition in conditions


is_name_server_outage: Final = _condition_in("NAME_SERVERS_UNAVAILABLE")
"""No name server answers: that is no trouble of a topic's or broker's."""

is_no_name_server: Final = _condition_in("NOT_A_NAME_SERVER")
"""Who is asked for routes is something else."""

is_unknown_topic: Final = _condition_in("TOPIC_NOT_FOUND")
"""No name server or proxy knows the topic."""

is_unknown_group: Final = _condition_in("GROUP_NOT_FOUND.PROXY")
"""No proxy knows the group."""

is_topic_route_lost: Final = _condition_in("TOPIC_UNAVAILABLE.NO_ROUTE")
"""The topic has had a route, and no name server knows it now."""


def is_topic_without_route(error: RocketMQError) -> bool:
    """Whether no name server or proxy has a route of the topic now, though it may have had one."""
    return is_unknown_topic(error) or is_topic_route_lost(error)


is_unknown_broker: Final = _condition_in("UNKNOWN_BROKER")
"""A row names a broker that its topic's route does not have."""

is_pull_rejected: Final = _condition_in("PULL_REJECTED")
"""The broker takes no pulls, of anybody."""

is_reset_pending: Final = _condition_in("OFFSET_RESET_PENDING")
"""The broker stores no offset before a pull has noticed an operator's reset."""

is_disconnected: Final = _condition_in("CONNECT_FAILED", "CONNECTION_LOST")
"""There is no connection, and nothing shows why."""

is_timed_out: Final = _condition_in("RESPONSE_TIMED_OUT")
"""The connection is there, and no answer came over it in time."""

is_response_too_large: Final = _condition_in("RESPONSE_TOO_LARGE")
"""A proxy's answer has more messages or bytes than there may be."""


# ------------------------------------------------------------------------------------------------------ with what pause


class Pauses(NamedTuple):
    """Pauses between attempts, in ms, each twice the one before up to the longest."""

    shortest_ms: int
    longest_ms: int

    def after(self, pause_ms: int | None) -> int:
        """The next pause; ``pause_ms`` is the one before, None for the first."""
        return self.shortest_ms if pause_ms is None else min(2 * pause_ms, self.longest_ms)


REQUEST_PAUSES: Final = Pauses(250, 5_000)
"""Between two requests to a server that does not answer."""

PULL_PAUSES: Final = Pauses(50, 2_000)
"""Between two pulls of the same offsets."""

SEND_BACK_PAUSES: Final = Pauses(250, 250)
"""Between two attempts to send a message back, while a whole task waits for it."""

WRITE_PAUSES: Final = Pauses(50, 2_000)
"""Between two attempts to send the same rows."""

SEND_ATTEMPTS: Final = 3
"""Without a pause, for each goes to another queue."""

# ------------------------------------------------------------------------------------------------------- what fails

NAME_SERVERS: Final = "the name servers"
"""By which their outage is known."""


def broker_subject(broker_name: str) -> str:
    """By which a broker's outage is known."""
    return f"broker {broker_name}"


def topic_subject(topic: str) -> str:
    """By which a topic's outage is known: the name servers do not know it, or nobody may use it."""
    return f"topic {topic}"
