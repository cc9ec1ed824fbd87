"""Failures of servers and topics in message-based reads: their start, time limits and log lines."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.clock import Clock
from rocketmq_spark.remoting.failures import FailureTracker
from rocketmq_spark.remoting.outage_log import LogLine, Outage
from rocketmq_spark.remoting.retry import (
    NAME_SERVERS,
    Retryability,
    broker_subject,
    is_name_server_outage,
    is_unknown_group,
    is_unknown_topic,
    requires_route_refresh,
    retryability_of_pull,
    topic_subject,
)


class ReceiveFailures:
    """Failures of one receiver. ``refresh_soon`` schedules an early route refresh.

    Threads: any, for ``take_lines`` one; ``changed`` is held briefly, and notified of an error that ends the query.
    """

    def __init__(
        self, options: ReadOptions, changed: threading.Condition, refresh_soon: Callable[[], None], clock: Clock
    ) -> None:
        self._options = options
        self._changed = changed
        self._refresh_soon = refresh_soon
        self._clock = clock
        self._tracker = FailureTracker(retryability_of_pull)
        self._fatal_error: Exception | None = None

    @property
    def outages(self) -> tuple[Outage, ...]:
        """Return the current outages of name servers, brokers and topics."""
        with self._changed:
            return self._tracker.outages()

    @property
    def has_fatal_error(self) -> bool:
        """Return whether an error has ended the query."""
        return self._fatal_error is not None

    def raise_failure(self) -> None:
        """Raise the fatal error, whatever its class, or the RocketMQError of a failure that exceeded its time limit;
        else do nothing."""
        with self._changed:
            if self._fatal_error is not None:
                raise self._fatal_error
            self._tracker.raise_expired(self._clock())

    def take_lines(self) -> list[LogLine]:
        """Return the log lines due now for failures, and record them as logged, see ``OutageLog``; none after a fatal
        error."""
        return [] if self._fatal_error else self._tracker.take_lines(self._clock(), self.outages)

    # ------------------------------------------------------------------------------------------ brokers, topics

    def may_send(self, broker_name: str) -> bool:
        """Return whether requests to the broker do not fail, or its retry pause is over."""
        with self._changed:
            return self._tracker.may_try(broker_subject(broker_name), self._clock())

    def is_failing(self, broker_name: str) -> bool:
        """Return whether requests to the broker fail, or no name server responds."""
        with self._changed:
            return not self._tracker.subjects.isdisjoint((NAME_SERVERS, broker_subject(broker_name)))

    def may_refresh_routes(self) -> bool:
        """Return whether neither the name servers nor any topic is in a retry pause."""
        subjects = (NAME_SERVERS, *map(topic_subject, self._options.topics))
        with self._changed:
            return all(self._tracker.may_try(subject, self._clock()) for subject in subjects)

    def record_route_refresh(self, failures: dict[str, RocketMQError]) -> None:
        """Record a route refresh as failure or success of each topic and of the name servers. ``failures``: errors by
        topic. Topics whose error is that no name server responded keep their state. A permanent error ends the
        query."""
        unresolved = [error for error in failures.values() if is_name_server_outage(error)]
        self._record(NAME_SERVERS, unresolved[0] if unresolved else None)
        for topic in self._options.topics:
            failure = failures.get(topic)
            if failure is None or not is_name_server_outage(failure):
                self._record(topic_subject(topic), failure)

    def record_outcome(self, broker_name: str, outcome: object) -> None:
        """Record the outcome of a request to a broker: a RocketMQError is a failure, anything else a success. If the
        broker's address cannot be resolved, that is a failure of the name servers. A permanent error ends the query."""
        is_unresolved = isinstance(outcome, RocketMQError) and is_name_server_outage(outcome)
        self._record(NAME_SERVERS if is_unresolved else broker_subject(broker_name), outcome)

    def _record(self, subject: str, outcome: object) -> None:
        """Record a RocketMQError as failure of ``subject``, any other outcome as success. A permanent error becomes the
        fatal one; one that requires new routes schedules an early refresh. Raises nothing: see ``raise_failure``."""
        if not isinstance(outcome, RocketMQError):
            with self._changed:
                self._tracker.record_success(subject)
            return
        if retryability_of_pull(outcome) is Retryability.PERMANENT:
            self.fail(outcome)
        options = self._options
        is_missing = is_unknown_topic(outcome) or is_unknown_group(outcome)
        limit_ms = options.missing_topic_timeout_ms if is_missing else options.cluster_timeout_ms
        with self._changed:
            self._tracker.record_failure(subject, outcome, now_ms=self._clock(), limit_ms=limit_ms)
        if requires_route_refresh(outcome):
            self._refresh_soon()

    def fail(self, error: Exception) -> None:
        """Set the fatal error, which ``raise_failure`` raises, and notify waiting threads; an earlier one stays."""
        with self._changed:
            self._fatal_error = self._fatal_error or error
            self._changed.notify_all()
