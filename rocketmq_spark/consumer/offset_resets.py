"""OffsetResets: operators' offset resets of the group that no plan has applied yet.

An operator's tool makes a broker store another offset for the group, and mark the queue. While the mark exists the
broker rejects commits; the next pull of the group returns the reset and removes the mark. So a reset has two signs. The
first client that pulls gets the mark. A client with an unbroken connection finds a stored offset smaller than the
committed one (``OffsetCommitter``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from rocketmq_spark.consumer.cluster_api import BrokerApi
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull

log = logging.getLogger(__name__)


class OffsetResets:
    """Pending resets of ``group``: one member has detected them, and no plan has applied them. Not thread-safe."""

    def __init__(self, group: str, client: OutageAwareClient) -> None:
        self._group = group
        self._client = client
        self._offsets: dict[MessageQueue, int] = {}
        self.changes = 0
        """Number of detected resets."""

    def __contains__(self, queue: MessageQueue) -> bool:
        """Return whether a reset of the queue is pending."""
        return queue in self._offsets

    def at_current_masters(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Request the routes of the topics of ``queues`` and wait; without queues request nothing. Return the queues
        whose new route names the master that was cached before this call. A queue without a new route is omitted;
        failures are not raised."""
        return self._client.topic_routes.at_current_masters(queues) if queues else set()

    def record(self, queue: MessageQueue, offset: int) -> None:
        """Record that an operator has reset the queue to ``offset``, in place of an earlier reset; count a change.
        Sends nothing."""
        self._offsets[queue] = offset
        self.changes += 1

    @property
    def pending(self) -> dict[MessageQueue, int]:
        """Copy of the resets that no plan has applied: offset by queue."""
        return dict(self._offsets)

    def discard(self, queue: MessageQueue) -> None:
        """Discard the reset, if there is one, of a queue that is read from there now, or that this member no longer
        owns. Counts no change."""
        self._offsets.pop(queue, None)

    def consume_mark(self, queue: MessageQueue) -> None:
        """Pull once at offset 0 as the group, and wait. If the queue has a reset mark, the broker returns the offset of
        the reset and removes the mark; ``record`` that offset. Later pulls do not return this reset.

        Do nothing if there is no mark, the broker does not serve the queue, or it does not respond. Permanent errors
        are raised.
        """
        try:
            offset = self._client.call(queue.broker_name, lambda broker: broker.consume_reset(self._group, queue))
        except RocketMQError as error:
            if retryability_of_pull(error) is Retryability.PERMANENT:
                raise
            return
        if offset is not None:
            self.record(queue, offset)

    def restore_all(self) -> None:
        """For each pending reset, make its broker set the reset mark again, for the next start of the query, and wait.
        A restored reset is no longer pending and is logged at INFO. One that is not restored stays pending and is
        logged as a warning; failures are not raised."""
        for queue in self.pending:
            is_restored = self._try_restore(queue)
            offset = self._offsets[queue]
            if is_restored:
                self.discard(queue)
                log.info(
                    "OFFSET_RESET_DEFERRED: Reset of queue=%s to offset=%d applies at the next start, because the "
                    "query ended before it planned another batch. No action is required.",
                    queue,
                    offset,
                )
            else:
                log.warning(
                    "OFFSET_RESET_LOST: Reset of queue=%s to offset=%d is lost: the query ended before it planned "
                    "another batch, and the broker rejected the request to keep the reset for the next start. Reset "
                    "the group again.",
                    queue,
                    offset,
                )

    def _try_restore(self, queue: MessageQueue) -> bool:
        """Consume a newer reset mark of ``queue``, if there is one. Then send the pending reset to the broker, which
        sets the mark again, and wait. Return whether the broker accepted it. Errors are logged at DEBUG, not raised."""

        def restore_at(broker: BrokerApi) -> bool:
            """Send the reset, wait, and return True: ``call`` returns None if the reset is not sent, or fails."""
            broker.restore_reset(self._group, queue, self._offsets[queue])
            return True

        try:
            self.consume_mark(queue)
            return self._client.call(queue.broker_name, restore_at) is True
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Cannot restore the reset of queue=%s at its broker: %s", queue, error)
            return False

    def consume_marks(self, queues: Iterable[MessageQueue]) -> None:
        """Refresh the routes and call ``consume_mark`` for each queue, one after another. A pull of a task would remove
        the marks, and lose the resets. Permanent errors are raised."""
        self._client.topic_routes.refresh()
        for queue in queues:
            self.consume_mark(queue)
