"""Invisible durations: which one a poll requests, when it is extended, when it expires, and log lines about messages
that expired before they were completed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from rocketmq_spark.pop.receipt_handles import MAX_INVISIBLE_MS
from rocketmq_spark.remoting.outage_log import LogLine, Throttle

SHORTEST_PAUSE_MS: Final = 50
PAUSES_PER_LEASE: Final = 20

LEAST_SPREAD_MS: Final = 1_000
MOST_SPREAD_MS: Final = 30_000
SPREADS_IN_A_DURATION: Final = 20
REFUSED_MS: Final = 9_999
"""The longest duration that a proxy with default settings rejects as too short."""


def random_duration_ms(invisible_ms: int, random_below: Callable[[int], int]) -> int:
    """Return a random duration in ms, which no producer can predict: from ``invisible_ms`` to 5 % (at least 1 s, at
    most 30 s) more, both included. A range that would end after 12 h is moved down to end there. A range that would
    contain 9,999 and 10,000 ms is moved down to end at 9,999 ms. Proxies reject so short durations, and thus each poll.
    ``random_below(n)`` returns a number in [0, n), as ``secrets.randbelow`` does."""
    spread = min(max(LEAST_SPREAD_MS, invisible_ms // SPREADS_IN_A_DURATION), MOST_SPREAD_MS)
    most = REFUSED_MS if invisible_ms <= REFUSED_MS else MAX_INVISIBLE_MS
    return min(invisible_ms, most - spread) + random_below(spread + 1)


def longest_duration_ms(invisible_ms: int) -> int:
    """Return the longest duration in ms that ``random_duration_ms`` returns."""
    return random_duration_ms(invisible_ms, lambda count: count - 1)


class Lease(NamedTuple):
    """The time for which a message is invisible to other members, by this process's clock in ms, and when to extend it.

    It starts when the response arrives, so the broker's own may expire a little earlier.
    """

    invisible_ms: int
    extend_at_ms: int
    expires_at_ms: int

    @classmethod
    def starting_at(cls, now_ms: int, invisible_ms: int) -> Lease:
        """Return a lease that is to be extended after half of its duration."""
        return cls(invisible_ms, now_ms + invisible_ms // 2, now_ms + invisible_ms)

    def retry_later(self, now_ms: int) -> Lease:
        """Return a copy whose next extension is due after a pause from ``now_ms``: 1/20 of the duration, at least 50
        ms. The expiry stays."""
        return self._replace(extend_at_ms=now_ms + max(SHORTEST_PAUSE_MS, self.invisible_ms // PAUSES_PER_LEASE))

    def is_due(self, now_ms: int) -> bool:
        """Return whether the extension is due at ``now_ms``; False once the lease is expired."""
        return self.extend_at_ms <= now_ms < self.expires_at_ms

    def is_expired(self, now_ms: int) -> bool:
        """Return whether ``now_ms`` is ``expires_at_ms`` or later."""
        return now_ms >= self.expires_at_ms


class ExpiryLog:
    """Throttled log lines about expired messages. Not thread-safe. Times are arguments."""

    def __init__(self, invisible_ms: int) -> None:
        self._invisible_ms = invisible_ms
        self._logged: Counter[str] = Counter()
        self._throttle = Throttle()

    def take_lines(self, expired: Counter[str], now_ms: int) -> list[LogLine]:
        """Return one warning about the messages that expired since the last warning, and record it as logged. Return []
        if there are none, or if the last warning is too recent (``Throttle``); a later call includes them. ``expired``:
        number of messages expired since the start, by broker name; the caller does not change it afterwards."""
        new = expired - self._logged
        if not new or not self._throttle.try_acquire_event(now_ms):
            return []
        self._logged = expired
        return [LogLine(logging.WARNING, key="MESSAGES_EXPIRED", text=self._text(new))]

    def _text(self, new: Counter[str]) -> str:
        """Return the text of the log line for these new expired messages, by broker name."""
        counts_by_broker = ", ".join(f"broker={name} count={count}" for name, count in sorted(new.items()))
        return (
            f"{new.total()} messages were neither acknowledged nor extended within 'invisibleDurationMs' "
            f"({self._invisible_ms} ms); brokers redeliver them, and they may be processed twice: {counts_by_broker}. "
            "If these brokers respond, raise 'invisibleDurationMs' or lower 'maxOffsetsPerTrigger'."
        )
