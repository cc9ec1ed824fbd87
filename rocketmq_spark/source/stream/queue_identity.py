"""Incarnations: whether a queue is still the one that was read, or another of the same name. Pure.

A topic may be deleted and created again, and a broker may lose the end of a queue and go on from there (an unclean
fail-over). Then other messages stand below our position, and the larger number is not true any more. What tells is the
last message that we have read: if it was stored later than the checkpoint knows of its queue, it is another one.

To look at it costs a pull, so it is done when a query starts or gains a queue, and again after a sign. A queue without
a sign is *trusted*: its broker was reached over one unbroken connection, and its bounds have only grown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rocketmq_spark.consumer.cluster_api import Link, MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


class VerifiedQueues:
    """Those that have been looked at, until a survey shows a sign. Not thread-safe.

    Where the group's offset is gone with a deleted topic, that is a sign that nothing can cover. Where it stays, with
    brokers that are not ``brokers_deleting_offsets`` of it and with ``has_own_offsets``, a queue that has grown is
    looked at each time: it may be another one that has grown past it.
    """

    def __init__(self, *, has_own_offsets: bool = False) -> None:
        self._has_own_offsets = has_own_offsets
        self._verified_bounds: dict[MessageQueue, tuple[QueueBounds, Link | None]] = {}
        self._emptied: set[MessageQueue] = set()

    def __contains__(self, queue: object) -> bool:
        return queue in self._verified_bounds

    @property
    def emptied(self) -> frozenset[MessageQueue]:
        """Queues that begin anew since all of them had been planned. ``mqadmin cleanExpiredCQ`` does that with queues
        of which retention has deleted every message."""
        return frozenset(self._emptied)

    def update(self, snapshot: MetadataSnapshot, positions: Mapping[MessageQueue, int]) -> None:
        """Look for signs: a queue that was away or silent, a connection that was lost, a bound or a store time that
        went back. ``positions``: up to where queues are planned."""
        before, self._verified_bounds = self._verified_bounds, {}
        for queue, (bounds, link) in before.items():
            now = snapshot.bounds.get(queue)
            if now is None or snapshot.links.get(queue.broker_name) != link:
                continue
            if _has_grown(bounds, now):
                if self._is_notified_of_deletions(queue, snapshot) or now.max_offset == bounds.max_offset:
                    self._verified_bounds[queue] = now, link
            elif now.min_offset == 0 and bounds.max_offset == positions.get(queue):
                self._emptied.add(queue)

    def _is_notified_of_deletions(self, queue: MessageQueue, snapshot: MetadataSnapshot) -> bool:
        return queue.broker_name in snapshot.brokers_deleting_offsets and not self._has_own_offsets

    def mark_verified(self, queues: Iterable[MessageQueue], snapshot: MetadataSnapshot) -> None:
        """These have been looked at after the survey."""
        for queue in queues:
            self._verified_bounds[queue] = snapshot.bounds[queue], snapshot.links.get(queue.broker_name)
            self._emptied.discard(queue)

    def mark_unverified(self, queues: Iterable[MessageQueue]) -> None:
        """Look at these again."""
        for queue in queues:
            self._verified_bounds.pop(queue, None)


def _has_grown(before: QueueBounds, now: QueueBounds) -> bool:
    """Whether ``now`` may be the same queue, later. Retention deletes the last message too, and with it its time."""
    if now.min_offset < before.min_offset or now.max_offset < before.max_offset:
        return False
    last_ms, now_last_ms = before.last_store_timestamp_ms, now.last_store_timestamp_ms
    if now_last_ms <= 0 or last_ms <= 0:
        return True
    return now_last_ms >= last_ms if now.max_offset > before.max_offset else now_last_ms == last_ms


def last_read(
    queues: Iterable[MessageQueue], checkpoint: SourceOffset, bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, int]:
    """The offset of the last message that was read of each queue, where the broker still has one and something is known
    that it could contradict."""
    return {
        queue: progress.end_offset - 1
        for queue in queues
        if (progress := checkpoint.queues.get(queue)) is not None
        and progress.last_store_timestamp_ms > 0
        and bounds[queue].min_offset < progress.end_offset <= bounds[queue].max_offset
    }


def stored_later(store_timestamps_ms: Mapping[MessageQueue, int | None], checkpoint: SourceOffset) -> set[MessageQueue]:
    """Queues whose last message that was read, as it is now, was stored after the checkpoint was planned, or cannot be
    seen, though the bounds have room for it (None): compaction and retention leave such."""
    return {
        queue
        for queue, at_ms in store_timestamps_ms.items()
        if at_ms is None or at_ms > checkpoint.queues[queue].last_store_timestamp_ms
    }


def recreated_queues(
    queues: Iterable[MessageQueue],
    later: Collection[MessageQueue],
    checkpoint: SourceOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
) -> dict[MessageQueue, int]:
    """Those of ``queues`` that are other ones, with the store time in ms after which the other one began.

    They are ``later``, or do not reach as far as they were read, and have newer messages than the checkpoint knows.

    One whose newest message is no newer has only lost its end; or the broker's clock was put back while a backlog was
    read, and it is the same. ``bounds`` are newer than what is ``later``.
    """
    return {
        queue: progress.last_store_timestamp_ms
        for queue in queues
        if (progress := checkpoint.queues.get(queue)) is not None
        and (queue in later or bounds[queue].max_offset < progress.end_offset)
        and bounds[queue].last_store_timestamp_ms > progress.last_store_timestamp_ms > 0
    }


def recreated_from(first_later: int, progress: QueueProgress) -> int | None:
    """Where the queue begins to be another one, by the first offset that was stored later; None: not before our
    position, so it is the same."""
    return first_later if first_later < progress.end_offset else None
