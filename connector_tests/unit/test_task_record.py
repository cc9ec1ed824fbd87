"""What a task has read and lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.model import QueueRange
from rocketmq_spark.source.data_loss import OMITTED, RETENTION, VACANT, LostRange
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.wire.body.task_report import ReadSize, ReportedLoss, TaskReport

A, B = queues(2)


def record_of(losses: Iterable[LostRange], *, reports_sizes: bool = False) -> TaskRecord:
    record = TaskRecord(reports_sizes=reports_sizes)
    for loss in losses:
        record.add_loss(loss)
    return record


@pytest.mark.parametrize(("reports_sizes", "read"), [(False, ()), (True, (ReadSize(A, 7, 50), ReadSize(B, 1, 0)))])
def test_losses_are_reported_by_condition_and_sizes_by_queue(reports_sizes: bool, read: tuple[ReadSize, ...]) -> None:
    assert TaskRecord(reports_sizes=reports_sizes).report() == TaskReport()
    record = record_of([LostRange(A, 0, 3, RETENTION), LostRange(A, 5, 6, VACANT)], reports_sizes=reports_sizes)
    for size in (ReadSize(A, 3, 20), ReadSize(B, 1, 0), ReadSize(A, 4, 30)):
        record.add_read(*size)
    lost = (
        ReportedLoss(QueueRange(A, 0, 3), "OFFSETS_UNAVAILABLE"),
        ReportedLoss(QueueRange(A, 5, 6), "OFFSETS_OMITTED"),
    )
    assert record.report() == TaskReport(lost, read)


def test_losses_in_offsets_that_are_read_again_are_forgotten() -> None:
    before, other = LostRange(A, 0, 5, RETENTION), LostRange(B, 5, 9, VACANT)
    record = record_of([before, other, LostRange(A, 5, 6, RETENTION), LostRange(A, 7, 9, VACANT)])
    record.forget_losses(QueueRange(A, 5, 20))
    assert record.lost == [before, other]
    record.forget_losses(QueueRange(A, 3, 20))
    assert record.lost == [LostRange(A, 0, 3, RETENTION), other]
    record.forget_losses(QueueRange(A, 3, 20))
    assert record.lost == [LostRange(A, 0, 3, RETENTION), other]


def test_adjacent_vacant_offsets_of_a_queue_are_one_loss() -> None:
    record = record_of(LostRange(A, begin, begin + 2, VACANT) for begin in (0, 2, 4))
    assert record.lost == [LostRange(A, 0, 6, VACANT)]


@pytest.mark.parametrize(
    "following",
    [
        LostRange(A, 4, 5, VACANT),
        LostRange(A, 2, 5, VACANT),
        LostRange(B, 3, 5, VACANT),
        LostRange(A, 3, 5, OMITTED),
    ],
)
def test_a_loss_after_vacant_offsets_that_does_not_continue_them_is_another(following: LostRange) -> None:
    vacant = LostRange(A, 0, 3, VACANT)
    assert record_of([vacant, following]).lost == [vacant, following]


def test_adjacent_losses_that_are_not_vacant_stay_apart() -> None:
    """Each was reported with its range, and counts as one range."""
    losses = [LostRange(A, 0, 3, OMITTED), LostRange(A, 3, 5, OMITTED), LostRange(A, 5, 6, VACANT)]
    assert record_of(losses).lost == losses
