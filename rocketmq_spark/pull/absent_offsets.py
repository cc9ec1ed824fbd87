"""AbsentOffsets: what a range does about offsets that responses lack: pull them again, wait, or treat them as lost.
Pure; ``RangePuller`` sends the pulls and marks the losses."""

from __future__ import annotations

from enum import Enum
from typing import Final

ABSENT_LIMIT_MS: Final = 30_000
"""Time for which messages may be missing that the broker had when the range was planned; then they are lost. While
retention deletes, a broker corrects its min offset every 10 s."""


class AbsentAction(Enum):
    """What to do about an offset that a response lacks."""

    POSTPONE = "pull it again after a pause"
    PRESUME_LOST = "it has been absent for long; it is lost unless the queue still has it"
    STALLED = "responses do not advance; fail"


class AbsentOffsets:
    """Time of the offsets that responses lack, and the losses that are to be confirmed, of one range.

    An absent offset is presumed lost after ABSENT_LIMIT_MS without another response or a failure. If the queue still
    has it, the range fails after ABSENT_LIMIT_MS and ``limit_ms``. With failures in between it fails after the longest
    outage, of ``limit_ms`` or ``missing_ms``, and ABSENT_LIMIT_MS before and after it. Not thread-safe.
    """

    def __init__(self, limit_ms: int, missing_ms: int) -> None:
        self._limit_ms = max(ABSENT_LIMIT_MS, limit_ms)
        self._stall_limit_ms = max(limit_ms, missing_ms) + 2 * ABSENT_LIMIT_MS
        self._absent_since_ms: int | None = None
        """Since when all responses have lacked an offset, without a failure that may lead to another server."""
        self._stalled_since_ms: int | None = None
        """The same, whatever failed meanwhile."""
        self._retried: set[object] = set()
        """Requests that are pulled again because a response showed their offsets as lost."""

    def try_confirm_loss(self, request: object) -> bool:
        """Record a response that shows the offsets of ``request`` as lost. Return False for the first one, which is to
        be pulled again, and True for the next, until ``discard_loss``."""
        is_confirmed = request in self._retried
        self._retried.add(request)
        return is_confirmed

    def discard_loss(self, request: object) -> None:
        """Discard the recorded loss of ``request``, if any: its next one is the first again."""
        self._retried.discard(request)

    def record_absent(self, now_ms: int) -> None:
        """Record a response at ``now_ms`` that lacks its offset. Without one before, the times begin."""
        self._absent_since_ms = now_ms if self._absent_since_ms is None else self._absent_since_ms
        self._stalled_since_ms = now_ms if self._stalled_since_ms is None else self._stalled_since_ms

    def record_success(self) -> None:
        """End both times, because a response had its offset."""
        self._absent_since_ms = self._stalled_since_ms = None

    def record_failure(self) -> None:
        """End the time of ``absent_ms``, because the next pull may go to another server."""
        self._absent_since_ms = None

    def absent_ms(self, now_ms: int) -> int:
        """Return for how long all responses have lacked an offset, without a failure in between; 0 if none does."""
        return 0 if self._absent_since_ms is None else now_ms - self._absent_since_ms

    def stalled_ms(self, now_ms: int) -> int:
        """Return for how long all responses have lacked an offset, with or without failures; 0 if none does."""
        return 0 if self._stalled_since_ms is None else now_ms - self._stalled_since_ms

    def action(self, now_ms: int, *, may_be_lost: bool) -> AbsentAction:
        """Return PRESUME_LOST, STALLED or POSTPONE for an offset that a response lacks. Not ``may_be_lost``: the queue
        has the offset, or its route is unknown, so it is not presumed lost."""
        absent_ms = self.absent_ms(now_ms)
        if may_be_lost and absent_ms >= ABSENT_LIMIT_MS:
            return AbsentAction.PRESUME_LOST
        if absent_ms >= self._limit_ms or self.stalled_ms(now_ms) >= self._stall_limit_ms:
            return AbsentAction.STALLED
        return AbsentAction.POSTPONE
