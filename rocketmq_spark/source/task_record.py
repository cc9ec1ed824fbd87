"""What a task has read and lost, for its report to the member that planned it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.data_loss import VACANT, LostRange
from rocketmq_spark.wire.body.task_report import ReadSize, ReportedLoss, TaskReport


class TaskRecord:
    """Record of what one task has read and lost. ``reports_sizes``: its report has what was read, not only losses. Not
    thread-safe."""

    def __init__(self, *, reports_sizes: bool = False) -> None:
        self._lost: list[LostRange] = []
        self._reports_sizes = reports_sizes
        self._read: dict[MessageQueue, tuple[int, int]] = {}
        """(offsets, bytes)."""

    @property
    def lost(self) -> Sequence[LostRange]:
        """Lost and vacant offsets, in the order in which they were added."""
        return self._lost

    def add_loss(self, loss: LostRange) -> None:
        """Add lost or vacant offsets. If ``loss`` is vacant and continues the last loss, merge both."""
        if loss.cause == VACANT and self._lost:
            last = self._lost[-1]
            if last == LostRange(loss.queue, last.begin_offset, loss.begin_offset, VACANT):
                loss = replace(self._lost.pop(), end_offset=loss.end_offset)
        self._lost.append(loss)

    def add_read(self, queue: MessageQueue, offsets: int, size_bytes: int) -> None:
        """Add the number of offsets that were read, and the bytes of their messages at the broker. ``report`` has both
        with ``reports_sizes``, else neither."""
        before_offsets, before_bytes = self._read.get(queue, (0, 0))
        self._read[queue] = before_offsets + offsets, before_bytes + size_bytes

    def forget_losses(self, reread: QueueRange) -> None:
        """Remove the losses of the queue from the begin of ``reread`` on, also beyond its end, because the rest of the
        queue is read again. A loss that contains the begin of ``reread`` is cut there, and keeps its first part."""
        kept: list[LostRange] = []
        for one in self._lost:
            is_apart = one.queue != reread.queue or one.end_offset <= reread.begin_offset
            if not is_apart and one.begin_offset < reread.begin_offset:
                kept.append(replace(one, end_offset=reread.begin_offset))
            elif is_apart:
                kept.append(one)
        self._lost = kept

    def report(self) -> TaskReport:
        """Return all losses, in the order of ``lost``, and, with ``reports_sizes``, the offsets and bytes that were
        read of each queue."""
        lost = (
            ReportedLoss(QueueRange(one.queue, one.begin_offset, one.end_offset), one.cause.condition)
            for one in self._lost
        )
        read = self._read.items() if self._reports_sizes else ()
        return TaskReport(tuple(lost), tuple(ReadSize(queue, *counts) for queue, counts in read))
