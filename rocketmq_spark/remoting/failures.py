"""Failures: what does not work now, for how long that may last, and what is logged of it; and calls that are retried.

Pure: clock and sleep are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.remoting.retry import ASKING, NAME_SERVERS, Outlook, Pauses, is_without_route, outlook_of_request
from rocketmq_spark.remoting.waits import QUIET_MS, LogLine, Wait, WaitLines

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)

Sleep: TypeAlias = Callable[[float], None]

EXCUSED_QUIET_MS: Final = 15_000
"""See ``FailureTracker.excuse``."""


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


class FailureTracker:
    """What is failing now, by subject ("broker broker-a", "name servers", "topic orders"). Times come from the caller,
    and ``outlook_of`` decides which failures pass.

    A subject is asked again after a pause, see ``ASKING``; a pull has pauses of its own. One that has failed
    for its whole limit is an error; until then the caller goes on with what does answer. A shorter limit, of another
    failure, counts from where that began, and all together last no longer than the longer one.

    Not thread-safe.
    """

    def __init__(self, outlook_of: Callable[[RocketMQError], Outlook] = outlook_of_request) -> None:
        self._outlook_of = outlook_of
        self._troubles: dict[str, _Trouble] = {}
        self._lines = WaitLines()

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
        """Return whether it has now failed for its whole limit, and had not before.

        ``since_ms``: when it began to fail, if this first failure here is not the first. ``quiet_ms``: see ``Wait``.
        """
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
        """Return whether it had been failing."""
        return self._troubles.pop(subject, None) is not None

    def forget(self, subject: str) -> None:
        """It is not asked any more."""
        if self._troubles.pop(subject, None) is not None:
            self._lines.drop(subject)

    def may_try(self, subject: str, now_ms: int) -> bool:
        """Whether it does not fail, or its pause is over."""
        trouble = self._troubles.get(subject)
        return trouble is None or now_ms >= trouble.next_try_ms

    def is_failing(self, subject: str) -> bool:
        return subject in self._troubles

    @property
    def is_anything_failing(self) -> bool:
        """Cheap, for a caller with many subjects of which hardly ever one fails."""
        return bool(self._troubles)

    def since_ms(self, subject: str) -> int:
        """When it began to fail, which it does."""
        return self._troubles[subject].since_ms

    def postpone(self, now_ms: int) -> None:
        """Everything that is due has just had its chance, and what was not tried could not be: others failed before
        it. It may be tried at any time, but no thread wakes for it before its pause, which grows."""
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
            Wait(subject, one.since_ms, one.until_ms, str(one.error), one.error.condition, one.quiet_ms)
            for subject, one in self._troubles.items()
            if subject not in excused
        )

    def lines(self, now_ms: int, waits: Collection[Wait] | None = None) -> list[LogLine]:
        """Return what to log now of ``waits``, without them of all its own: see ``WaitLines``."""
        return self._lines.lines(self.waits() if waits is None else waits, now_ms)

    def excuse(self, subjects: Collection[str], now_ms: int, *, beside_ms: int | None = None) -> None:
        """While something else explains why these fail they do not count: their time begins again. When that is over
        they mostly are a moment later, which is not logged. ``beside_ms``: the limit of what explains it; beyond
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
        """What a subject that has failed for its limit ends with: TransportError[CLUSTER_TIMEOUT] around what might
        have passed (silence, a busy broker); what lasts until somebody changes it (a missing topic) as it is. None:
        its limit is not over.
        """
        trouble = self._troubles[subject]
        if now_ms < trouble.until_ms:
            return None
        if self._outlook_of(trouble.error) is not Outlook.PASSES:
            return trouble.error
        over = TransportError(
            "CLUSTER_TIMEOUT",
            subject=subject,
            waited_ms=now_ms - trouble.since_ms,
            limit_ms=trouble.limit_ms,
            cause=trouble.error.summary,
        )
        over.__cause__ = trouble.error
        return over


class Policy(NamedTuple):
    """Which failures are retried, with what pauses, and for how long.

    ``limit_ms``: for what passes by itself; ``unserved_ms``: for what lasts until an operator changes it.
    """

    outlook_of: Callable[[RocketMQError], Outlook]
    pauses: Pauses
    limit_ms: int
    unserved_ms: int


class Waited(Protocol):
    """Since when others have waited for the same without success: OutageNotes."""

    def since_ms(self, now_ms: int) -> int | None: ...

    def gave_up(self, since_ms: int) -> None: ...

    def answered(self) -> None: ...


class Failures:
    """What fails now, by subject: a broker, a topic, a queue; and the name servers, while no route can be found.

    A subject's time begins when a name server answers, unless these come and go. ``waited``: what others have waited
    for a subject before; their time counts until something has succeeded here. Not thread-safe.
    """

    def __init__(self, policy: Policy, clock: Clock, waited: Callable[[str], Waited] | None = None) -> None:
        self._policy = policy
        self._clock = clock
        self._waited = waited
        self._has_succeeded = False
        self._tracker = FailureTracker(policy.outlook_of)
        self._unrouted: set[str] = set()
        """Topics whose routes the name servers did not answer with."""

    def retrying(self, call: Callable[[], object], subject: str, topic: str, sleep: Sleep) -> None:
        """Make ``call`` until it succeeds. ``topic``: whose route it needs. Raises what ``failed`` returns."""
        for _ in self.attempts(sleep):
            try:
                call()
            except RocketMQError as error:
                if (over := self.failed(subject, topic, error)) is not None:
                    raise over from over.__cause__
            else:
                self.succeeded(subject, topic)
                return

    def attempts(self, sleep: Sleep) -> Iterator[None]:
        """Yield without end, with the policy's pauses between."""
        pause_ms = None
        while True:
            yield
            pause_ms = self._policy.pauses.after(pause_ms)
            sleep(pause_ms / 1000)

    def failed(self, subject: str, topic: str | None, error: RocketMQError) -> RocketMQError | None:
        """Note and log a failure. Return None if another attempt may succeed.

        Else ``error``, or TransportError[CLUSTER_TIMEOUT] around it: see ``FailureTracker.over``. ``topic``: whose
        route it had, unless it failed for that; None if it was tried without one, while name servers are silent or not.
        """
        outlook, now_ms = self._policy.outlook_of(error), self._clock()
        if outlook is Outlook.FINAL:
            return error
        failing = subject
        if is_without_route(error):
            self._unrouted.add(str(error.context["topic"]))
            failing = NAME_SERVERS
        elif topic is not None:
            self._routed(topic)
        self._tracker.failed(
            failing,
            error,
            now_ms=now_ms,
            limit_ms=self._policy.unserved_ms if outlook is Outlook.UNSERVED else self._policy.limit_ms,
            since_ms=None if self._waited is None or self._has_succeeded else self._waited(failing).since_ms(now_ms),
            quiet_ms=QUIET_MS,
        )
        if failing == NAME_SERVERS or (topic is None and self.are_name_servers_silent):
            self._tracker.excuse((subject,), now_ms, beside_ms=self._policy.limit_ms)
        self._log()
        over = self._tracker.over(failing, now_ms)
        if over is not None and self._waited is not None:
            self._waited(failing).gave_up(self._tracker.since_ms(failing))
        return over

    def succeeded(self, subject: str, topic: str | None) -> None:
        """It works, or is not waited for any more. ``topic``: as in ``failed``."""
        if self._waited is not None and not self._has_succeeded:
            self._waited(subject).answered()
        self._has_succeeded = True
        were_silent = topic is not None and self._routed(topic)
        if self._tracker.succeeded(subject) or were_silent:
            self._log()

    def routed(self, topic: str) -> None:
        """A name server has answered with the route of ``topic``."""
        if self._routed(topic):
            self._log()

    @property
    def are_name_servers_silent(self) -> bool:
        """Whether no name server has answered since they failed."""
        return self._tracker.is_failing(NAME_SERVERS)

    def _routed(self, topic: str) -> bool:
        """Return whether it was a failure of name servers that this route was missing. One that was known before
        shows nothing of them."""
        if topic not in self._unrouted:
            return False
        self._unrouted.clear()
        return self._tracker.succeeded(NAME_SERVERS)

    def _log(self) -> None:
        for line in self._tracker.lines(self._clock()):
            log.log(line.level, "%s", line)
