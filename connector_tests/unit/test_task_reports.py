"""Reports of tasks, as their member keeps them."""

from __future__ import annotations

from connector_tests.support.queues import queues
from rocketmq_spark.consumer.task_reports import TaskReports
from rocketmq_spark.model import QueueRange
from rocketmq_spark.wire.body.task_report import ReadSize, ReportedLoss, TaskReport

A, B = queues(2)
LOST = ReportedLoss(QueueRange(A, 0, 5), "OFFSETS_OMITTED")


def test_losses_and_sizes_are_returned_once() -> None:
    reports, sizes = TaskReports(), [ReadSize(A, 1, 10), ReadSize(B, 2, 30), ReadSize(A, 1, 10)]
    reports.add(TaskReport((LOST,), tuple(sizes[:2])))
    reports.add(TaskReport((LOST,), tuple(sizes[2:])))
    assert reports.take_losses() == {LOST}
    assert reports.take_sizes() == sizes
    assert (reports.take_sizes(), reports.take_losses()) == ([], set())
