"""QueueLocks: the queue locks that brokers granted to this member, and their validity.

Source: ``client/impl/consumer/RebalanceImpl.java#lockAll``, ``client/impl/consumer/ProcessQueue.java#isLockExpired``. A
broker may grant a lock to another member 60 s after its last request. Here a lock is valid for 30 s, counted from
before the request, and is renewed every 20 s.
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
    """Queue locks (``consumeOrderly``) that brokers granted to this member, with the time of each request. Not
    thread-safe.

    ``lease_clock``: monotonic milliseconds that include the time in which the machine sleeps.
    """

    def __init__(self, group: str, client_id: str, client: OutageAwareClient, lease_clock: Clock) -> None:
        self._group = group
        self._client_id = client_id
        self._client = client
        self._lease_clock = lease_clock
        self._locked_ms: dict[MessageQueue, int] = {}

    def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Request locks of queues at their brokers, or renew them, and wait. Record granted locks as of before the
        request. Return the queues whose lock a broker denied; their records stay until ``discard``. Locks at
        unresponsive brokers do not change. Permanent errors are raised."""
        locked_ms = self._lease_clock()
        denied: set[MessageQueue] = set()
        for of_broker, granted in self._client.call_each(queues, self._lock_at):
            self._locked_ms |= dict.fromkeys(granted, locked_ms)
            denied |= set(of_broker) - granted
        return denied

    def _lock_at(self, broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[set[MessageQueue]]:
        """Send the request for the locks without waiting for its result, the set of granted ones."""
        return broker.submit_lock_batch(self._group, self._client_id, queues)

    def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Unlock queues at their brokers, and wait. The lock of a queue at an unresponsive broker expires there. This
        member's record stays until ``discard``. Permanent errors are raised."""
        self._client.call_each(queues, self._unlock_at)

    def _unlock_at(self, broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[None]:
        """Send the request to unlock ``queues``, without waiting for the response."""
        return broker.submit_unlock_batch(self._group, self._client_id, queues)

    def discard(self, queues: Collection[MessageQueue]) -> None:
        """Discard the recorded locks of queues that this member no longer owns: unlocked, denied or dropped. Sends
        nothing."""
        for queue in queues:
            self._locked_ms.pop(queue, None)

    def is_held(self, queue: MessageQueue) -> bool:
        """Return whether the lock was granted to a request less than LOCK_VALID_MS (30 s) ago, and not discarded
        since."""
        return queue in self._locked_ms and self._lease_clock() - self._locked_ms[queue] < LOCK_VALID_MS

    def locked_ms(self, queue: MessageQueue) -> int | None:
        """Return the request time of the last granted lock, even if expired, by the lease clock. Return None without
        one, or after ``discard``."""
        return self._locked_ms.get(queue)
