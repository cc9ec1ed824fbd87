"""What may be tried again, with what pause, and whether that has lasted too long: for members, executors and producers.

Three questions, three answers: ``outlook_of_request``, ``outlook_of_pull``, ``outlook_of_send`` and
``outlook_of_write`` say what becomes of a failure, all from one table, and ``refreshes_route`` whether the next attempt
asks anew where to go; ``Pauses`` says when that is due; ``Patience`` remembers what fails, and says when that has
lasted too long. Times are arguments, and so are limits: ``clusterTimeoutMs`` for what is silent, and the longer ones of
``options`` while nobody serves a topic or queue.

Not in here: a server that says GO_AWAY is asked once more over a new connection, within one request (``peer``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.errors import BrokerError, RocketMQError, TransportError
from rocketmq_spark.remoting.waits import Wait
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
        "PROXY_FAILED": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "POLL_TOO_LATE": Outlooks(_PASSES, _PASSES, _FINAL, _FINAL),
        "GROUP_NOT_SERVED": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),  # or only by this proxy, by now
        "IMPOSSIBLE_BOUNDS": Outlooks(_PASSES, _FINAL, _FINAL, _FINAL),
        # what the name servers say
        "NO_MASTER": Outlooks(_PASSES, _UNSERVED, _PASSES, _PASSES),
        "WRONG_BROKER": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "NO_WRITABLE_QUEUE": Outlooks(_PASSES, _UNSERVED, _PASSES, _UNSERVED),
        "NO_READABLE_QUEUE": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "TOPIC_NOT_SERVED": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "TOPIC_NOT_FOUND": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "TOPIC_AWAY": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "BROKERS_AWAY": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),  # of writers, to whom brokers are all the same
        "QUEUE_AWAY": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "BROKER_NOT_ROUTED": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        "NO_NAME_SERVER": Outlooks(_PASSES, _PASSES, _PASSES, _PASSES),
        "STATIC_TOPIC": Outlooks(_UNSERVED, _UNSERVED, _UNSERVED, _UNSERVED),
        # stored, and less safely than was asked for
        "NOT_DURABLE": Outlooks(_FINAL, _FINAL, _FINAL, _PASSES),
    }
)
"""By ResponseCode for BROKER_REFUSED, else by condition (``errors``). What is not in here is final, and a wrong broker
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
    return error.condition == "CLUSTER_UNREACHABLE" or outlook_of_pull(error) is not Outlook.FINAL


def is_without_route(error: RocketMQError) -> bool:
    """Whether no name server answers: that is no trouble of a topic's or broker's."""
    return error.condition == "NO_NAME_SERVER"


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
    remark = str(error.context.get("remark", "")) if error.condition == "BROKER_REFUSED" else ""
    return "body size exceeded" in remark or "body length limit" in remark


def _outlooks(error: RocketMQError) -> Outlooks:
    if is_too_large(error):
        return _ALL_FINAL
    is_by_code = isinstance(error, BrokerError) and error.condition == "BROKER_REFUSED"
    return OUTLOOKS.get(int(error.context["code"]) if is_by_code else error.condition, _ALL_FINAL)


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

EXCUSED_QUIET_MS: Final = 15_000
"""See ``Patience.excuse``."""

SEND_ATTEMPTS: Final = 3
"""Without a pause, for each goes to another queue."""

# -------------------------------------------------------------------------------------------------------- for how long

NAME_SERVERS: Final = "the name servers"
"""By which their outage is known."""


def broker_subject(broker_name: str) -> str:
    """By which a broker's outage is known."""
    return f"broker {broker_name}"


def topic_subject(topic: str) -> str:
    """By which a topic's outage is known: the name servers do not know it, or nobody may use it."""
    return f"topic {topic}"


@dataclass(frozen=True, slots=True)
class _Trouble:
    first_ms: int
    since_ms: int
    pause_ms: int
    next_try_ms: int
    due_ms: int
    limit_ms: int
    until_ms: int
    is_over: bool
    error: RocketMQError
    quiet_ms: int


class Patience:
    """What is failing now, by subject ("broker broker-a", "name servers", "topic orders"). Times come from the caller,
    and ``outlook_of`` says by what it tries which failures pass.

    A subject is asked again after a pause, see ``ASKING``; whoever pulls has pauses of its own. One that has failed
    for its whole limit is an error; until then whoever asks goes on with what does answer. A shorter limit, of another
    failure, counts from where that began, and all together last no longer than the longer one.

    Not thread-safe.
    """

    def __init__(self, outlook_of: Callable[[RocketMQError], Outlook] = outlook_of_request) -> None:
        self._outlook_of = outlook_of
        self._troubles: dict[str, _Trouble] = {}

    def failed(
        self,
        subject: str,
        error: RocketMQError,
        *,
        now_ms: int,
        limit_ms: int,
        since_ms: int | None = None,
        quiet_ms: int = 0,
    ) -> bool:
        """Says whether it has now failed for its whole limit, and had not before. ``since_ms``: when it began to fail,
        if this first failure here is not the first. ``quiet_ms``: see ``Wait``."""
        before = self._troubles.get(subject)
        since_ms = before.since_ms if before else now_ms if since_ms is None else since_ms
        first_ms = before.first_ms if before else since_ms
        quiet_ms = max(quiet_ms, before.quiet_ms) if before else quiet_ms
        pause_ms = ASKING.after(before.pause_ms if before else None)
        until_ms = since_ms + limit_ms
        if before and limit_ms <= before.limit_ms:
            until_ms = min(before.until_ms, now_ms + limit_ms)
        left_ms = until_ms - now_ms
        is_over = left_ms <= 0
        next_ms = now_ms + (pause_ms if is_over else min(pause_ms, left_ms))
        self._troubles[subject] = _Trouble(
            first_ms, since_ms, pause_ms, next_ms, next_ms, limit_ms, until_ms, is_over, error, quiet_ms
        )
        return is_over and not (before and before.is_over)

    def succeeded(self, subject: str) -> bool:
        """Says whether it had been failing."""
        return self._troubles.pop(subject, None) is not None

    def forget(self, subject: str) -> None:
        """It is not asked any more."""
        self._troubles.pop(subject, None)

    def may_try(self, subject: str, now_ms: int) -> bool:
        """Whether it does not fail, or its pause is over."""
        trouble = self._troubles.get(subject)
        return trouble is None or now_ms >= trouble.next_try_ms

    def is_failing(self, subject: str) -> bool:
        return subject in self._troubles

    @property
    def is_anything_failing(self) -> bool:
        """Cheap, for whoever has many subjects of which hardly ever one fails."""
        return bool(self._troubles)

    def since_ms(self, subject: str) -> int:
        """When it began to fail, which it does."""
        return self._troubles[subject].since_ms

    def postpone(self, now_ms: int) -> None:
        """Everything that is due has just had its chance, and what was not tried could not be: others failed before
        it. It may be tried at any time, but nobody needs to be woken for it before its pause, which grows."""
        for subject, trouble in self._troubles.items():
            if now_ms >= trouble.due_ms:
                pause_ms = ASKING.after(trouble.pause_ms)
                self._troubles[subject] = replace(trouble, pause_ms=pause_ms, due_ms=now_ms + trouble.pause_ms)

    @property
    def next_try_ms(self) -> int | None:
        """When something that failed is to be tried again; None while nothing fails."""
        return min((trouble.due_ms for trouble in self._troubles.values()), default=None)

    @property
    def subjects(self) -> frozenset[str]:
        """What is failing."""
        return frozenset(self._troubles)

    def waits(self, excused: Collection[str] = ()) -> tuple[Wait, ...]:
        """The same with since when, until when and why; without the ``excused``."""
        return tuple(
            Wait(subject, one.since_ms, one.until_ms, str(one.error), one.quiet_ms)
            for subject, one in self._troubles.items()
            if subject not in excused
        )

    def excuse(self, subjects: Collection[str], now_ms: int, *, beside_ms: int | None = None) -> None:
        """While something else explains why these fail they do not count: their time begins anew. When that is over
        they mostly are a moment later, of which nothing is said. ``beside_ms``: the limit of what explains it; beyond
        twice their own and this one, since their first failure, nothing does, for it may come and go for ever."""
        for subject in self._troubles.keys() & subjects:
            trouble, quiet_ms = self._troubles[subject], max(self._troubles[subject].quiet_ms, EXCUSED_QUIET_MS)
            until_ms = now_ms + trouble.limit_ms
            if beside_ms is not None:
                until_ms = min(until_ms, trouble.first_ms + 2 * trouble.limit_ms + beside_ms)
            self._troubles[subject] = replace(
                trouble, since_ms=now_ms, until_ms=until_ms, is_over=False, quiet_ms=quiet_ms
            )

    def check(self, now_ms: int) -> None:
        """Raises what ``over`` returns of the first subject that has failed for its limit."""
        for subject in self._troubles:
            if (over := self.over(subject, now_ms)) is not None:
                raise over

    def over(self, subject: str, now_ms: int) -> RocketMQError | None:
        """What a subject that has failed for its limit ends with: TransportError[CLUSTER_UNREACHABLE] around what might
        have passed (silence, a busy broker); what lasts until somebody changes it (a missing topic) as it is. None:
        its limit is not over.
        """
        trouble = self._troubles[subject]
        if now_ms < trouble.until_ms:
            return None
        if self._outlook_of(trouble.error) is not Outlook.PASSES:
            return trouble.error
        over = TransportError(
            "CLUSTER_UNREACHABLE",
            doing=f"Reaching {subject}",
            waited_ms=now_ms - trouble.since_ms,
            limit_ms=trouble.limit_ms,
            cause=str(trouble.error),
        )
        over.__cause__ = trouble.error
        return over
