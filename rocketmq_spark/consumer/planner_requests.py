"""PlannerRequests: what the planner of a query requests as a member of its group. ``Membership`` inherits it, so that a
planner depends on neither the member's client nor its offset store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rocketmq_spark.consumer.cluster_api import Link
from rocketmq_spark.consumer.offset_committer import OffsetCommitter
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.model import MessageQueue, QueueBounds


class PlannerRequests:
    """Requests of a planner, and the masters that it requires. Not thread-safe: callers hold the ``GroupLock``.

    Each request waits for all responses. Results of unresponsive brokers are missing; permanent errors are raised.
    """

    client: OutageAwareClient
    offsets: OffsetCommitter

    @property
    def brokers_at_slaves(self) -> frozenset[str]:
        """Return the names of the brokers that are read at a slave."""
        return self.client.slave_reads.brokers

    def require_masters(self, broker_names: Iterable[str]) -> None:
        """Record the brokers whose masters the query needs to end (``SlaveReads.require_masters``). Send nothing."""
        self.client.slave_reads.require_masters(broker_names)

    def end_master_requirement(self, *, is_reading: bool) -> None:
        """Require no master any more if ``is_reading``: the query reads again. Else do nothing. Send nothing."""
        self.client.slave_reads.end_requirement(is_reading=is_reading)

    def link(self, broker_name: str) -> Link | None:
        """Return address and connection number of the broker's next request; None if these do not identify it
        (``OutageAwareClient.link``). Send nothing."""
        return self.client.link(broker_name)

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Request and return the group's committed offsets; None where there is none."""
        return self.offsets.store.stored_offsets(queues)

    def query_bounds(self) -> dict[MessageQueue, QueueBounds]:
        """Request and return the bounds of all readable queues at their masters."""
        return self.client.query_bounds()

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Request and return the first offset of each queue stored at its timestamp (epoch ms) or later, else its max
        offset."""
        return self.client.search_offsets(timestamps_ms)

    def probe_store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Probe the message at an offset of each queue, and return its store time in epoch ms; None where there is
        none."""
        return self.client.probe_store_times(offsets)

    def probe_sizes(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Probe the message at an offset of each queue, and return its size in bytes, as the broker stores it; None
        where there is none."""
        return self.client.probe_sizes(offsets)
