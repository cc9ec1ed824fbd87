"""Failures of servers and topics in message-based reads: their start, time limits and log lines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Final

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome
from rocketmq_spark.remoting.clock import Clock
from rocketmq_spark.remoting.error_kinds import is_name_server_outage
from rocketmq_spark.remoting.failures import FailureTracker
from rocketmq_spark.remoting.outage_log import (
    NAME_SERVERS,
    LogLine,
    Outage,
    broker_subject,
    conversion_subject,
    topic_subject,
)
from rocketmq_spark.remoting.retry import REQUEST_PAUSES, Retryability, message_mode_policy, requires_route_refresh

AWAIT_POLL_AFTER_MS: Final = REQUEST_PAUSES.longest_ms
"""How long only acknowledgements and extensions may end a failure of a broker that was no poll's."""


class ReceiveFailures:
    """Current failures of name servers, topics and brokers for one receiver, and the error that ends its query.

    ``refresh_soon`` schedules an early route refresh. Threads: any, for ``take_lines`` one; ``changed`` is held
    briefly, and notified of an error that ends the query.
    """

    def __init__(
        self, options: ReadOptions, changed: threading.Condition, refresh_soon: Callable[[], None], clock: Clock
    ) -> None:
        self._topics = options.topics
        self._changed = changed
        self._refresh_soon = refresh_soon
        self._clock = clock
        self._policy = message_mode_policy(options.cluster_timeout_ms, options.missing_topic_timeout_ms)
        self._tracker = FailureTracker(self._policy.retryability_of)
        self._failed_polls: set[Target] = set()
        """Targets whose last poll failed, or returned nothing that could be converted."""
        self._fatal_error: Exception | None = None

    @property
    def outages(self) -> tuple[Outage, ...]:
        """Return the current outages: of name servers, brokers and topics, and of conversions of a target's
        messages."""
        with self._changed:
            return self._tracker.outages()

    @property
    def has_fatal_error(self) -> bool:
        """Return whether a permanent error, or one of a thread, has been recorded. Not for a failure over its time
        limit."""
        return self._fatal_error is not None

    def raise_failure(self) -> None:
        """Raise the fatal error, of any class. Else raise the ``expired_error`` of a failure that has lasted for the
        limit of ``message_mode_policy``. Else do nothing."""
        with self._changed:
            if self._fatal_error is not None:
                raise self._fatal_error
            self._tracker.raise_expired(self._clock())

    def take_lines(self) -> list[LogLine]:
        """Return the log lines that are due about failures, mostly none, and record them as logged: see ``OutageLog``.
        Return [] after a fatal error."""
        return [] if self._fatal_error else self._tracker.take_lines(self._clock(), self.outages)

    # ------------------------------------------------------------------------------------------ brokers, topics

    def may_send(self, broker_name: str) -> bool:
        """Return whether the broker's last request did not fail, or the retry pause after it is over."""
        with self._changed:
            return self._tracker.may_try(broker_subject(broker_name), self._clock())

    def may_receive(self, target: Target) -> bool:
        """Return whether ``may_send`` to the target's broker, and the target's last response could be converted, or the
        retry pause after it is over."""
        with self._changed:
            is_convertible = self._tracker.may_try(conversion_subject(*target), self._clock())
        return is_convertible and self.may_send(target.broker_name)

    def awaits_poll(self, target: Target) -> bool:
        """Return whether the target must be polled to end a failure: its last poll failed, or its broker has been
        failing for AWAIT_POLL_AFTER_MS. Until then, acknowledgements and extensions may end the broker's failure."""
        subject = broker_subject(target.broker_name)
        with self._changed:
            is_failing = self._tracker.is_failing(subject)
            lasts = is_failing and self._clock() - self._tracker.since_ms(subject) >= AWAIT_POLL_AFTER_MS
            return lasts or target in self._failed_polls

    def is_failing(self, broker_name: str) -> bool:
        """Return whether the broker's last request failed, or no name server responds."""
        with self._changed:
            return not self._tracker.subjects.isdisjoint((NAME_SERVERS, broker_subject(broker_name)))

    def may_refresh_routes(self) -> bool:
        """Return whether neither the name servers nor a subscribed topic is in the retry pause after a failure."""
        subjects = (NAME_SERVERS, *map(topic_subject, self._topics))
        with self._changed:
            return all(self._tracker.may_try(subject, self._clock()) for subject in subjects)

    def record_route_refresh(self, failures: dict[str, RocketMQError]) -> None:
        """Record a route refresh. ``failures``: errors by topic. The name servers failed if an error reports that none
        responded, otherwise they succeeded. A topic failed with its error, or succeeded without one. Its state stays if
        the name servers are the cause. A permanent error ends the query. Raise nothing."""
        unresolved = [error for error in failures.values() if is_name_server_outage(error)]
        self._record(NAME_SERVERS, unresolved[0] if unresolved else None)
        for topic in self._topics:
            failure = failures.get(topic)
            if failure is None or not is_name_server_outage(failure):
                self._record(topic_subject(topic), failure)

    def record_outcome(self, broker_name: str, outcome: object) -> None:
        """Record the outcome of a request to a broker. A RocketMQError is a failure of the broker, or of the name
        servers if none responded. Anything else is a success of the broker. Call ``refresh_soon`` for an error that
        requires new routes. Raise nothing: a permanent error ends the query by ``raise_failure``."""
        is_unresolved = isinstance(outcome, RocketMQError) and is_name_server_outage(outcome)
        self._record(NAME_SERVERS if is_unresolved else broker_subject(broker_name), outcome)

    def record_poll(self, target: Target, outcome: ReceiveOutcome) -> None:
        """Record the outcome of a poll as ``record_outcome`` does, and for ``awaits_poll`` whether it failed. An
        incomplete response is a success of the broker. Without messages it is also a failure to convert the target's
        messages, which delays polls of this target only. A complete response, or one with messages, ends that failure.
        An exception that is no RocketMQError only ends the query."""
        if isinstance(outcome, Exception) and not isinstance(outcome, RocketMQError):
            self.fail(outcome)
            return
        failure = outcome if isinstance(outcome, RocketMQError) else None
        if isinstance(outcome, IncompleteResponse):
            failure, outcome = None if outcome.received else outcome.failure, outcome.received
        self.record_outcome(target.broker_name, outcome)
        if not isinstance(outcome, RocketMQError):
            self._record(conversion_subject(*target), failure)
        with self._changed:
            if failure is None:
                self._failed_polls.discard(target)
            else:
                self._failed_polls |= {target}

    def retain_targets(self, targets: Collection[Target]) -> None:
        """Discard what polls of other targets, which are polled no more, have recorded: that the last one failed, and
        failures to convert messages. Failures of brokers stay."""
        with self._changed:
            for target in self._failed_polls.difference(targets):
                self._tracker.discard(conversion_subject(*target))
            self._failed_polls.intersection_update(targets)

    def _record(self, subject: str, outcome: object) -> None:
        """Record a RocketMQError as failure of ``subject``, any other outcome as its success. A permanent error also
        becomes the fatal error. An error that requires new routes schedules an early refresh. Raises nothing: see
        ``raise_failure``."""
        if not isinstance(outcome, RocketMQError):
            with self._changed:
                self._tracker.record_success(subject)
            return
        if self._policy.retryability_of(outcome) is Retryability.PERMANENT:
            self.fail(outcome)
        limit_ms = self._policy.limit_ms_of(outcome)
        with self._changed:
            self._tracker.record_failure(subject, outcome, now_ms=self._clock(), limit_ms=limit_ms)
        if requires_route_refresh(outcome):
            self._refresh_soon()

    def fail(self, error: Exception) -> None:
        """Set the fatal error, which ``raise_failure`` then raises, unless there is one; notify waiting threads."""
        with self._changed:
            self._fatal_error = self._fatal_error or error
            self._changed.notify_all()
