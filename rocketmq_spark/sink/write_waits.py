"""For how long a task waits for what: topics, queues, name servers; and what is said of that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.remoting.retry import (
    NAME_SERVERS,
    Outlook,
    Patience,
    outlook_of_write,
    refreshes_route,
    topic_subject,
)
from rocketmq_spark.remoting.waits import QUIET_MS, WaitLines

log = logging.getLogger(__name__)


class WriteWaits:
    """What fails now, and since when. ``forget_route`` has the next attempt ask anew where a topic is.

    A topic's or queue's time begins when a name server answers, unless these come and go. Threads: the task's own.
    """

    def __init__(self, options: WriteOptions, forget_route: Callable[[str], None], clock: Callable[[], int]) -> None:
        self._options = options
        self._forget_route = forget_route
        self._clock = clock
        self._patience = Patience(outlook_of_write)
        self._lines = WaitLines()

    def be_patient(self, subject: str, topic: str, error: RocketMQError) -> None:
        """Raises what has lasted too long, and at once what another attempt would not change."""
        self._failed(subject, topic, error)
        self._say()
        self._patience.check(self._clock())

    def given_up(self, failures: Mapping[str, RocketMQError]) -> frozenset[str]:
        """Of topics that have just failed those that nobody serves, and whose time for that is over. Raises what
        ``be_patient`` does of the others."""
        over = [topic for topic, error in failures.items() if self._failed(topic_subject(topic), topic, error)]
        unserved = frozenset(topic for topic in over if outlook_of_write(failures[topic]) is Outlook.UNSERVED)
        self._say()
        for topic in unserved:
            self.is_over(topic_subject(topic))
        self._patience.check(self._clock())
        return unserved

    def is_over(self, subject: str) -> None:
        """It is not waited for any more."""
        were_silent = self._patience.succeeded(NAME_SERVERS)
        if self._patience.succeeded(subject) or were_silent:
            self._say()

    def _failed(self, subject: str, topic: str, error: RocketMQError) -> bool:
        """Says whether its time is over now, and was not before."""
        outlook, now_ms = outlook_of_write(error), self._clock()
        if outlook is Outlook.FINAL:
            raise error
        if refreshes_route(error):
            self._forget_route(topic)
        limit_ms = self._options.cluster_timeout_ms
        if outlook is Outlook.UNSERVED:
            limit_ms = min(limit_ms, self._options.missing_topic_timeout_ms)
        if error.condition == "NO_NAME_SERVER":
            self._patience.excuse((subject,), now_ms, beside_ms=self._options.cluster_timeout_ms)
            subject = NAME_SERVERS
        else:
            self._patience.succeeded(NAME_SERVERS)
        return self._patience.failed(subject, error, now_ms=now_ms, limit_ms=limit_ms, quiet_ms=QUIET_MS)

    def _say(self) -> None:
        for line in self._lines.lines(self._patience.waits(), self._clock()):
            log.warning("%s", line)
