"""Resets: where operators want queues of the group to be read from, and we have not acted on it yet.

An operator's tool makes a broker store another offset for the group, and mark the queue. While the mark stands no
commit is taken; the first pull of the group is told and takes it away. So there are two signs: the mark, for who looks
first, and for who is connected without a break a stored offset below what it has committed (``OffsetCommitter``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rocketmq_spark.consumer.cluster_api import BrokerApi
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull

log = logging.getLogger(__name__)


class OffsetResets:
    """What one member of ``group`` was told. Not thread-safe."""

    def __init__(self, group: str, client: OutageAwareClient) -> None:
        self._group = group
        self._client = client
        self._offsets: dict[MessageQueue, int] = {}
        self.changes = 0
        """How often a reset was noticed."""

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._offsets

    def note(self, queue: MessageQueue, offset: int) -> None:
        """An operator has reset the queue to ``offset``."""
        self._offsets[queue] = offset
        self.changes += 1

    @property
    def pending(self) -> dict[MessageQueue, int]:
        """A copy of what nobody has acted on."""
        return dict(self._offsets)

    def discard(self, queue: MessageQueue) -> None:
        """The queue is read from there now, or is not ours any more."""
        self._offsets.pop(queue, None)

    def consume_mark(self, queue: MessageQueue) -> None:
        """Learn where an operator has reset the queue to. One pull of the group is told, and the mark is gone then.

        Of a queue that the broker does not serve, or not now, nobody is told anything.
        """
        try:
            offset = self._client.call(queue.broker_name, lambda broker: broker.consume_reset(self._group, queue))
        except RocketMQError as error:
            if retryability_of_pull(error) is Retryability.PERMANENT:
                raise
            return
        if offset is not None:
            self.note(queue, offset)

    def restore_all(self) -> None:
        """Let the brokers mark resets that no plan has obeyed as they did before, for the next start of the query."""
        for queue in self.pending:
            is_restored = self._try_restore(queue)
            offset = self._offsets[queue]
            if is_restored:
                self.discard(queue)
                log.info(
                    "OFFSET_RESET_DEFERRED: Reset of queue=%s to offset=%d is left to the next start: the query ended "
                    "before it planned another batch",
                    queue,
                    offset,
                )
            else:
                log.warning(
                    "OFFSET_RESET_LOST: Reset of queue=%s to offset=%d is lost: the query ended before it planned "
                    "another batch, and its broker did not accept the reset for the next start. Reset the group again.",
                    queue,
                    offset,
                )

    def _try_restore(self, queue: MessageQueue) -> bool:
        """The later one, where an operator has spoken again."""

        def restore_at(broker: BrokerApi) -> bool:
            broker.restore_reset(self._group, queue, self._offsets[queue])
            return True

        try:
            self.consume_mark(queue)
            return self._client.call(queue.broker_name, restore_at) is True
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Cannot return the reset of queue=%s to its broker: %s", queue, error)
            return False

    def consume_marks(self, queues: Iterable[MessageQueue]) -> None:
        """Take the marks of queues before a pull of somebody else is told, and nobody again."""
        self._client.refresh_routes()
        for queue in queues:
            self.consume_mark(queue)
