"""QueueLocks: which queues the brokers have locked for this member, and how far that can be trusted.

Source: ``client/impl/consumer/RebalanceImpl.java#lockAll``, ``client/impl/consumer/ProcessQueue.java#isLockExpired``.
A broker gives a lock to somebody else 60 s after it was last asked for it; we stop relying on it after 30 s, counted
from before the request, and ask again every 20 s.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from rocketmq_spark.consumer.ports import Answer, BrokerPort
from rocketmq_spark.consumer.servers import Servers
from rocketmq_spark.model import MessageQueue

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

RENEW_INTERVAL_MS: Final = 20_000
TRUSTED_FOR_MS: Final = 30_000


class QueueLocks:
    """Locked queues by the time of the request. Not thread-safe.

    ``lease_clock``: milliseconds that never go back, and go on while the machine sleeps.
    """

    def __init__(self, group: str, client_id: str, servers: Servers, lease_clock: Clock) -> None:
        self._group = group
        self._client_id = client_id
        self._servers = servers
        self._lease_clock = lease_clock
        self._asked_ms: dict[MessageQueue, int] = {}

    def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues at their brokers, anew where they are locked already; answers those that a broker has refused.
        Silent brokers change nothing."""
        asked_ms = self._lease_clock()
        refused: set[MessageQueue] = set()
        for of_broker, granted in self._servers.ask_each(queues, self._lock_at):
            self._asked_ms |= dict.fromkeys(granted, asked_ms)
            refused |= set(of_broker) - granted
        return refused

    def _lock_at(self, broker: BrokerPort, queues: Collection[MessageQueue]) -> Answer[set[MessageQueue]]:
        return broker.submit_lock_batch(self._group, self._client_id, queues)

    def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Unlock queues; one whose broker is silent expires there."""
        self._servers.ask_each(queues, self._unlock_at)

    def _unlock_at(self, broker: BrokerPort, queues: Collection[MessageQueue]) -> Answer[None]:
        return broker.submit_unlock_batch(self._group, self._client_id, queues)

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """These are not ours any more: unlocked, refused or given up."""
        for queue in queues:
            self._asked_ms.pop(queue, None)

    def is_held(self, queue: MessageQueue) -> bool:
        """Whether the lock is certainly still ours."""
        return queue in self._asked_ms and self._lease_clock() - self._asked_ms[queue] < TRUSTED_FOR_MS

    def asked_ms(self, queue: MessageQueue) -> int | None:
        """When the lock was last asked for and granted; None without a lock."""
        return self._asked_ms.get(queue)
