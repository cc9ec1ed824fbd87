"""Troubles: what does not answer, since when, for how long it may, and what of that is said."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.clock import Clock
from rocketmq_spark.remoting.failures import FailureTracker
from rocketmq_spark.remoting.retry import (
    NAME_SERVERS,
    Outlook,
    broker_subject,
    is_unknown_group,
    is_unknown_topic,
    is_without_route,
    outlook_of_pull,
    refreshes_route,
    topic_subject,
)
from rocketmq_spark.remoting.waits import LogLine, Wait


class Troubles:
    """Of one receiver. ``look`` has the routes asked for anew, soon.

    Threads: any; ``news`` is held for a moment, and notified of what ends the query. ``lines`` is one thread's.
    """

    def __init__(self, options: ReadOptions, news: threading.Condition, look: Callable[[], None], clock: Clock) -> None:
        self._options = options
        self._news = news
        self._look = look
        self._clock = clock
        self._tracker = FailureTracker(outlook_of_pull)
        self._crash: Exception | None = None

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What does not answer."""
        with self._news:
            return self._tracker.waits()

    @property
    def is_final(self) -> bool:
        """Whether something has gone wrong for good."""
        return self._crash is not None

    def check(self) -> None:
        """Raises what went wrong for good, or for too long."""
        with self._news:
            if self._crash is not None:
                raise self._crash
            self._tracker.check(self._clock())

    def lines(self) -> list[LogLine]:
        """Return what to log of failures, see ``WaitLines``; nothing after the one that ends the query."""
        return [] if self._crash else self._tracker.lines(self._clock(), self.waits)

    # ------------------------------------------------------------------------------------------ brokers, topics

    def may_ask(self, broker_name: str) -> bool:
        """Whether it does not fail, or its pause is over."""
        with self._news:
            return self._tracker.may_try(broker_subject(broker_name), self._clock())

    def is_failing(self, broker_name: str) -> bool:
        """It does not answer, or nobody says where it is."""
        with self._news:
            return not self._tracker.subjects.isdisjoint((NAME_SERVERS, broker_subject(broker_name)))

    def may_look(self) -> bool:
        """Whether a look did not fail just now."""
        subjects = (NAME_SERVERS, *map(topic_subject, self._options.topics))
        with self._news:
            return all(self._tracker.may_try(subject, self._clock()) for subject in subjects)

    def note_look(self, failures: dict[str, RocketMQError]) -> None:
        """By topic, of those that are read. While no name server answers nothing is known of any."""
        unfound = [error for error in failures.values() if is_without_route(error)]
        self._note(NAME_SERVERS, unfound[0] if unfound else None)
        for topic in self._options.topics:
            failure = failures.get(topic)
            if failure is None or not is_without_route(failure):
                self._note(topic_subject(topic), failure)

    def note(self, broker_name: str, outcome: object) -> None:
        """That it answers, or how it fails, which may be that nobody says where it is."""
        is_unfound = isinstance(outcome, RocketMQError) and is_without_route(outcome)
        self._note(NAME_SERVERS if is_unfound else broker_subject(broker_name), outcome)

    def _note(self, subject: str, outcome: object) -> None:
        if not isinstance(outcome, RocketMQError):
            with self._news:
                self._tracker.succeeded(subject)
            return
        if outlook_of_pull(outcome) is Outlook.FINAL:
            self.fail(outcome)
        options = self._options
        is_missing = is_unknown_topic(outcome) or is_unknown_group(outcome)
        limit_ms = options.missing_topic_timeout_ms if is_missing else options.cluster_timeout_ms
        with self._news:
            self._tracker.failed(subject, outcome, now_ms=self._clock(), limit_ms=limit_ms)
        if refreshes_route(outcome):
            self._look()

    def fail(self, error: Exception) -> None:
        """It ends the query."""
        with self._news:
            self._crash = self._crash or error
            self._news.notify_all()
