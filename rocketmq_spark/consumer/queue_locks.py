"""QueueLocks: which queues the brokers have locked for this member, and how far that can be trusted.

Source: ``client/impl/consumer/RebalanceImpl.java#lockAll``, ``client/impl/consumer/ProcessQueue.java#isLockExpired``.
A broker gives a lock to somebody else 60 s after it was last asked for it; we stop relying on it after 30 s, counted
from before the request, and ask again every 20 s.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from rocketmq_spark.consumer.cluster_api import BrokerApi, Future
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.model import MessageQueue

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

RENEW_INTERVAL_MS: Final = 20_000
LOCK_VALID_MS: Final = 30_000


class QueueLocks:
    """Locked queues by the time of the request. Not thread-safe.

    ``lease_clock``: milliseconds that never go back, and go on while the machine sleeps.
    """

    def __init__(self, group: str, client_id: str, client: OutageAwareClient, lease_clock: Clock) -> None:
        self._group = group
        self._client_id = client_id
        self._client = client
        self._lease_clock = lease_clock
        self._locked_ms: dict[MessageQueue, int] = {}

    def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues at their brokers, anew where they are locked already; answers those that a broker has refused.
        Silent brokers change nothing."""
        locked_ms = self._lease_clock()
        denied: set[MessageQueue] = set()
        for of_broker, granted in self._client.call_each(queues, self._lock_at):
            self._locked_ms |= dict.fromkeys(granted, locked_ms)
            denied |= set(of_broker) - granted
        return denied

    def _lock_at(self, broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[set[MessageQueue]]:
        return broker.submit_lock_batch(self._group, self._client_id, queues)

    def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Unlock queues; one whose broker is silent expires there."""
        self._client.call_each(queues, self._unlock_at)

    def _unlock_at(self, broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[None]:
        return broker.submit_unlock_batch(self._group, self._client_id, queues)

    def discard(self, queues: Collection[MessageQueue]) -> None:
        """These are not ours any more: unlocked, refused or given up."""
        for queue in queues:
            self._locked_ms.pop(queue, None)

    def is_held(self, queue: MessageQueue) -> bool:
        """Whether the lock is certainly still ours."""
        return queue in self._locked_ms and self._lease_clock() - self._locked_ms[queue] < LOCK_VALID_MS

    def locked_ms(self, queue: MessageQueue) -> int | None:
        """When the lock was last asked for and granted; None without a lock."""
        return self._locked_ms.get(queue)
