"""Sizes of messages, as seen so far, and the limit of a micro-batch in bytes that is based on them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Final

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.task_report import ReadSize

LARGEST_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Assumed size of messages while no size is known at all: the brokers' default limit, so that a batch is not too
large."""

MAX_PROBED_QUEUES: Final = 32
"""Maximum number of queues whose first message is probed for a batch; the response to each is an entire message."""

PROBE_WEIGHT: Final = 16
"""Number of offsets as which a probed message counts."""


class MessageSizes:
    """Mean sizes in bytes per offset, by queue, of what tasks have read, and of probed messages of other queues. Each
    addition to a queue halves the weight of what was added before. Not thread-safe."""

    def __init__(self) -> None:
        self._read: dict[MessageQueue, tuple[float, float]] = {}
        """(bytes, offsets), weighted."""
        self._reported: set[MessageQueue] = set()
        self._mean_of_all: int | None = None
        """None: to be computed after an addition. Thousands of queues without a size may need it."""

    def add(self, sizes: Iterable[ReadSize]) -> None:
        """Add what tasks have read, in one addition for each queue. The first addition to a queue replaces its probed
        sizes."""
        added: dict[MessageQueue, tuple[int, int]] = {}
        for one in sizes:
            size_bytes, offsets = added.get(one.queue, (0, 0))
            added[one.queue] = size_bytes + one.size_bytes, offsets + one.offsets
        for queue in added.keys() - self._reported:
            self._read.pop(queue, None)
        self._reported |= added.keys()
        self._add(added)

    def add_probed(self, sizes: Mapping[MessageQueue, int | None]) -> None:
        """Add sizes in bytes of probed messages, each as PROBE_WEIGHT offsets. Ignore None: there was no message."""
        self._add({queue: (size * PROBE_WEIGHT, PROBE_WEIGHT) for queue, size in sizes.items() if size is not None})

    def _add(self, added: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """Add (bytes, offsets) to each queue, after halving the sums of its earlier additions."""
        for queue, (size_bytes, offsets) in added.items():
            before_bytes, before_offsets = self._read.get(queue, (0, 0))
            self._read[queue] = size_bytes + before_bytes / 2, offsets + before_offsets / 2
        self._mean_of_all = None

    def to_probe(self, queues: Iterable[MessageQueue], *, without_size_only: bool = False) -> list[MessageQueue]:
        """Return at most ``MAX_PROBED_QUEUES`` of ``queues`` of which no task has reported a size, queues without a
        probed size first. ``without_size_only``: omit queues with a probed size."""
        known = self._read.keys() if without_size_only else self._reported
        return sorted((queue for queue in queues if queue not in known), key=self._read.__contains__)[
            :MAX_PROBED_QUEUES
        ]

    def of(self, queue: MessageQueue) -> int:
        """Return the queue's mean size in bytes per offset, rounded up, at least 1. If the queue has no size, return
        the mean over all queues, or ``LARGEST_MESSAGE_BYTES`` if no queue has one."""
        if queue in self._read:
            return _mean([self._read[queue]])
        if self._mean_of_all is None:
            self._mean_of_all = _mean(self._read.values()) if self._read else LARGEST_MESSAGE_BYTES
        return self._mean_of_all


def _mean(read: Collection[tuple[float, float]]) -> int:
    """Return the bytes per offset of pairs (bytes, offsets), at least one pair: rounded up, at least 1."""
    return max(1, ceil(sum(size_bytes for size_bytes, _ in read) / sum(offsets for _, offsets in read)))


def shares_within(
    shares: Mapping[MessageQueue, int],
    max_bytes: int,
    size_of: Callable[[MessageQueue], int],
    last_planned: Sequence[MessageQueue] = (),
) -> dict[MessageQueue, int]:
    """Reduce each queue's offsets by the same factor, to ``max_bytes`` in total.

    Parameters
    ----------
    shares : offsets that may be planned, > 0 for each queue
    max_bytes : >= 1
    size_of : estimated bytes per offset of a queue, >= 1
    last_planned : queues in the order in which they were last planned, the latest one last

    Returns
    -------
    Shares > 0, none above the queue's in ``shares``. By the estimate, they have at most ``max_bytes``, or are a single
    offset. If one offset of each queue is within ``max_bytes``, every queue gets at least one. If not, some get one
    each: those that were never planned, then those planned longest ago, so that none starves.
    """
    sizes = {queue: size_of(queue) for queue in shares}
    total_bytes, one_each_bytes = sum(shares[queue] * size for queue, size in sizes.items()), sum(sizes.values())
    if total_bytes <= max_bytes:
        return dict(shares)
    if one_each_bytes <= max_bytes:
        spare, beyond_one = max_bytes - one_each_bytes, total_bytes - one_each_bytes
        return {queue: 1 + spare * (share - 1) // beyond_one for queue, share in shares.items()}
    last_order = {queue: order for order, queue in enumerate(last_planned)}
    chosen: dict[MessageQueue, int] = {}
    left_bytes = max_bytes
    for queue in sorted(shares, key=lambda queue: last_order.get(queue, -1)):
        # Stop at the first one that does not fit, not only skip it: otherwise small messages would starve large ones.
        if chosen and sizes[queue] > left_bytes:
            break
        chosen[queue] = 1
        left_bytes -= sizes[queue]
    return chosen
