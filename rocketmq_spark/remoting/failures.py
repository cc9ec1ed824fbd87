"""Tracking of current failures, their deadlines and their log lines; and the retry loop.

Pure: clock and sleep are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.remoting.error_kinds import is_name_server_outage, is_unanswered
from rocketmq_spark.remoting.outage_log import NAME_SERVERS, QUIET_MS, LogLine, Outage, OutageLog
from rocketmq_spark.remoting.retry import REQUEST_PAUSES, Policy, Retryability, retryability_of_request

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")

Sleep: TypeAlias = Callable[[float], None]

NO_LIMIT_MS: Final = 2**62
"""Limit of a failure that never ends a query or task."""

EXTENDED_QUIET_MS: Final = 15_000
"""Minimum duration of a logged outage after ``FailureTracker.extend_deadline``."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Current failure of one subject, with times in ms by the caller's clock."""

    first_ms: int
    since_ms: int
    pause_ms: int
    next_try_ms: int
    due_ms: int
    limit_ms: int
    until_ms: int
    is_expired: bool
    error: RocketMQError
    quiet_ms: int

    @property
    def deadline_ms(self) -> int | None:
        """Time at which this failure ends the query or task; None if it never does."""
        return None if self.limit_ms == NO_LIMIT_MS else self.until_ms


class FailureTracker:
    """Current failures by subject ("broker broker-a", "name servers", "topic orders"). Times come from the caller.
    ``retryability_of`` decides which error reports an exceeded limit: see ``expired_error``.

    A subject is retried after a pause (``REQUEST_PAUSES``; pulls have their own). A subject that has failed for its
    whole limit is expired, which is an error. Until then the caller continues with the subjects that work. If the
    failure changes to one with a shorter limit, this limit counts from the change, but never extends the longer one.

    Not thread-safe.
    """

    def __init__(self, retryability_of: Callable[[RocketMQError], Retryability] = retryability_of_request) -> None:
        self._retryability_of = retryability_of
        self._failures: dict[str, _Failure] = {}
        self._lines = OutageLog()

    def record_failure(
        self,
        subject: str,
        error: RocketMQError,
        *,
        now_ms: int,
        limit_ms: int,
        since_ms: int | None = None,
        quiet_ms: int = 0,
    ) -> bool:
        """Record a failure, of any retryability, and allow the next retry after a growing pause, at the latest when the
        limit ends. Return True for the failure with which the subject reaches its limit, else False. Raise and log
        nothing.

        ``limit_ms`` counts from the start of the outage. If it is not longer than the previous failure's limit, the
        previous end stays, or becomes ``now_ms + limit_ms`` if this is earlier. ``since_ms``: start of the outage, for
        its first failure only; None: ``now_ms``. ``quiet_ms``: a shorter outage is not logged; the largest value of its
        failures counts.
        """
        before = self._failures.get(subject)
        since_ms = before.since_ms if before else now_ms if since_ms is None else since_ms
        first_ms = before.first_ms if before else since_ms
        quiet_ms = max(quiet_ms, before.quiet_ms) if before else quiet_ms
        pause_ms = REQUEST_PAUSES.after(before.pause_ms if before else None)
        until_ms = since_ms + limit_ms
        if before and limit_ms <= before.limit_ms:
            until_ms = min(before.until_ms, now_ms + limit_ms)
        remaining_ms = until_ms - now_ms
        is_expired = remaining_ms <= 0
        next_ms = now_ms + (pause_ms if is_expired else min(pause_ms, remaining_ms))
        self._failures[subject] = _Failure(
            first_ms=first_ms,
            since_ms=since_ms,
            pause_ms=pause_ms,
            next_try_ms=next_ms,
            due_ms=next_ms,
            limit_ms=limit_ms,
            until_ms=until_ms,
            is_expired=is_expired,
            error=error,
            quiet_ms=quiet_ms,
        )
        return is_expired and not (before and before.is_expired)

    def record_success(self, subject: str) -> bool:
        """End the subject's failure; return whether there was one. Log nothing: ``take_lines`` returns the recovery."""
        return self._failures.pop(subject, None) is not None

    def discard(self, subject: str) -> None:
        """Remove the failure, if there is one, of a subject that is no longer used. The end of its outage is not logged
        as a recovery."""
        if self._failures.pop(subject, None) is not None:
            self._lines.drop(subject)

    def may_try(self, subject: str, now_ms: int) -> bool:
        """Return whether the subject is not failing, or its pause is over."""
        failure = self._failures.get(subject)
        return failure is None or now_ms >= failure.next_try_ms

    def is_failing(self, subject: str) -> bool:
        return subject in self._failures

    @property
    def is_anything_failing(self) -> bool:
        """Whether any subject is failing. Cheap, for callers with many subjects."""
        return bool(self._failures)

    def error_of(self, subject: str) -> RocketMQError | None:
        """Return the last error of a failing subject, or None if the subject is not failing."""
        failure = self._failures.get(subject)
        return None if failure is None else failure.error

    def since_ms(self, subject: str) -> int:
        """Return when the outage of a failing subject began, or ``extend_deadline`` restarted it, in ms by the caller's
        clock. KeyError for a subject that is not failing."""
        return self._failures[subject].since_ms

    def postpone(self, now_ms: int) -> None:
        """Move the wake-up time (``next_try_ms``) of each subject that is due at ``now_ms`` to one pause after
        ``now_ms``. The pause then doubles, up to 5 s. Call it after an attempt at all due subjects: one that was not
        tried, because earlier failures blocked it, would otherwise stay due. ``may_try`` still allows it."""
        for subject, failure in self._failures.items():
            if now_ms >= failure.due_ms:
                pause_ms = REQUEST_PAUSES.after(failure.pause_ms)
                self._failures[subject] = replace(failure, pause_ms=pause_ms, due_ms=now_ms + failure.pause_ms)

    @property
    def next_try_ms(self) -> int | None:
        """Earliest wake-up time of any failing subject, perhaps past; None while nothing fails. It is the next retry,
        unless ``postpone`` moved it."""
        return min((failure.due_ms for failure in self._failures.values()), default=None)

    @property
    def subjects(self) -> frozenset[str]:
        """The failing subjects."""
        return frozenset(self._failures)

    def outages(self, explained: Collection[str] = ()) -> tuple[Outage, ...]:
        """Return an ``Outage`` with start, deadline and reason for each failing subject that is not in ``explained``,
        in the order of their first failures."""
        return tuple(
            Outage(subject, one.since_ms, one.deadline_ms, str(one.error), one.error.condition, one.quiet_ms)
            for subject, one in self._failures.items()
            if subject not in explained
        )

    def take_lines(self, now_ms: int, outages: Collection[Outage] | None = None) -> list[LogLine]:
        """Return the lines to log now for ``outages``, and record them as logged: see ``OutageLog.take_lines``. None:
        for all outages of this tracker. A logged outage that is not in ``outages`` has ended."""
        return self._lines.take_lines(self.outages() if outages is None else outages, now_ms)

    def extend_deadline(self, subjects: Collection[str], now_ms: int, *, other_limit_ms: int | None = None) -> None:
        """Restart at ``now_ms`` the outages and limits of all failing ``subjects``, because another outage explains
        their failures. They mostly recover just after it, so each is logged only when it lasts for
        ``EXTENDED_QUIET_MS`` (15 s). ``other_limit_ms``: limit of the other outage, which may recur without end. A
        deadline is then at most twice the own limit plus ``other_limit_ms`` after the first failure. None: no
        maximum."""
        for subject in self._failures.keys() & subjects:
            failure, quiet_ms = self._failures[subject], max(self._failures[subject].quiet_ms, EXTENDED_QUIET_MS)
            until_ms = now_ms + failure.limit_ms
            if other_limit_ms is not None:
                until_ms = min(until_ms, failure.first_ms + 2 * failure.limit_ms + other_limit_ms)
            self._failures[subject] = replace(
                failure, since_ms=now_ms, until_ms=until_ms, is_expired=False, quiet_ms=quiet_ms
            )

    def raise_expired(self, now_ms: int) -> None:
        """Raise the ``expired_error`` of the first subject whose limit is over at ``now_ms``, if there is one."""
        for subject in self._failures:
            if (expired_error := self.expired_error(subject, now_ms)) is not None:
                raise expired_error

    def expired_error(self, subject: str, now_ms: int) -> RocketMQError | None:
        """Return, not raise, the error of a failing subject whose limit is over at ``now_ms``, else None. A transient
        last failure (a timeout, a busy broker) is the cause of a TransportError[CLUSTER_TIMEOUT]. Any other last
        failure (a missing topic) is returned itself. KeyError for a subject that is not failing."""
        failure = self._failures[subject]
        if now_ms < failure.until_ms:
            return None
        if self._retryability_of(failure.error) is not Retryability.TRANSIENT:
            return failure.error
        expired_error = TransportError(
            "CLUSTER_TIMEOUT",
            subject=subject,
            waited_ms=now_ms - failure.since_ms,
            limit_ms=failure.limit_ms,
            cause=failure.error.summary,
        )
        expired_error.__cause__ = failure.error
        return expired_error


class OutageHistory(Protocol):
    """Stored start of an outage of one subject, as earlier waiters recorded it; ``OutageNotes`` implements it."""

    def since_ms(self, now_ms: int) -> int | None:
        """Return the recorded start (ms by the clock of ``now_ms``), or None if none or a later one is recorded."""

    def record(self, since_ms: int) -> None:
        """Record the start, in place of an earlier one."""

    def clear(self) -> None:
        """Remove the record, if there is one."""


class Failures:
    """Current failures by subject: brokers, topics, queues, and the name servers while they return no route. Logs them.

    A subject's limit starts when a name server responds, unless name servers fail intermittently. ``outage_history``:
    records by subject the start of an outage that reaches its limit. Outages that earlier waiters recorded count until
    a call has succeeded here. Not thread-safe.
    """

    def __init__(
        self, policy: Policy, clock: Clock, outage_history: Callable[[str], OutageHistory] | None = None
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._outage_history = outage_history
        self._has_succeeded = False
        self._tracker = FailureTracker(policy.retryability_of)
        self._unrouted_topics: set[str] = set()
        """Topics for which name servers returned no route."""

    def retry_until_success(self, call: Callable[[], T], subject: str, topic: str | None, sleep: Sleep) -> T:
        """Repeat ``call`` until it succeeds, sleeping for the policy's pauses in between, and return its result. Record
        and log each failure of ``subject``. ``topic``: the topic whose route ``call`` needs; None: it needs no route.
        Raises what ``record_failure`` returns, for a permanent error or after the limit, and other exceptions at
        once."""
        results: list[T] = []

        def attempt(_: Iterable[str]) -> dict[str, RocketMQError]:
            """Call once; keep the result, or return the error."""
            try:
                results.append(call())
            except RocketMQError as error:
                return {subject: error}
            return {}

        for final_errors, _ in self.retry_each((subject,), attempt, lambda _: (subject, topic), sleep):
            for final_error in final_errors.values():
                raise final_error
        return results[0]

    def retry_each(
        self,
        keys: Collection[K],
        attempt: Callable[[Collection[K]], Mapping[K, RocketMQError]],
        subject_of: Callable[[K], tuple[str, str | None]],
        sleep: Sleep,
    ) -> Iterator[tuple[dict[K, RocketMQError], list[K]]]:
        """Call ``attempt`` for all ``keys``, then for those to retry until there are none, sleeping for the policy's
        growing pauses in between. Record and log the successes of each attempt, then its failures. After each yield its
        final errors, which ``record_failure`` has returned, and the keys to retry; yield nothing without ``keys``.

        ``attempt``: returns the error of each key that failed. ``subject_of``: returns the subject of a key, and the
        topic whose route it needs, or None. If the caller stops early, the failures of keys to retry stay recorded.
        """
        pending, pause_ms = list(keys), None
        while pending:
            if pause_ms is not None:
                sleep(pause_ms / 1000)
            pause_ms = self._policy.pauses.after(pause_ms)
            errors = attempt(pending)
            for key in pending:
                if key not in errors:
                    self.record_success(*subject_of(key))
            failed = {key: self.record_failure(*subject_of(key), errors[key]) for key in pending if key in errors}
            pending = [key for key, final_error in failed.items() if final_error is None]
            yield {key: final_error for key, final_error in failed.items() if final_error is not None}, pending

    def record_failure(self, subject: str, topic: str | None, error: RocketMQError) -> RocketMQError | None:
        """Record and log a failure of ``subject``, unless ``error`` is permanent. Return None if another attempt may
        succeed. Otherwise return, not raise, ``error``, or after the limit what ``FailureTracker.expired_error``
        returns.

        An outage of the name servers is recorded for subject NAME_SERVERS, and restarts the limit of ``subject``.
        ``topic``: the topic whose route the call needed: any other ``error`` shows that name servers returned it. None:
        the call needed no route; its failure restarts the limit of ``subject`` while the name servers are unresponsive.
        """
        if self._policy.retryability_of(error) is Retryability.PERMANENT:
            return error
        now_ms, failed_subject = self._clock(), subject
        if is_name_server_outage(error):
            self._unrouted_topics.add(str(error.context["topic"]))
            failed_subject = NAME_SERVERS
        elif topic is not None:
            self._record_route(topic)
        self._tracker.record_failure(
            failed_subject,
            error,
            now_ms=now_ms,
            limit_ms=self._policy.limit_ms_of(error),
            since_ms=None
            if self._outage_history is None or self._has_succeeded
            else self._outage_history(failed_subject).since_ms(now_ms),
            quiet_ms=QUIET_MS,
        )
        if failed_subject == NAME_SERVERS or (topic is None and self.are_name_servers_unresponsive):
            self._tracker.extend_deadline((subject,), now_ms, other_limit_ms=self._policy.limit_ms)
        self._log()
        expired_error = self._tracker.expired_error(failed_subject, now_ms)
        if expired_error is not None and self._outage_history is not None:
            self._outage_history(failed_subject).record(self._tracker.since_ms(failed_subject))
        return expired_error

    def unresponsive_error(self, subject: str, topic: str) -> RocketMQError | None:
        """Return, not raise, the error of an unresponsive ``subject`` whose limit is over; None in all other cases, and
        after each pause of the subject (at most 5 s), so that a call can find it recovered. The same for name servers
        that have returned no route of ``topic``. A failure with a response does not count: it may be one topic's."""
        now_ms = self._clock()
        for one in (subject, NAME_SERVERS) if topic in self._unrouted_topics else (subject,):
            error = self._tracker.error_of(one)
            if error is None or self._tracker.may_try(one, now_ms):
                continue
            if not is_unanswered(error) and not is_name_server_outage(error):
                continue
            if (expired_error := self._tracker.expired_error(one, now_ms)) is not None:
                return expired_error
        return None

    def record_success(self, subject: str, topic: str | None) -> None:
        """End the failure of ``subject``, after a success or because nothing waits for it now, and log its recovery.
        The first success also clears the ``outage_history`` of ``subject``. ``topic``: the topic whose route the call
        needed, or None. If name servers failed to return this route, end their outage and log it."""
        if self._outage_history is not None and not self._has_succeeded:
            self._outage_history(subject).clear()
        self._has_succeeded = True
        were_unresponsive = topic is not None and self._record_route(topic)
        if self._tracker.record_success(subject) or were_unresponsive:
            self._log()

    def record_route(self, topic: str) -> None:
        """Record that a name server returned the route of ``topic``. If name servers had returned none for it, end
        their outage and log the recovery."""
        if self._record_route(topic):
            self._log()

    @property
    def are_name_servers_unresponsive(self) -> bool:
        """Whether no name server has responded since they failed."""
        return self._tracker.is_failing(NAME_SERVERS)

    def _record_route(self, topic: str) -> bool:
        """Record that a name server returned the route of ``topic``; return whether that ends an outage of the name
        servers. Do nothing, and return False, for a topic that has not failed in this outage: its cached route shows
        nothing about them."""
        if topic not in self._unrouted_topics:
            return False
        self._unrouted_topics.clear()
        return self._tracker.record_success(NAME_SERVERS)

    def _log(self) -> None:
        """Log the lines that ``FailureTracker.take_lines`` returns now."""
        for line in self._tracker.take_lines(self._clock()):
            log.log(line.level, "%s", line)
