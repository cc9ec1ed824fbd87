"""Waits: what is waited for, since when and until when, and when to say so. Pure; times come from the caller.

An outage is one event, whatever is asked how often in it. So it is said at once, again at growing intervals while it
lasts, and when it is over. ``Throttle`` is for all that is logged again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_MS: Final = 15_000
"""Between the first two times that something is logged; each next pause is twice as long."""

LONGEST_PAUSE_MS: Final = 600_000

QUIET_MS: Final = 1_000
"""A request may fail and succeed a moment later; of that nothing is said."""

MOST_NAMED: Final = 3
"""Waits that one line names; the others it counts."""


class Throttle:
    """When to log again what goes on, or comes again and again. Not thread-safe; times are arguments."""

    def __init__(self) -> None:
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def start(self, now_ms: int) -> None:
        """It is logged now, as the first time."""
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
    """``what`` is as it stands after "waiting for". ``until_ms``: when the query fails; None: it does not for this.

    ``quiet_ms``: nothing is said of what passes within so long, which most often it does.
    """

    what: str
    since_ms: int
    until_ms: int | None
    cause: str
    quiet_ms: int = 0

    def is_told(self, now_ms: int) -> bool:
        """Whether it has lasted long enough to be told."""
        return now_ms - self.since_ms >= self.quiet_ms


class WaitLines:
    """The lines that tell of waits, each about all that have changed together. Not thread-safe."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._begun_ms = 0
        self._throttle = Throttle()

    def lines(self, waits: Collection[Wait], now_ms: int) -> list[str]:
        """What to say now that ``waits`` are all there are; nothing, most often."""
        if not waits and not self._told:
            return []
        lasting = [wait for wait in waits if wait.what in self._told or wait.is_told(now_ms)]
        new = [wait for wait in lasting if wait.what not in self._told or self._has_returned(wait, now_ms)]
        if new:
            self._told |= {wait.what: wait.since_ms for wait in new}
            self._begun_ms = now_ms
            self._throttle.start(now_ms)
            begun, over = _named(_begun(wait, now_ms) for wait in new), self._replaced(waits, now_ms)
            return [f"waiting for {begun.removesuffix('.')}; {over}" if over else f"waiting for {begun}"]
        if self._told and not lasting:
            return [self._over(now_ms)]
        if lasting and self._throttle.is_due(now_ms):
            return [f"still waiting for {_named(_lasting(wait, now_ms) for wait in lasting)}"]
        return []

    def _has_returned(self, wait: Wait, now_ms: int) -> bool:
        """Whether it was over and is another one now, which the others must not hide; with a pause, as it may flap."""
        return wait.since_ms > self._told[wait.what] and now_ms - self._begun_ms >= FIRST_PAUSE_MS

    def _replaced(self, waits: Collection[Wait], now_ms: int) -> str:
        """Those that are over while others begin, which may be the same outage by another name."""
        over = self._told.keys() - {wait.what for wait in waits}
        if not over:
            return ""
        since_ms = [self._told.pop(what) for what in sorted(over)]
        return f"no longer, after {_seconds(now_ms - min(since_ms))}, for {_named(sorted(over))}"

    def _over(self, now_ms: int) -> str:
        longest_ms = now_ms - min(self._told.values())
        line = f"no longer waiting, after {_seconds(longest_ms)}, for {_named(self._told)}"
        self._told.clear()
        return line


def _begun(wait: Wait, now_ms: int) -> str:
    return f"{wait.what} ({_left(wait, now_ms)}): {wait.cause}"


def _lasting(wait: Wait, now_ms: int) -> str:
    return f"{wait.what} (for {_seconds(now_ms - wait.since_ms)} now, {_left(wait, now_ms)}): {wait.cause}"


def _left(wait: Wait, now_ms: int) -> str:
    if wait.until_ms is None:
        return "for as long as it takes"
    return f"at most {_whole_seconds(max(0, wait.until_ms - now_ms))} more"


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
