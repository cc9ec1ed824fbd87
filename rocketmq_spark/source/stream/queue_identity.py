"""Queue identity: whether a queue is the one that was read, or a re-created one of the same name. Pure.

A topic may be deleted and created again, and a broker may lose the end of a queue and continue from there (an unclean
fail-over). Then other messages have the offsets before the position, and the larger offset is no longer valid. The last
message that was read shows it: if it was stored later than the checkpoint has for its queue, the queue is another one.

Such a check costs a pull, so it is done when a query starts or gains a queue, and again after a sign. A queue without a
sign is *trusted*: its broker was reached over one unbroken connection, and its bounds have only grown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from rocketmq_spark.consumer.cluster_api import Link, MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


class VerifiedQueues:
    """Queues that were checked to be those that the checkpoint has read, with bounds and connection, until a snapshot
    shows a sign that they may be re-created. Not thread-safe.

    If the group's offset is deleted with a topic, this sign cannot be concealed. The offset stays at brokers that are
    not in ``brokers_deleting_offsets``, and with ``has_own_offsets``. There a queue that has grown is checked each
    time: it may be a re-created one that has grown past the old end.
    """

    def __init__(self, *, has_own_offsets: bool = False) -> None:
        self._has_own_offsets = has_own_offsets
        self._verified_bounds: dict[MessageQueue, tuple[QueueBounds, Link | None]] = {}
        self._emptied: set[MessageQueue] = set()

    def __contains__(self, queue: object) -> bool:
        return queue in self._verified_bounds

    @property
    def links(self) -> frozenset[Link | None]:
        """Return the links over which the queues were checked, None for a proxy. If one is lost, check again."""
        return frozenset(link for _, link in self._verified_bounds.values())

    @property
    def emptied(self) -> frozenset[MessageQueue]:
        """Return queues that begin at offset 0 again, after all their messages had been planned. ``mqadmin
        cleanExpiredCQ`` does that to queues of which retention has deleted every message."""
        return frozenset(self._emptied)

    def update(self, snapshot: MetadataSnapshot, positions: Mapping[MessageQueue, int]) -> None:
        """Remove queues with a sign: unavailable or unresponsive, a lost connection, or other bounds than the same
        queue may have (``_may_be_same_queue``). Any growth is a sign where a deletion of the topic stays unnoticed. The
        remaining queues get the bounds of ``snapshot``. Add to ``emptied`` the queues with other bounds that begin at
        offset 0 again after all their messages were planned. ``positions``: ends of the planned offsets by queue."""
        before, self._verified_bounds = self._verified_bounds, {}
        for queue, (bounds, link) in before.items():
            now = snapshot.bounds.get(queue)
            if now is None or snapshot.links.get(queue.broker_name) != link:
                continue
            if _may_be_same_queue(bounds, now):
                if self._is_notified_of_deletions(queue, snapshot) or now.max_offset == bounds.max_offset:
                    self._verified_bounds[queue] = now, link
            elif now.min_offset == 0 and bounds.max_offset == positions.get(queue):
                self._emptied.add(queue)

    def _is_notified_of_deletions(self, queue: MessageQueue, snapshot: MetadataSnapshot) -> bool:
        """Return whether a deletion of the topic also deletes the group's offset that this query uses."""
        return queue.broker_name in snapshot.brokers_deleting_offsets and not self._has_own_offsets

    def mark_verified(self, queues: Iterable[MessageQueue], snapshot: MetadataSnapshot) -> None:
        """Record that ``queues``, all with bounds in ``snapshot``, were checked after it; remove them from
        ``emptied``."""
        for queue in queues:
            self._verified_bounds[queue] = snapshot.bounds[queue], snapshot.links.get(queue.broker_name)
            self._emptied.discard(queue)

    def mark_unverified(self, queues: Iterable[MessageQueue]) -> None:
        """Remove ``queues`` from the verified ones: each requires a new check."""
        for queue in queues:
            self._verified_bounds.pop(queue, None)


def _may_be_same_queue(before: QueueBounds, now: QueueBounds) -> bool:
    """Return whether ``now`` may be the same queue, later, grown or not. No bound has decreased, and the last store
    time has not decreased, nor changed without growth. Retention deletes the last message and its store time, so an
    unknown time (0) does not count."""
    if now.min_offset < before.min_offset or now.max_offset < before.max_offset:
        return False
    last_ms, now_last_ms = before.last_store_timestamp_ms, now.last_store_timestamp_ms
    if now_last_ms <= 0 or last_ms <= 0:
        return True
    return now_last_ms >= last_ms if now.max_offset > before.max_offset else now_last_ms == last_ms


def over_same_links(
    snapshot: MetadataSnapshot, link_to: Callable[[str], Link | None], writes: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Return the ``writes`` to brokers whose connection (``link_to``) is still that of ``snapshot``; omit the rest.
    After a restart a queue may end before the planned position, and another member may have lowered the group's
    offset."""
    names = {queue.broker_name for queue in writes}
    unchanged = {name for name in names if link_to(name) == snapshot.links.get(name)}
    return {queue: offset for queue, offset in writes.items() if queue.broker_name in unchanged}


def last_read(
    queues: Iterable[MessageQueue], checkpoint: SourceOffset, bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, int]:
    """Return, by queue, the offset of the last message that was read, the one before the checkpoint's offset. Omit
    queues that the checkpoint lacks, or has without a store time to compare, and queues whose bounds lack the offset.
    ``bounds`` must have all ``queues`` of the checkpoint."""
    return {
        queue: progress.end_offset - 1
        for queue in queues
        if (progress := checkpoint.queues.get(queue)) is not None
        and progress.last_store_timestamp_ms > 0
        and bounds[queue].min_offset < progress.end_offset <= bounds[queue].max_offset
    }


def stored_later(store_timestamps_ms: Mapping[MessageQueue, int | None], checkpoint: SourceOffset) -> set[MessageQueue]:
    """Return the queues whose last read message has a later store time than in ``checkpoint``, which must have them, or
    is missing (None). It may be missing within the bounds after compaction or retention."""
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
    """Return the re-created queues of ``queues``, with the checkpoint's last store time in epoch ms. The messages of
    the new queue were stored after it.

    A queue is re-created if it is in ``later`` or ends before the checkpoint's offset, and its newest message is newer
    than the checkpoint's store time, which must be known.

    Otherwise the queue is the same: it has only lost its end, or the broker's clock was put back while a backlog was
    read. ``bounds`` are newer than ``later``.
    """
    return {
        queue: progress.last_store_timestamp_ms
        for queue in queues
        if (progress := checkpoint.queues.get(queue)) is not None
        and (queue in later or bounds[queue].max_offset < progress.end_offset)
        and bounds[queue].last_store_timestamp_ms > progress.last_store_timestamp_ms > 0
    }


def recreated_from(first_later: int, progress: QueueProgress) -> int | None:
    """Return where the re-created queue begins: ``first_later``, its first offset stored later than the checkpoint's
    last message. Return None if it is not smaller than the checkpoint's offset, so that the queue is the same."""
    return first_later if first_later < progress.end_offset else None
