"""What may be tried again, and with what pause: for members, executors and producers.

``outlook_of_request``, ``outlook_of_pull``, ``outlook_of_send`` and ``outlook_of_write`` say what becomes of a failure,
all from one table, and ``refreshes_route`` whether another attempt looks the route up; ``Pauses`` says when that is
due. For how long: ``failures``. This is the one module that compares conditions of errors.

Not in here: a server that says GO_AWAY is asked once more over a new connection, within one request (``peer``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeGuard

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.wire.remoting.codes import ResponseCode

# ------------------------------------------------------------------------------------------ what may be tried again


class Outlook(Enum):
    """What becomes of a failure."""

    PASSES = "It may pass by itself: the same call, made later, may succeed."
    UNSERVED = "Nobody serves it now. That lasts until an operator changes it, so it has a limit of its own."
    FINAL = "The same call will fail in the same way."


class Outlooks(NamedTuple):
    """Of one failure, by what was tried."""

    request: Outlook
    """To a name server or broker: a survey, an offset, a lock, a message that is sent back."""
    pull: Outlook
    """Of a range that was planned from a route: where that has changed, it may change back."""
    send: Outlook
    """Of a message, where the next attempt goes to another queue."""
    write: Outlook
    """Of rows, to the queue that is theirs or to any: with pauses, for as long as the options allow."""
    refresh: bool = True
    """Whether it may come of an address that is wrong or old: the next attempt then asks the name servers for it. Who
    asks for routes by a timer, as a member does, has the next address by that."""


_PASSES, _UNSERVED, _FINAL = Outlook.PASSES, Outlook.UNSERVED, Outlook.FINAL

OUTLOOKS: Final[Mapping[int | str, Outlooks]] = MappingProxyType(
    {
        # a broker's refusals                           request    pull       send       write    refresh
        ResponseCode.SYSTEM_ERROR: Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),  # also while it starts and stops
        ResponseCode.SYSTEM_BUSY: Outlooks(
            _PASSES, _PASSES, _PASSES, _PASSES
        ),  # also of a master that has become a slave
        ResponseCode.SERVICE_NOT_AVAILABLE: Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        ResponseCode.GO_AWAY: Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        ResponseCode.FLOW_CONTROL: Outlooks(
            _PASSES, _PASSES, _FINAL, _PASSES, False
        ),  # the right broker, which has too much
        ResponseCode.NOT_LEADER_FOR_QUEUE: Outlooks(_PASSES, _PASSES, _FINAL, _PASSES),
        ResponseCode.TOPIC_NOT_EXIST: Outlooks(_FINAL, _UNSERVED, _PASSES, _UNSERVED),
        ResponseCode.NO_PERMISSION: Outlooks(_FINAL, _UNSERVED, _PASSES, _UNSERVED),
        ResponseCode.INVALID_PARAMETER: Outlooks(
            _FINAL, _UNSERVED, _FINAL, _UNSERVED
        ),  # a queue id that the topic has no more
        ResponseCode.NO_BUYER_ID: Outlooks(_FINAL, _FINAL, _PASSES, _FINAL),
        ResponseCode.NOT_IN_CURRENT_UNIT: Outlooks(_FINAL, _FINAL, _PASSES, _FINAL),
        # no answer
        "CONNECT_FAILED": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "RESPONSE_TIMED_OUT": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "CONNECTION_LOST": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "PROXY_UNAVAILABLE": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "POLL_REQUEST_EXPIRED": Outlooks(_PASSES, _PASSES, _FINAL, _FINAL),
        "GROUP_NOT_FOUND.PROXY": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),  # or only by this proxy, by now
        "INVALID_QUEUE_OFFSETS": Outlooks(_PASSES, _FINAL, _FINAL, _FINAL),
        # what the name servers say
        "MASTER_UNAVAILABLE": Outlooks(_PASSES, _UNSERVED, _PASSES, _PASSES),
        "BROKER_ADDRESS_MISMATCH": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE": Outlooks(_PASSES, _UNSERVED, _PASSES, _UNSERVED),
        "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "TOPIC_NOT_FOUND": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "TOPIC_UNAVAILABLE.NO_ROUTE": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),  # of a topic that had a route
        "TOPIC_UNAVAILABLE.QUEUE": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "UNKNOWN_BROKER": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "NAME_SERVERS_UNAVAILABLE": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "STATIC_TOPIC_NOT_SUPPORTED": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        # stored, and less safely than was asked for
        "MESSAGE_NOT_DURABLE": Outlooks(_FINAL, _FINAL, _FINAL, _PASSES),
    }
)
"""By ResponseCode for BROKER_ERROR, else by condition (``errors``). What is not in here is final, and a wrong broker
may have said it. So are all that say what credentials, rights, certificates or encryption are wanted: that is in the
options, or is an operator's decision, and waiting changes neither.
Source of the column ``send``: ``client/producer/DefaultMQProducer.java#retryResponseCodes``."""

_ALL_FINAL: Final = Outlooks(_FINAL, _FINAL, _FINAL, _FINAL)


def outlook_of_request(error: RocketMQError) -> Outlook:
    """Whether a name server or broker may be asked the same again."""
    return _outlooks(error).request


def outlook_of_pull(error: RocketMQError) -> Outlook:
    """Whether the same offsets may be pulled again."""
    return _outlooks(error).pull


def is_outage_of_broker(error: RocketMQError) -> bool:
    """Whether a pull that failed so was tried for as long as it may be: something passes, and has not passed. While no
    name server answers that says nothing of its broker."""
    cause = error.__cause__
    if isinstance(cause, RocketMQError) and is_without_route(cause):
        return False
    return error.condition == "CLUSTER_TIMEOUT" or outlook_of_pull(error) is not Outlook.FINAL


def outlook_of_send(error: RocketMQError) -> Outlook:
    """Whether a message may be stored by another attempt, on another queue."""
    return _outlooks(error).send


def outlook_of_write(error: RocketMQError) -> Outlook:
    """Whether rows may be sent again."""
    return _outlooks(error).write


def refreshes_route(error: RocketMQError) -> bool:
    """Whether the name servers are asked anew where a broker is, before what failed is tried there again."""
    return _outlooks(error).refresh


def is_too_large(error: RocketMQError) -> bool:
    """Whether a broker has refused a message, or a batch, for its size; of a batch some say so with SYSTEM_ERROR."""
    remark = str(error.context.get("remark", "")) if is_refusal(error) else ""
    return "body size exceeded" in remark or "body length limit" in remark


def _outlooks(error: RocketMQError) -> Outlooks:
    if is_too_large(error):
        return _ALL_FINAL
    return OUTLOOKS.get(error.code if is_refusal(error) else error.condition, _ALL_FINAL)


# -------------------------------------------------------------------------------------------------- which failure it is


def is_refusal(error: RocketMQError) -> TypeGuard[BrokerError]:
    """Whether a broker has refused by a code, and not only us, who lack a right or a group."""
    return error.condition == "BROKER_ERROR"


def _condition_in(*conditions: str) -> Callable[[RocketMQError], bool]:
    return lambda error: error.condition in conditions


is_without_route: Final = _condition_in("NAME_SERVERS_UNAVAILABLE")
"""No name server answers: that is no trouble of a topic's or broker's."""

is_no_name_server: Final = _condition_in("NOT_A_NAME_SERVER")
"""Who is asked for routes is something else."""

is_unknown_topic: Final = _condition_in("TOPIC_NOT_FOUND")
"""No name server or proxy knows the topic."""

is_unknown_group: Final = _condition_in("GROUP_NOT_FOUND.PROXY")
"""No proxy knows the group."""

is_away: Final = _condition_in("TOPIC_UNAVAILABLE.NO_ROUTE")
"""The topic has had a route, and no name server knows it now."""


def is_topic_unrouted(error: RocketMQError) -> bool:
    """Whether no name server or proxy has a route of the topic now, though it may have had one."""
    return is_unknown_topic(error) or is_away(error)


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

is_answer_too_large: Final = _condition_in("RESPONSE_TOO_LARGE")
"""A proxy's answer has more messages or bytes than there may be."""


# ------------------------------------------------------------------------------------------------------ with what pause


class Pauses(NamedTuple):
    """Pauses between attempts, in ms, each twice the one before up to the longest."""

    shortest_ms: int
    longest_ms: int

    def after(self, pause_ms: int | None) -> int:
        """The next pause; ``pause_ms`` is the one before, None for the first."""
        return self.shortest_ms if pause_ms is None else min(2 * pause_ms, self.longest_ms)


ASKING: Final = Pauses(250, 5_000)
"""Between two requests to a server that does not answer."""

PULLING: Final = Pauses(50, 2_000)
"""Between two pulls of the same offsets."""

SENDING_BACK: Final = Pauses(250, 250)
"""Between two attempts to send a message back, while a whole task waits for it."""

WRITING: Final = Pauses(50, 2_000)
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
