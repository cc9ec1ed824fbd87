"""Outages with subject, start, deadline and reason, and the log lines about them. Pure; times come from the caller.

An outage is one event, regardless of the number of failed requests. It is logged at its start, at growing intervals
while it lasts, and at its end. ``Throttle`` limits all repeated log lines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketmq_spark.grouping import grouped

FIRST_PAUSE_MS: Final = 15_000
"""Pause between the first two log lines of one subject; each next pause is twice as long, up to LONGEST_PAUSE_MS."""

LONGEST_PAUSE_MS: Final = 600_000

QUIET_MS: Final = 1_000
"""Shorter failures of a request are not logged."""

MAX_NAMED: Final = 3
"""Maximum number of outages that one line names; it counts all further ones."""

NAME_SERVERS: Final = "the name servers"
"""Subject of an outage of the name servers."""

TOPIC_LIST: Final = "the name servers that list topics"
"""Subject of an outage while the topics of a pattern are looked up."""


def broker_subject(broker_name: str) -> str:
    """Return the subject of a broker's outage."""
    return f"broker {broker_name}"


def master_subject(broker_name: str) -> str:
    """Return the subject of a broker that is read at a slave until it has a master."""
    return f"the master of {broker_subject(broker_name)}"


def conversion_subject(topic: str, broker_name: str) -> str:
    """Return the subject of responses that a proxy cannot convert. Their broker has responded."""
    return f"convertible messages of {topic_subject(topic)} at {broker_subject(broker_name)}"


def topic_subject(topic: str) -> str:
    """Return the subject of a topic's outage: the name servers do not have it, or no client may use it."""
    return f"topic {topic}"


class Throttle:
    """Limit on repeated log lines, with growing pauses. Not thread-safe; times are arguments."""

    def __init__(self) -> None:
        """Begin without a pause: the first line may be logged at once."""
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def start(self, now_ms: int) -> None:
        """Record the first log line, at ``now_ms``; the next one is allowed FIRST_PAUSE_MS (15 s) later."""
        self._next_ms, self._pause_ms = now_ms + FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS

    def try_acquire(self, now_ms: int) -> bool:
        """Return whether the pause is over, so that a line may be logged. If so, start the next pause: FIRST_PAUSE_MS
        (15 s), then each twice as long as the one before, up to LONGEST_PAUSE_MS (10 min)."""
        if now_ms < self._next_ms:
            return False
        self._next_ms, self._pause_ms = now_ms + self._pause_ms, min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        return True

    def try_acquire_event(self, now_ms: int) -> bool:
        """Do what ``try_acquire`` does, for a line about an event. If the pause has been over for at least as long as
        the next one would last, the next one is FIRST_PAUSE_MS again."""
        if now_ms >= self._next_ms + self._pause_ms:
            self._pause_ms = FIRST_PAUSE_MS
        return self.try_acquire(now_ms)


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage of one resource, in progress. ``resource``: its name as in "Waiting for ...". Times in ms.

    ``until_ms``: deadline, which ends the query or task, or None. ``key``: first word of its log lines. ``quiet_ms``:
    shorter outages are not logged.
    """

    resource: str
    since_ms: int
    until_ms: int | None
    reason: str
    key: str
    quiet_ms: int = 0

    def is_loggable(self, now_ms: int) -> bool:
        """Return whether it has lasted for ``quiet_ms``."""
        return now_ms - self.since_ms >= self.quiet_ms


class LogLine(NamedTuple):
    """One log line. ``key``: its first word, stable for alerts."""

    level: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(slots=True)
class _Logged:
    """An outage whose start was logged. ``over_ms``: end or None. ``is_dropped``: the resource is no longer used."""

    key: str
    since_ms: int
    over_ms: int | None = None
    is_dropped: bool = False


class OutageLog:
    """Log lines about outages; one line covers all outages of one key that changed together. Not thread-safe.

    An outage keeps the key of its first line even if its reason changes, so that the line of its end has the same key.
    """

    def __init__(self) -> None:
        self._logged: dict[str, _Logged] = {}
        self._begun_ms = 0
        self._throttle = Throttle()

    def drop(self, resource: str) -> None:
        """Record that the caller no longer uses ``resource``. The end of its logged outage is then logged as "Not
        recovered", unless ``take_lines`` gets an outage of it before. Do nothing without a logged outage."""
        if resource in self._logged:
            self._logged[resource].is_dropped = True

    def take_lines(self, outages: Collection[Outage], now_ms: int) -> list[LogLine]:
        """Return the lines to log now, mostly none, and record that they are logged: each is returned once. A WARNING
        reports outages that have begun, once they are loggable. At growing pauses, a WARNING reports all outages that
        last. When none lasts or another begins, INFO reports ended ones. ``outages``: all current outages; a logged
        outage that is not in ``outages`` has ended."""
        if not outages and not self._logged:
            return []
        lasting = [outage for outage in outages if outage.resource in self._logged or outage.is_loggable(now_ms)]
        new = [
            outage for outage in lasting if outage.resource not in self._logged or self._has_recurred(outage, now_ms)
        ]
        self._record_ends({outage.resource for outage in outages}, now_ms)
        if new:
            ended = self._take_ended()
            self._logged |= {outage.resource: _Logged(outage.key, outage.since_ms) for outage in new}
            self._begun_ms = now_ms
            self._throttle.start(now_ms)
            begun = _by_key(new, lambda outage: outage.key, lambda some: f"Waiting for {_describe_start(some, now_ms)}")
            return [*begun, *_ends(ended, "Now reported as", by=", ".join(dict.fromkeys(outage.key for outage in new)))]
        if self._logged and not lasting:
            return _ends(self._take_ended(), "Recovered")
        if lasting and self._throttle.try_acquire(now_ms):
            key_of = self._logged
            return _by_key(
                lasting,
                lambda outage: key_of[outage.resource].key,
                lambda some: f"Still waiting for {_describe_ongoing(some, now_ms)}",
            )
        return []

    def _has_recurred(self, outage: Outage, now_ms: int) -> bool:
        """Return whether ``outage`` started after the logged outage of its resource, which has ended. It is then logged
        even while other outages last. False within FIRST_PAUSE_MS of the last line about the start of any outage,
        because a resource may flap. Raises KeyError for a resource that is not logged."""
        return outage.since_ms > self._logged[outage.resource].since_ms and now_ms - self._begun_ms >= FIRST_PAUSE_MS

    def _record_ends(self, ongoing: Collection[str], now_ms: int) -> None:
        """Record that logged outages whose resources are not in ``ongoing`` have ended, at ``now_ms`` unless they ended
        before. Record that all other logged outages are in progress, and not dropped."""
        for resource, logged in self._logged.items():
            if resource in ongoing:
                logged.over_ms, logged.is_dropped = None, False
            elif logged.over_ms is None:
                logged.over_ms = now_ms

    def _take_ended(self) -> dict[str, _Logged]:
        """Remove the logged outages that are recorded as ended, and return them by resource."""
        ended = {resource: logged for resource, logged in self._logged.items() if logged.over_ms is not None}
        for resource in ended:
            del self._logged[resource]
        return ended


def _by_key(
    outages: Iterable[Outage], key_of: Callable[[Outage], str], text: Callable[[list[Outage]], str]
) -> list[LogLine]:
    """Group ``outages`` by ``key_of``, in order, and return one WARNING line for each key, with ``text`` of its
    outages."""
    return [LogLine(logging.WARNING, key, text(some)) for key, some in grouped(outages, key_of).items()]


def _ends(ended: Mapping[str, _Logged], how: str, *, by: str = "") -> list[LogLine]:
    """Return an INFO line for each key and kind of end, recovered or dropped, with the resources and the longest
    duration. ``how``: first word for a recovered outage; ``by``: keys of the outages that replaced it, or ""."""
    groups: dict[tuple[str, bool], dict[str, int]] = {}
    for resource, logged in ended.items():
        lasted_ms = (logged.over_ms or 0) - logged.since_ms
        groups.setdefault((logged.key, logged.is_dropped), {})[resource] = lasted_ms
    return [
        LogLine(
            logging.INFO,
            key,
            f"{_how(how, by, is_dropped)} after {_format_seconds(max(some.values()))}: {_join_names(some)}",
        )
        for (key, is_dropped), some in groups.items()
    ]


def _how(how: str, by: str, is_dropped: bool) -> str:
    """Return the start of a log line of ended outages: "Not recovered, but no longer used," if dropped, else
    ``how``. A ``by`` that is not empty is appended, as in "Now reported as QUEUES_UNAVAILABLE,"."""
    if is_dropped:
        return "Not recovered, but no longer used,"
    return f"{how} {by}," if by else how


def _describe_start(outages: Iterable[Outage], now_ms: int) -> str:
    """Return resource, remaining time and reason of the outages, as one text that names at most MAX_NAMED."""
    return _join_names(
        f"{outage.resource} ({_describe_time_left(outage, now_ms)}): {outage.reason}" for outage in outages
    )


def _describe_ongoing(outages: Iterable[Outage], now_ms: int) -> str:
    """Return resource, duration, remaining time and reason of the outages, as one text that names at most MAX_NAMED."""
    return _join_names(
        f"{outage.resource} (for {_format_seconds(now_ms - outage.since_ms)}, "
        f"{_describe_time_left(outage, now_ms)}): {outage.reason}"
        for outage in outages
    )


def _describe_time_left(outage: Outage, now_ms: int) -> str:
    """Return "fails in N s", with the time until the outage's limit, 0 after it, or "no time limit"."""
    if outage.until_ms is None:
        return "no time limit"
    return f"fails in {_round_up_seconds(max(0, outage.until_ms - now_ms))}"


def _join_names(texts: Iterable[str]) -> str:
    """Join the first MAX_NAMED (3) texts with semicolons, without the final period of all but the last, and append the
    number of further ones. At least one is required."""
    listed = list(texts)
    more = f"; and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    *first_ones, last = listed[:MAX_NAMED]
    return "; ".join([*(text.removesuffix(".") for text in first_ones), last]) + more


def _round_up_seconds(duration_ms: int) -> str:
    """Format a duration in whole seconds (``15 s``), rounded up: a new limit is shown in full."""
    return f"{-(-duration_ms // 1000)} s"


def _format_seconds(duration_ms: int) -> str:
    """Format a duration: under 10 s with one decimal (``0.3 s``), else in whole seconds, rounded down (``57 s``)."""
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 10_000 else f"{duration_ms // 1000} s"
