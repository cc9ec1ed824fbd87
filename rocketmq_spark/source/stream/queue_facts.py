"""Facts of the queues that may be planned: the group's offsets, and which of the queues are still those that were read.

``queue_identity`` and ``position_resolution`` decide which requests are needed, and what their results mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot, QueueQueries
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.position_resolution import QueueFacts, queues_at_slaves, without_older
from rocketmq_spark.source.stream.queue_identity import (
    VerifiedQueues,
    last_read,
    recreated_from,
    recreated_queues,
    stored_later,
)

Bounds: TypeAlias = Mapping[MessageQueue, QueueBounds]
GroupOffsets: TypeAlias = Mapping[MessageQueue, int | None]


def collect_facts(
    membership: Membership,
    verified: VerifiedQueues,
    start: SourceOffset,
    snapshot: MetadataSnapshot,
    stored: GroupOffsets,
) -> QueueFacts:
    """Request and return the facts of the queues of ``without_older(stored)`` whose requests do not fail. Mark
    doubtful queues, and those without a confirmed offset, as unverified, and probe the last read messages of
    unverified ones. If one may be re-created, request the bounds of all from their masters, and search re-created ones
    by time. Omit queues at a slave that may be re-created: only their master shows it."""
    bounds = snapshot.bounds
    stored = without_older(stored, start, snapshot)
    suspect = frozenset(membership.offsets.suspect)
    beyond_end = {queue for queue, at in stored.items() if at is not None and at > bounds[queue].max_offset}
    doubtful = suspect | beyond_end  # an offset beyond the end may conceal that the group's offset has vanished
    has_confirmed = membership.offsets.has_confirmed
    verified.mark_unverified(
        queue for queue, at in stored.items() if at is None or queue in doubtful or not has_confirmed(queue)
    )
    unverified = [queue for queue in stored if queue not in verified]
    bounds, later, unprobed = _probe_last_read(
        membership.queries, unverified, start, snapshot, refresh=bool(beyond_end)
    )
    at_slaves = queues_at_slaves(stored.keys(), snapshot)
    unknown = unprobed | (later & at_slaves)
    readable = [queue for queue in stored if queue in bounds and queue not in unknown]
    emptied = {queue for queue in verified.emptied if stored.get(queue) is not None}
    to_compare = set(readable) - emptied - at_slaves
    after_ms = recreated_queues(to_compare, later, start, bounds)
    begin = membership.queries.search_offsets({queue: ms + 1 for queue, ms in after_ms.items()})
    other = {
        queue: recreated_from(begin[queue], start.queues[queue]) if queue in begin else None
        for queue in readable
        if queue in begin or queue not in after_ms
    }
    return QueueFacts(bounds, {queue: stored[queue] for queue in other}, other, suspect, emptied)


def _probe_last_read(
    queries: QueueQueries,
    queues: Collection[MessageQueue],
    start: SourceOffset,
    snapshot: MetadataSnapshot,
    *,
    refresh: bool,
) -> tuple[Bounds, set[MessageQueue], set[MessageQueue]]:
    """Probe the last read message of each of ``queues``. If one is ``stored_later``, or for ``refresh``, request the
    bounds of all queues from their masters, and probe queues that have grown to their last read message since. Return
    the bounds, those of queues at slaves from ``snapshot``, the queues that are ``stored_later``, and those whose probe
    failed."""
    bounds: Bounds = snapshot.bounds
    to_check = last_read(queues, start, bounds)
    checked = queries.probe_store_times(to_check)
    if refresh or stored_later(checked, start):
        # Another member may have read further since the snapshot; bounds requested now cannot be older.
        bounds = queries.query_bounds() | {queue: bounds[queue] for queue in queues_at_slaves(bounds, snapshot)}
        grown = last_read([one for one in queues if one in bounds and one not in to_check], start, bounds)
        to_check |= grown
        checked |= queries.probe_store_times(grown)
    return bounds, stored_later(checked, start), to_check.keys() - checked.keys()
