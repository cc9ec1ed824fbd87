"""Patience: how long something that does not answer is tried again, and when it is an error."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.errors import RocketMQError, TransportError

FIRST_WAIT_MS: Final = 250
LONGEST_WAIT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class _Trouble:
    since_ms: int
    failures: int
    next_try_ms: int
    limit_ms: int
    is_over: bool
    error: RocketMQError


class Patience:
    """What is failing now, by subject ("broker broker-a", "name servers", "topic orders"). Times come from the caller.

    A subject is tried again after a pause that doubles from 250 ms to 5 s. One that has failed for its whole limit
    is an error; until then whoever asks goes on with what does answer.
    """

    def __init__(self) -> None:
        self._troubles: dict[str, _Trouble] = {}

    def failed(self, subject: str, error: RocketMQError, *, now_ms: int, limit_ms: int) -> bool:
        """Says whether it has now failed for its whole limit, and had not before."""
        before = self._troubles.get(subject)
        failures = before.failures + 1 if before else 1
        since_ms = before.since_ms if before else now_ms
        pause_ms = min(FIRST_WAIT_MS << min(failures - 1, 10), LONGEST_WAIT_MS)
        is_over = now_ms - since_ms >= limit_ms
        self._troubles[subject] = _Trouble(since_ms, failures, now_ms + pause_ms, limit_ms, is_over, error)
        return is_over and not (before and before.is_over)

    def succeeded(self, subject: str) -> bool:
        """Says whether it had been failing."""
        return self._troubles.pop(subject, None) is not None

    def forget(self, subject: str) -> None:
        """It is not asked any more."""
        self._troubles.pop(subject, None)

    def may_try(self, subject: str, now_ms: int) -> bool:
        trouble = self._troubles.get(subject)
        return trouble is None or now_ms >= trouble.next_try_ms

    def is_failing(self, subject: str) -> bool:
        return subject in self._troubles

    def is_due(self, now_ms: int) -> bool:
        """Whether something that failed is to be tried again now."""
        return any(now_ms >= trouble.next_try_ms for trouble in tuple(self._troubles.values()))

    @property
    def subjects(self) -> frozenset[str]:
        """What is failing."""
        return frozenset(self._troubles)

    def check(self, now_ms: int, excused: Collection[str] = ()) -> None:
        """Raise for a subject that has failed for its limit: its own error if trying again is no use in principle
        (a missing topic), else CLUSTER_UNREACHABLE around it. ``excused`` subjects may fail for ever."""
        for subject, trouble in self._troubles.items():
            waited_ms = now_ms - trouble.since_ms
            if waited_ms < trouble.limit_ms or subject in excused:
                continue
            if not isinstance(trouble.error, TransportError):
                raise trouble.error
            raise TransportError(
                "CLUSTER_UNREACHABLE",
                doing=f"Reaching {subject}",
                waited_ms=waited_ms,
                limit_ms=trouble.limit_ms,
                cause=str(trouble.error),
            ) from trouble.error
