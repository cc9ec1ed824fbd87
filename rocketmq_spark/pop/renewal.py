"""Renewal: when a message that is ours for a while is asked for again, and when it is not ours any more."""

from __future__ import annotations

from typing import Final, NamedTuple

SHORTEST_PAUSE_MS: Final = 50
PAUSES_IN_A_LEASE: Final = 20


class Lease(NamedTuple):
    """For how long a message is invisible to others, by our clock: counted from when the answer came, so it may be over
    a little earlier at its broker. ``renew_ms``: when it is to be asked for again."""

    invisible_ms: int
    renew_ms: int
    end_ms: int

    @classmethod
    def begun(cls, now_ms: int, invisible_ms: int) -> Lease:
        """It is asked for again when half of it is over."""
        return cls(invisible_ms, now_ms + invisible_ms // 2, now_ms + invisible_ms)

    def tried_in_vain(self, now_ms: int) -> Lease:
        """It is tried again after a pause, of which several fit into what is left."""
        return self._replace(renew_ms=now_ms + max(SHORTEST_PAUSE_MS, self.invisible_ms // PAUSES_IN_A_LEASE))

    def is_due(self, now_ms: int) -> bool:
        return self.renew_ms <= now_ms < self.end_ms

    def is_over(self, now_ms: int) -> bool:
        return now_ms >= self.end_ms
