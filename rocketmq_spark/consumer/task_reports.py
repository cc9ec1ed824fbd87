"""What tasks have reported to their member. Pure."""

from __future__ import annotations

from rocketmq_spark.wire.body.task_report import ReadSize, ReportedLoss, TaskReport


class TaskReports:
    """Reports of the tasks of one member. Not thread-safe."""

    def __init__(self) -> None:
        self._losses: set[ReportedLoss] = set()
        self._sizes: list[ReadSize] = []

    def add(self, report: TaskReport) -> None:
        """Keep the losses of ``report``, equal ones once, and its sizes."""
        self._losses.update(report.lost)
        self._sizes.extend(report.read)

    def take_losses(self) -> set[ReportedLoss]:
        """Remove and return the losses that were reported since the last call. A retried task reports its losses again,
        so a later call may return them again."""
        losses, self._losses = self._losses, set()
        return losses

    def take_sizes(self) -> list[ReadSize]:
        """Remove and return, in order, the sizes that were reported since the last call, those of retried tasks
        again."""
        sizes, self._sizes = self._sizes, []
        return sizes
