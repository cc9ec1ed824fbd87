"""Bounds and offsets of slaves, which are read while their broker has no master. Pure.

A slave has what it has replicated: its end may be lower than what was read, its first offset higher, and its copy of
the group's offsets is up to a minute old. None of that is a loss, or a step back. So a queue is planned there only if
the slave has the position that this query has reached, and from there on; all else waits for the master.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.offsets import SourceOffset


def brokers_of(queues: Iterable[MessageQueue]) -> set[str]:
    """Return the names of the brokers of ``queues``."""
    return {queue.broker_name for queue in queues}


def queues_at_slaves(queues: Collection[MessageQueue], snapshot: MetadataSnapshot) -> set[MessageQueue]:
    """Return the ``queues`` whose broker is read at a slave, so that ``snapshot`` has the slave's bounds."""
    return {queue for queue in queues if queue.broker_name in snapshot.brokers_at_slaves}


def without_lagging(snapshot: MetadataSnapshot, start: SourceOffset) -> MetadataSnapshot:
    """Return ``snapshot`` without the bounds of a queue at a slave if ``start`` lacks the queue, or if the slave's
    bounds do not include its position in ``start``: such queues count as unresponsive."""
    if not snapshot.brokers_at_slaves:
        return snapshot
    lagging = {
        queue
        for queue in queues_at_slaves(snapshot.bounds, snapshot)
        if queue not in start.queues or not _bounds_include(snapshot, queue, start.queues[queue].end_offset)
    }
    return replace(snapshot, bounds={queue: held for queue, held in snapshot.bounds.items() if queue not in lagging})


def without_older(
    stored: Mapping[MessageQueue, int | None], start: SourceOffset, snapshot: MetadataSnapshot
) -> Mapping[MessageQueue, int | None]:
    """Return ``stored``, the group's offsets; of queues at a slave, which ``start`` must have, at least the offset in
    ``start``. Omit queues at a slave whose bounds do not include that offset: other members have read further."""
    at_slaves = queues_at_slaves(stored.keys(), snapshot)
    raised = {queue: max(stored[queue] or 0, start.queues[queue].end_offset) for queue in at_slaves}
    lagging = {queue for queue, offset in raised.items() if not _bounds_include(snapshot, queue, offset)}
    return {queue: raised.get(queue, at) for queue, at in stored.items() if queue not in lagging}


def _bounds_include(snapshot: MetadataSnapshot, queue: MessageQueue, offset: int) -> bool:
    """Return whether ``offset`` is in the queue's bounds, or its max offset."""
    return snapshot.bounds[queue].min_offset <= offset <= snapshot.bounds[queue].max_offset
