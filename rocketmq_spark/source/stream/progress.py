"""Progress: unread messages of owned queues as of the last metadata refresh, and the fields of a source run that a
query's progress shows as ``latestOffset``. Sends no request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rocketmq_spark.model import MessageQueue, QueueBounds, nested
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.source.data_loss import LossCount
from rocketmq_spark.source.stream.drain import CONTROL, Control

MAX_SAMPLES: Final = 256
"""Maximum number of snapshots kept per queue; beyond it every second one is dropped, but not the first or the last."""


class WaitingTimes:
    """Max offsets and last store times of queues with unread messages, one of each per snapshot. Not thread-safe."""

    def __init__(self) -> None:
        self._samples: dict[MessageQueue, list[tuple[int, int]]] = {}

    def update(self, positions: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """Add a snapshot. ``positions``: next offsets to read, of all queues to keep; other queues are dropped.
        ``bounds``: of some or all queues in ``positions``; a queue without bounds keeps its samples."""
        self._samples = {queue: self._of_queue(queue, at, bounds.get(queue)) for queue, at in positions.items()}

    def _of_queue(self, queue: MessageQueue, position: int, bounds: QueueBounds | None) -> list[tuple[int, int]]:
        """Return the samples of ``queue`` after ``position``, by ascending max offset: (max offset, store time in ms of
        the last message). If ``bounds`` have a store time, they become a sample, which replaces those whose max offset
        is not smaller. If they have none, samples with a larger max offset are dropped. Without ``bounds`` none
        changes. If there are more than ``MAX_SAMPLES``, return every second one."""
        samples = self._samples.get(queue, [])
        if bounds is not None and bounds.last_store_timestamp_ms > 0:
            samples = [entry for entry in samples if entry[0] < bounds.max_offset]
            samples.append((bounds.max_offset, bounds.last_store_timestamp_ms))
        elif bounds is not None:  # a broker does not report the time of a last message that it cannot read
            samples = [entry for entry in samples if entry[0] <= bounds.max_offset]
        unread = [entry for entry in samples if entry[0] > position]
        return unread if len(unread) <= MAX_SAMPLES else unread[::2]

    def waiting_ms(self, queue: MessageQueue, now_ms: int) -> int:
        """Return the minimum age of the first unread message; 0 without one, or without a known store time.
        ``now_ms``: epoch ms, to compare with store times."""
        samples = self._samples.get(queue)
        return max(0, now_ms - samples[0][1]) if samples else 0


class Backlog:
    """Unread messages of owned queues, as of the last metadata refresh. Not thread-safe."""

    def __init__(self) -> None:
        self.snapshot_count = 0
        """Number of snapshots: the progress of queues without lag changes only with them."""
        self.is_complete = False
        """Whether the last snapshot has all queues that are owned, or may be: if not, the total lag is unknown."""
        self._positions: Mapping[MessageQueue, int] = {}
        self._max_offsets: dict[MessageQueue, int] = {}
        self._waiting = WaitingTimes()

    def update(
        self, positions: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds], *, is_complete: bool
    ) -> None:
        """Add a snapshot. ``positions``: next offsets to plan of owned queues. ``bounds``: of all refreshed queues; an
        owned queue without bounds keeps its last max offset, and must have one. ``is_complete``: the lag of all owned
        queues is known."""
        self.snapshot_count += 1
        self.is_complete = is_complete
        self._positions = positions
        self._max_offsets |= {queue: held.max_offset for queue, held in bounds.items()}
        self._waiting.update(positions, bounds)

    @property
    def lag(self) -> dict[MessageQueue, int]:
        """Return the number of unplanned offsets, at least 0, of each queue with a position."""
        return {queue: max(0, self._max_offsets[queue] - at) for queue, at in self._positions.items()}

    def waiting_ms(self, now_ms: int) -> dict[MessageQueue, int]:
        """Return the minimum age of the first unplanned offset, of each queue with a position, see ``WaitingTimes``."""
        return {queue: self._waiting.waiting_ms(queue, now_ms) for queue in self._positions}

    @property
    def max_offsets(self) -> dict[MessageQueue, int]:
        """Return the last known max offset of each queue with a position."""
        return {queue: self._max_offsets[queue] for queue in self._positions}


MAX_OUTAGES: Final = 20
"""Maximum number of outages in a progress event: every event carries them."""


class ProgressReporter:
    """Builder of the report, cached until it changes: Spark requests it at each trigger. Not thread-safe."""

    def __init__(self) -> None:
        self._cached_report: tuple[tuple[object, ...], dict[str, Any]] | None = None

    def report(
        self,
        backlog: Backlog,
        completed_after_rebalance: int,
        losses: LossCount,
        outages: list[dict[str, Any]],
        *,
        client_id: str,
        control: Control,
        now_ms: int,
    ) -> dict[str, Any]:
        """Return the fields of one source in the query progress, as of the last metadata refresh.

        ``clientId``: client ID of the group member. ``maxOffsets``: max offset of each queue that the query owns.
        ``lagByQueue``: for each of these queues, ``messages``, the number of offsets that are in no batch yet, and
        ``ms``, the minimum age of the first of them (see ``WaitingTimes``): this machine's clock, ``now_ms``, minus
        the broker's store time. Both are 0 if all offsets are planned. ``lag``: sum of the messages; None while the
        max offset of any owned queue is unknown, with any ``missingQueues``; ``maxOffsets`` and ``lagByQueue`` omit it.
        ``completedAfterRebalance``: number of ranges, since the query started, that reached the sink after a rebalance
        had reassigned their queue; the new owner may have read them too. ``lost``: ``offsets`` and ``ranges`` lost
        since then, with ``failOnDataLoss=false``, that the query had not read; ``byCondition``: both by sub-condition
        of DATA_LOSS, including what it had read. ``outages``: see ``outages_of``; [] while all servers respond.
        ``control``: for ``rocketmq_spark.stop``. With lag 0 and no outages, the dict is reused until it changes.
        """
        by_condition = losses.by_condition
        cache_key = backlog.snapshot_count, completed_after_rebalance, by_condition
        if self._cached_report is not None and self._cached_report[0] == cache_key and not outages:
            return self._cached_report[1]
        lag, waiting_ms = backlog.lag, backlog.waiting_ms(now_ms)
        report: dict[str, Any] = {
            "clientId": client_id,
            "maxOffsets": nested(backlog.max_offsets),
            "lag": sum(lag.values()) if backlog.is_complete else None,
            "lagByQueue": nested({queue: {"messages": lag[queue], "ms": ms} for queue, ms in waiting_ms.items()}),
            "completedAfterRebalance": completed_after_rebalance,
            "lost": {
                "offsets": losses.offsets,
                "ranges": losses.ranges,
                "byCondition": {
                    condition: {"offsets": offsets, "ranges": ranges}
                    for condition, (offsets, ranges) in by_condition.items()
                },
            },
            "outages": outages,
            CONTROL: control._asdict(),
        }
        self._cached_report = (cache_key, report) if report["lag"] == 0 and not outages else None
        return report


def outages_of(outages: Collection[Outage], now_ms: int, epoch_ms: int) -> list[dict[str, Any]]:
    """Return ``[{"resource", "since", "until", "reason"}]``, the longest outage first: at most ``MAX_OUTAGES`` of those
    that last long enough to be logged.

    Times are text as Spark writes them, in UTC. ``until`` is when the outage fails the query, or None if it never does.
    ``now_ms`` and ``epoch_ms`` are the same moment, by the outages' clock and since 1970.
    """

    def text(at_ms: int) -> str:
        """Return a time by the outages' clock (ms) as text in UTC, such as ``2026-01-31T08:00:00.123Z``."""
        moment = datetime.fromtimestamp((epoch_ms + at_ms - now_ms) / 1000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"

    lasting = [wait for wait in outages if wait.is_loggable(now_ms)]
    longest_first = sorted(lasting, key=lambda wait: (wait.since_ms, wait.resource))[:MAX_OUTAGES]
    return [
        {
            "resource": wait.resource,
            "since": text(wait.since_ms),
            "until": None if wait.until_ms is None else text(wait.until_ms),
            "reason": wait.reason,
        }
        for wait in longest_first
    ]
