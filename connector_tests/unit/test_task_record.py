"""What a task has read and lost."""

from __future__ import annotations

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.model import QueueRange
from rocketmq_spark.source.data_loss import RETENTION, VACANT, LostRange
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.wire.body.task_report import ReadSize, ReportedLoss, TaskReport

A, B = queues(2)


@pytest.mark.parametrize(("reports_sizes", "read"), [(False, ()), (True, (ReadSize(A, 7, 50), ReadSize(B, 1, 0)))])
def test_losses_are_reported_by_condition_and_sizes_by_queue(reports_sizes: bool, read: tuple[ReadSize, ...]) -> None:
    record = TaskRecord(reports_sizes=reports_sizes)
    assert record.report() == TaskReport()
    record.lost += [LostRange(A, 0, 3, RETENTION), LostRange(A, 5, 6, VACANT)]
    for size in (ReadSize(A, 3, 20), ReadSize(B, 1, 0), ReadSize(A, 4, 30)):
        record.add_read(*size)
    lost = (
        ReportedLoss(QueueRange(A, 0, 3), "OFFSETS_UNAVAILABLE"),
        ReportedLoss(QueueRange(A, 5, 6), "OFFSETS_OMITTED"),
    )
    assert record.report() == TaskReport(lost, read)


def test_losses_in_offsets_that_are_read_again_are_forgotten() -> None:
    record = TaskRecord()
    before, other = LostRange(A, 0, 5, RETENTION), LostRange(B, 5, 9, VACANT)
    record.lost += [before, other, LostRange(A, 5, 6, RETENTION), LostRange(A, 7, 9, VACANT)]
    record.forget_losses(QueueRange(A, 5, 20))
    assert record.lost == [before, other]
    record.forget_losses(QueueRange(A, 3, 20))
    assert record.lost == [LostRange(A, 0, 3, RETENTION), other]
    record.forget_losses(QueueRange(A, 3, 20))
    assert record.lost == [LostRange(A, 0, 3, RETENTION), other]
