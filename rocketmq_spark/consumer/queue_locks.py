"""QueueLocks: which queues the brokers have locked for this member, and how far that can be trusted.

Source: ``client/impl/consumer/RebalanceLockImpl`` in ``RebalanceImpl.java`` and ``ProcessQueue#isLockExpired``. A
broker gives a lock to somebody else 60 s after it was last asked for it; we stop relying on it after 30 s, counted
from before the request, and ask again every 20 s.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rocketmq_spark.model import MessageQueue

RENEW_INTERVAL_MS: Final = 20_000
TRUSTED_FOR_MS: Final = 30_000


class QueueLocks:
    """Locked queues by the time of the request. Times come from a clock that goes on while the machine sleeps."""

    def __init__(self) -> None:
        self._asked_ms: dict[MessageQueue, int] = {}

    def granted(self, queues: Collection[MessageQueue], asked_ms: int) -> None:
        """A broker that was asked at ``asked_ms`` holds these for us."""
        for queue in queues:
            self._asked_ms[queue] = asked_ms

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """These are not ours any more: unlocked, refused or given up."""
        for queue in queues:
            self._asked_ms.pop(queue, None)

    def is_held(self, queue: MessageQueue, now_ms: int) -> bool:
        """Whether the lock is certainly still ours."""
        return queue in self._asked_ms and now_ms - self._asked_ms[queue] < TRUSTED_FOR_MS

    def asked_ms(self, queue: MessageQueue) -> int | None:
        """When the lock was last asked for and granted; None without a lock."""
        return self._asked_ms.get(queue)
