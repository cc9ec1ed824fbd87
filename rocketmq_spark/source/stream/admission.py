"""Admission: how much a micro-batch reads, and when one with few offsets is delayed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.message_sizes import MessageSizes
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position, plan_batch, unplanned_offsets

ProbeSizes: TypeAlias = Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, int | None]]
"""Returns the size in bytes of the message at an offset of each queue; None: there is none."""


class TriggerDelay:
    """Delay of batches with fewer than ``min_offsets`` offsets, until ``max_delay_ms`` after the last batch. The first
    batch is not delayed. Not thread-safe.

    Source: ``org/apache/spark/sql/kafka010/KafkaMicroBatchStream.scala#delayBatch``. Differs: the delay counts from the
    last batch, not from the last decision, so messages that come after a long pause are read at once.
    """

    def __init__(self, min_offsets: int | None, max_delay_ms: int) -> None:
        self.is_active = False
        """Whether available offsets are delayed, as of the last decision."""
        self._min_offsets = 0 if min_offsets is None else min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_batch_ms: int | None = None

    def decide(self, available: int, now_ms: int, *, is_full: bool = False) -> bool:
        """Return whether to delay a batch of ``available`` offsets, and store this as ``is_active``. A batch is delayed
        if it has fewer than the minimum, and the last ``record_planned``, by the caller for each batch, is less than
        ``max_delay_ms`` ago. Not delayed: an empty batch, one before the first ``record_planned``, and one with
        ``is_full``, which has reached a maximum. ``now_ms``: by the same clock, which does not go back."""
        is_small = 0 < available < self._min_offsets and not is_full
        self.is_active = is_small and self.remaining_ms(now_ms) > 0
        return self.is_active

    def remaining_ms(self, now_ms: int) -> int:
        """Return how long a batch can still be delayed; 0 before the first one."""
        return 0 if self._last_batch_ms is None else max(0, self._last_batch_ms + self._max_delay_ms - now_ms)

    def record_planned(self, now_ms: int) -> None:
        """Record that a batch with messages was planned."""
        self._last_batch_ms = now_ms


class Admission:
    """Limits of the micro-batches of one run of a query: by offsets, by bytes, and the delay of small ones. The caller
    adds the sizes that tasks have reported to ``sizes``. Not thread-safe."""

    def __init__(self, options: ReadOptions) -> None:
        self.delay = TriggerDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._max_bytes = options.max_bytes_per_trigger
        self.sizes: Final = MessageSizes()
        self._last_planned: list[MessageQueue] = []

    def plan(
        self,
        positions: Mapping[MessageQueue, Position],
        bounds: Mapping[MessageQueue, QueueBounds],
        checkpoint: SourceOffset,
        *,
        limit: int | None,
        targets: Mapping[MessageQueue, int] | None,
        now_ms: int,
        probe_sizes: ProbeSizes = lambda _offsets: {},
    ) -> dict[MessageQueue, QueueProgress]:
        """Return the next range of each queue that gets a share, see ``plan_batch``. Return {} while
        ``minOffsetsPerTrigger`` delays a batch. No batch is delayed with ``targets`` (AvailableNow), or without
        ``limit`` (Once), which also disables 'maxBytesPerTrigger'.

        With 'maxBytesPerTrigger', a queue without a task's report of sizes, as in the first batch after each start, is
        estimated by the size of its first unplanned message. ``probe_sizes`` returns it, for at most
        ``MAX_PROBED_QUEUES`` queues in a call.
        """
        unplanned = unplanned_offsets(positions, bounds, targets)
        max_bytes = None if limit is None else self._max_bytes
        if max_bytes is not None:
            # A delay decides again every 200 ms, and the first messages stay the same meanwhile.
            to_probe = self.sizes.to_probe(unplanned, without_size_only=self.delay.is_active)
            self.sizes.add_probed(probe_sizes({queue: positions[queue].offset for queue in to_probe}))
        is_delayable = limit is not None and targets is None
        is_full = max_bytes is not None and self._bytes_of(unplanned) >= max_bytes
        if is_delayable and self.delay.decide(sum(unplanned.values()), now_ms, is_full=is_full):
            return {}
        return plan_batch(
            positions,
            bounds,
            unplanned,
            limit=limit,
            max_bytes=max_bytes,
            sizes=self.sizes,
            last_planned=self._last_planned,
            checkpoint=checkpoint,
        )

    def _bytes_of(self, unplanned: Mapping[MessageQueue, int]) -> int:
        """Return the estimated bytes of the messages at these numbers of offsets."""
        return sum(offsets * self.sizes.of(queue) for queue, offsets in unplanned.items())

    def record_planned(self, planned: Mapping[MessageQueue, QueueProgress], now_ms: int) -> None:
        """Record that a batch with these queues was planned, for the delay and the order of the next ones. Do nothing
        if ``planned`` is empty."""
        if planned:
            self.delay.record_planned(now_ms)
            self._last_planned = [queue for queue in self._last_planned if queue not in planned] + list(planned)
