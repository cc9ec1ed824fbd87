"""AvailableNow: the max offsets when the query started, and whether the group has reached them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.planning import unreached

log = logging.getLogger(__name__)


class AvailableNowTargets:
    """Ends of an ``availableNow`` run: the max offset of each queue of its topics, owned or not, when it started.
    Decides whether the group has reached them. ``timeout_ms``: maximum time without progress of other members. Not
    thread-safe."""

    def __init__(self, timeout_ms: int) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self._is_fixed = False
        self._timeout_ms = timeout_ms
        self._missing: dict[MessageQueue, int] = {}
        self._unchanged_since_ms = 0
        self.awaits_other_members = False
        """Whether the query waits for other members to commit their queues."""
        self._logged: frozenset[MessageQueue] = frozenset()

    def fix_targets(self, snapshot: MetadataSnapshot) -> None:
        """Set the targets to the max offsets of ``snapshot`` if it is the first complete one. Until then ``offsets`` is
        empty, so nothing is read. Later calls only remove the targets of topics that ``snapshot`` lacks, which are
        deleted."""
        if snapshot.is_complete and not self._is_fixed:
            self.offsets = {queue: bounds.max_offset for queue, bounds in snapshot.bounds.items()}
            self._is_fixed = True
        self.drop([queue for queue in self.offsets if queue.topic not in snapshot.topics])

    def drop(self, queues: Collection[MessageQueue]) -> None:
        """Remove the targets of ``queues``, which this run then reads no more and does not await."""
        self.offsets = {queue: target for queue, target in self.offsets.items() if queue not in queues}

    def lower_to_bounds(self, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """Lower targets to the max offsets in ``bounds``; raise none. Queues without bounds keep their target. A queue
        that no longer reaches its target was re-created or truncated."""
        for queue in self.offsets.keys() & bounds.keys():
            self.offsets[queue] = min(self.offsets[queue], bounds[queue].max_offset)

    def restart_timeout(self, now_ms: int) -> None:
        """Restart the timeout for other members, because no member can make progress now, and set
        ``awaits_other_members`` to False."""
        self._unchanged_since_ms = now_ms
        self.awaits_other_members = False

    def lagging_brokers(
        self, at_slaves: Collection[str], start: SourceOffset, stored: Mapping[MessageQueue, int | None]
    ) -> set[str]:
        """Return the brokers in ``at_slaves`` with a target that neither this query nor the group has reached. They are
        read at a slave, and their masters may have more messages. Before the targets are fixed, return all of
        ``at_slaves``."""
        if not at_slaves:
            return set()
        missing = unreached(self.offsets, start, stored)
        return {name for name in at_slaves if not self._is_fixed or any(one.broker_name == name for one in missing)}

    def check_progress(
        self,
        start: SourceOffset,
        stored: Mapping[MessageQueue, int | None],
        now_ms: int,
        lagging_brokers: Collection[str] = (),
    ) -> bool:
        """Return whether the run may end. All targets must be reached, by this query or the group, or the rest have not
        changed for the timeout, which is logged as a warning. False before the targets are fixed. With
        ``lagging_brokers`` restart the timeout and return False: the query waits for their masters. Set
        ``awaits_other_members``; log the wait for them."""
        if not self._is_fixed:
            return False
        missing = unreached(self.offsets, start, stored)
        if lagging_brokers:
            self.restart_timeout(now_ms)
            return False
        if missing != self._missing:
            self._missing, self._unchanged_since_ms = missing, now_ms
        self.awaits_other_members = bool(missing) and now_ms - self._unchanged_since_ms < self._timeout_ms
        if self.awaits_other_members:
            self._log_wait(missing)
            return False
        if not missing:
            return True
        log.warning(
            "TARGET_OFFSETS_NOT_REACHED: availableNow ends, but other members have not committed their queues up to "
            "the target offsets. Check these members: %s",
            _remaining(missing),
        )
        return True

    def _log_wait(self, missing: Mapping[MessageQueue, int]) -> None:
        """Log that the query waits for other members, once for the same queues."""
        if missing.keys() == self._logged:
            return
        self._logged = frozenset(missing)
        log.info(
            "TARGET_OFFSETS_NOT_REACHED: availableNow waits for other members to commit their queues up to the target "
            "offsets. If they commit nothing for %d s, the query ends without an error: %s",
            self._timeout_ms // 1000,
            _remaining(missing),
        )


def _remaining(missing: Mapping[MessageQueue, int]) -> str:
    """Return ``queue=t@b:0 remaining=3``, one for each of ``missing``, in its order and separated by commas."""
    return ", ".join(f"queue={queue} remaining={count}" for queue, count in missing.items())
