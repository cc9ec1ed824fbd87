"""Waits: what is waited for, since when and until when, and when to log it. Pure; times come from the caller.

An outage is one event, however many requests fail in it. So it is logged at once, again at growing intervals while it
lasts, and when it is over. ``Throttle`` is for all that is logged repeatedly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

FIRST_PAUSE_MS: Final = 15_000
"""Between the first two times that something is logged; each next pause is twice as long."""

LONGEST_PAUSE_MS: Final = 600_000

QUIET_MS: Final = 1_000
"""A request may fail and succeed a moment later, which is not logged."""

MOST_NAMED: Final = 3
"""Outages that one line names; the others it counts."""


class Throttle:
    """When to log again what lasts, or repeats. Not thread-safe; times are arguments."""

    def __init__(self) -> None:
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def start(self, now_ms: int) -> None:
        """Note that it is logged now, for the first time."""
        self._next_ms, self._pause_ms = now_ms + FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS

    def is_due(self, now_ms: int) -> bool:
        """Whether the pause is over. If so, the next one is twice as long, from now on."""
        if now_ms < self._next_ms:
            return False
        self._next_ms, self._pause_ms = now_ms + self._pause_ms, min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        return True

    def is_due_for(self, now_ms: int) -> bool:
        """The same for an event: after a time without any that was as long as the pause before, as the first time."""
        if now_ms >= self._next_ms + self._pause_ms:
            self._pause_ms = FIRST_PAUSE_MS
        return self.is_due(now_ms)


@dataclass(frozen=True, slots=True)
class Wait:
    """An outage of one resource. ``what`` is as it stands after "Waiting for". ``until_ms``: when the query or task
    fails; None: it does not for this. ``key``: of its log lines.

    ``quiet_ms``: nothing is logged of what passes within this time, which most often it does.
    """

    what: str
    since_ms: int
    until_ms: int | None
    cause: str
    key: str
    quiet_ms: int = 0

    def is_told(self, now_ms: int) -> bool:
        """Whether it has lasted long enough to be logged."""
        return now_ms - self.since_ms >= self.quiet_ms


class LogLine(NamedTuple):
    """One line of a log: ``key`` is its first word, by which alerts find it."""

    level: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(slots=True)
class _Logged:
    """An outage whose beginning was logged. ``over_ms``: since when it is none any more."""

    key: str
    since_ms: int
    over_ms: int | None = None
    is_dropped: bool = False


class WaitLines:
    """The lines that report outages, each about all of one key that have changed together. Not thread-safe.

    An outage keeps the key of its first line, also where its cause changes: its end is found by it.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Logged] = {}
        self._begun_ms = 0
        self._throttle = Throttle()

    def drop(self, what: str) -> None:
        """The caller does not need it any more: if this ends its outage, that is no recovery."""
        if what in self._told:
            self._told[what].is_dropped = True

    def lines(self, waits: Collection[Wait], now_ms: int) -> list[LogLine]:
        """Return what to log now that ``waits`` are all there are; nothing, most often."""
        if not waits and not self._told:
            return []
        lasting = [wait for wait in waits if wait.what in self._told or wait.is_told(now_ms)]
        new = [wait for wait in lasting if wait.what not in self._told or self._has_returned(wait, now_ms)]
        self._note_ends({wait.what for wait in waits}, now_ms)
        if new:
            ended = self._take_ended()
            self._told |= {wait.what: _Logged(wait.key, wait.since_ms) for wait in new}
            self._begun_ms = now_ms
            self._throttle.start(now_ms)
            begun = _by_key(new, lambda wait: wait.key, lambda some: f"Waiting for {_begun(some, now_ms)}")
            return [*begun, *_ends(ended, "Replaced", by=", ".join(dict.fromkeys(wait.key for wait in new)))]
        if self._told and not lasting:
            return _ends(self._take_ended(), "Recovered")
        if lasting and self._throttle.is_due(now_ms):
            key_of = self._told
            return _by_key(
                lasting, lambda wait: key_of[wait.what].key, lambda some: f"Still waiting for {_lasting(some, now_ms)}"
            )
        return []

    def _has_returned(self, wait: Wait, now_ms: int) -> bool:
        """Whether it was over and is another one now, which the others must not hide; with a pause, as it may flap."""
        return wait.since_ms > self._told[wait.what].since_ms and now_ms - self._begun_ms >= FIRST_PAUSE_MS

    def _note_ends(self, whats: Collection[str], now_ms: int) -> None:
        for what, logged in self._told.items():
            if what in whats:
                logged.over_ms, logged.is_dropped = None, False
            elif logged.over_ms is None:
                logged.over_ms = now_ms

    def _take_ended(self) -> dict[str, _Logged]:
        ended = {what: logged for what, logged in self._told.items() if logged.over_ms is not None}
        for what in ended:
            del self._told[what]
        return ended


def _by_key(waits: Iterable[Wait], key_of: Callable[[Wait], str], text: Callable[[list[Wait]], str]) -> list[LogLine]:
    by_key: dict[str, list[Wait]] = {}
    for wait in waits:
        by_key.setdefault(key_of(wait), []).append(wait)
    return [LogLine(logging.WARNING, key, text(some)) for key, some in by_key.items()]


def _ends(ended: Mapping[str, _Logged], how: str, *, by: str = "") -> list[LogLine]:
    """A line for each key and kind of end. ``by``: what has replaced those that were not dropped."""
    groups: dict[tuple[str, bool], dict[str, int]] = {}
    for what, logged in ended.items():
        lasted_ms = (logged.over_ms or 0) - logged.since_ms
        groups.setdefault((logged.key, logged.is_dropped), {})[what] = lasted_ms
    return [
        LogLine(logging.INFO, key, f"{_how(how, by, is_dropped)} after {_seconds(max(some.values()))}: {_named(some)}")
        for (key, is_dropped), some in groups.items()
    ]


def _how(how: str, by: str, is_dropped: bool) -> str:
    if is_dropped:
        return "No longer required,"
    return f"{how} by {by}" if by else how


def _begun(waits: Iterable[Wait], now_ms: int) -> str:
    return _named(f"{wait.what} ({_left(wait, now_ms)}): {wait.cause}" for wait in waits)


def _lasting(waits: Iterable[Wait], now_ms: int) -> str:
    return _named(
        f"{wait.what} (for {_seconds(now_ms - wait.since_ms)}, {_left(wait, now_ms)}): {wait.cause}" for wait in waits
    )


def _left(wait: Wait, now_ms: int) -> str:
    if wait.until_ms is None:
        return "no time limit"
    return f"fails in {_whole_seconds(max(0, wait.until_ms - now_ms))}"


def _named(texts: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    listed = list(texts)
    more = f"; and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    *others, last = listed[:MOST_NAMED]
    return "; ".join([*(text.removesuffix(".") for text in others), last]) + more


def _whole_seconds(duration_ms: int) -> str:
    """Rounded up: a limit that has just begun is whole."""
    return f"{-(-duration_ms // 1000)} s"


def _seconds(duration_ms: int) -> str:
    """A duration as people read it: ``0.3 s``, ``57 s``."""
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 10_000 else f"{duration_ms // 1000} s"
