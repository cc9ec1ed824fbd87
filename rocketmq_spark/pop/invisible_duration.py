"""For how long a message is invisible to others: what a poll asks for, when it is asked for again, when it is not ours
any more, and what is logged of those whose time was over before they were done."""

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
"""The longest duration that a proxy refuses as too short, unless its operator has changed that."""


def unforeseen_ms(invisible_ms: int, random_below: Callable[[int], int]) -> int:
    """Return a duration that no producer can foresee: ``invisible_ms`` or a little more, but no more than a proxy
    accepts. A proxy that rejects ``invisible_ms`` as too short rejects it too. ``random_below``: as
    ``secrets.randbelow``."""
    spread = min(max(LEAST_SPREAD_MS, invisible_ms // SPREADS_IN_A_DURATION), MOST_SPREAD_MS)
    most = REFUSED_MS if invisible_ms <= REFUSED_MS else MAX_INVISIBLE_MS
    return min(invisible_ms, most - spread) + random_below(spread + 1)


class Lease(NamedTuple):
    """For how long a message is invisible to others, by our clock: counted from when the answer came, so it may be over
    a little earlier at its broker. ``extend_at_ms``: when it is to be asked for again."""

    invisible_ms: int
    extend_at_ms: int
    expires_at_ms: int

    @classmethod
    def starting_at(cls, now_ms: int, invisible_ms: int) -> Lease:
        """It is asked for again when half of it is over."""
        return cls(invisible_ms, now_ms + invisible_ms // 2, now_ms + invisible_ms)

    def retry_later(self, now_ms: int) -> Lease:
        """It is tried again after a pause, of which several fit into what is left."""
        return self._replace(extend_at_ms=now_ms + max(SHORTEST_PAUSE_MS, self.invisible_ms // PAUSES_PER_LEASE))

    def is_due(self, now_ms: int) -> bool:
        return self.extend_at_ms <= now_ms < self.expires_at_ms

    def is_expired(self, now_ms: int) -> bool:
        return now_ms >= self.expires_at_ms


class ExpiryLog:
    """Not thread-safe. Times are arguments."""

    def __init__(self, invisible_ms: int) -> None:
        self._invisible_ms = invisible_ms
        self._logged: Counter[str] = Counter()
        self._throttle = Throttle()

    def lines(self, expired: Counter[str], now_ms: int) -> list[LogLine]:
        """Return what to log now that this many have expired in all, by broker name; nothing, most often."""
        new = expired - self._logged
        if not new or not self._throttle.try_acquire_event(now_ms):
            return []
        self._logged = expired
        return [LogLine(logging.WARNING, key="MESSAGES_EXPIRED", text=self._text(new))]

    def _text(self, new: Counter[str]) -> str:
        counts_by_broker = ", ".join(f"broker={name} count={count}" for name, count in sorted(new.items()))
        return (
            f"{new.total()} messages were neither acknowledged nor extended within 'invisibleDurationMs' "
            f"({self._invisible_ms} ms); brokers redeliver them, and they may be processed twice: {counts_by_broker}. "
            "If these brokers respond, raise 'invisibleDurationMs' or lower 'maxOffsetsPerTrigger'."
        )
