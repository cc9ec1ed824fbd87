"""The lines that tell of messages whose time was over before they were done: at growing intervals, however many."""

from __future__ import annotations

from collections import Counter
from typing import Final

FIRST_PAUSE_MS: Final = 15_000
"""Between the first two lines; each next pause is twice as long."""

LONGEST_PAUSE_MS: Final = 600_000


class ExpiredLines:
    """Not thread-safe. Times are arguments."""

    def __init__(self, invisible_ms: int) -> None:
        self._invisible_ms = invisible_ms
        self._told: Counter[str] = Counter()
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def lines(self, expired: Counter[str], now_ms: int) -> list[str]:
        """What to say now that so many have expired in all, by broker name; nothing, most often."""
        new = expired - self._told
        if not new or now_ms < self._next_ms:
            return []
        if now_ms >= self._next_ms + self._pause_ms:
            self._pause_ms = FIRST_PAUSE_MS
        self._told = expired
        self._next_ms, self._pause_ms = now_ms + self._pause_ms, min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        return [self._line(new)]

    def _line(self, new: Counter[str]) -> str:
        of_brokers = ", ".join(f"{count} of broker {name}" for name, count in sorted(new.items()))
        limit = f"'invisibleDurationMs' ({self._invisible_ms} ms)"
        return (
            f"{new.total()} messages were not done, nor renewed, within {limit}, and others may get them too: "
            f"{of_brokers}. Where these answer, set a larger 'invisibleDurationMs', or a smaller "
            "'maxOffsetsPerTrigger'."
        )
