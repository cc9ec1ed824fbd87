"""Troubles: what does not answer, since when, for how long it may, and what of that is said."""

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
    """Of one receiver. ``refresh_soon`` has the routes asked for anew, soon.

    Threads: any; ``changed`` is held for a moment, and notified of what ends the query. ``lines`` is one thread's.
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
        """What does not answer."""
        with self._changed:
            return self._tracker.outages()

    @property
    def has_fatal_error(self) -> bool:
        """Whether something has gone wrong for good."""
        return self._fatal_error is not None

    def check(self) -> None:
        """Raises what went wrong for good, or for too long."""
        with self._changed:
            if self._fatal_error is not None:
                raise self._fatal_error
            self._tracker.check(self._clock())

    def lines(self) -> list[LogLine]:
        """Return what to log of failures, see ``OutageLog``; nothing after the one that ends the query."""
        return [] if self._fatal_error else self._tracker.lines(self._clock(), self.outages)

    # ------------------------------------------------------------------------------------------ brokers, topics

    def may_send(self, broker_name: str) -> bool:
        """Whether it does not fail, or its pause is over."""
        with self._changed:
            return self._tracker.may_try(broker_subject(broker_name), self._clock())

    def is_failing(self, broker_name: str) -> bool:
        """It does not answer, or nobody says where it is."""
        with self._changed:
            return not self._tracker.subjects.isdisjoint((NAME_SERVERS, broker_subject(broker_name)))

    def may_refresh_routes(self) -> bool:
        """Whether a look did not fail just now."""
        subjects = (NAME_SERVERS, *map(topic_subject, self._options.topics))
        with self._changed:
            return all(self._tracker.may_try(subject, self._clock()) for subject in subjects)

    def note_route_refresh(self, failures: dict[str, RocketMQError]) -> None:
        """By topic, of those that are read. While no name server answers nothing is known of any."""
        unresolved = [error for error in failures.values() if is_name_server_outage(error)]
        self._note(NAME_SERVERS, unresolved[0] if unresolved else None)
        for topic in self._options.topics:
            failure = failures.get(topic)
            if failure is None or not is_name_server_outage(failure):
                self._note(topic_subject(topic), failure)

    def note(self, broker_name: str, outcome: object) -> None:
        """That it answers, or how it fails, which may be that nobody says where it is."""
        is_unresolved = isinstance(outcome, RocketMQError) and is_name_server_outage(outcome)
        self._note(NAME_SERVERS if is_unresolved else broker_subject(broker_name), outcome)

    def _note(self, subject: str, outcome: object) -> None:
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
        """It ends the query."""
        with self._changed:
            self._fatal_error = self._fatal_error or error
            self._changed.notify_all()
