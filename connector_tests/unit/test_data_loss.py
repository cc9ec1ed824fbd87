from __future__ import annotations

import time

import pytest

from connector_tests.support.queues import queues
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.errors import DataLossError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.source import data_loss
from rocketmq_spark.source.data_loss import (
    BEYOND_END,
    BEYOND_UNVERIFIED_END,
    MAX_LISTED_RANGES,
    OMITTED,
    RECREATED,
    REPLACED,
    RETENTION,
    TAIL_LOST,
    TRUNCATED,
    VACANT,
    WARNINGS,
    LossCause,
    LossCount,
    LostRange,
    deleted,
    report_losses,
)
from rocketmq_spark.wire.body.task_report import ReportedLoss

A, B, C = queues(3)
LOST = [LostRange(B, 3, 120, RETENTION), LostRange(C, 0, 5, RECREATED), LostRange(A, 0, 100, RETENTION)]
NONE_BY_CONDITION = {
    "OFFSETS_BEYOND_END": (0, 0),
    "OFFSETS_OMITTED": (0, 0),
    "OFFSETS_UNAVAILABLE": (0, 0),
    "QUEUE_TRUNCATED": (0, 0),
    "TOPIC_RECREATED": (0, 0),
}


def found(queue: MessageQueue, begin_offset: int, end_offset: int, condition: str = "OFFSETS_OMITTED") -> ReportedLoss:
    return ReportedLoss(QueueRange(queue, begin_offset, end_offset), condition)


def test_a_failure_names_all_ranges_with_their_causes_and_what_to_do() -> None:
    with pytest.raises(DataLossError) as raised:
        report_losses(LOST, is_failure=True)
    assert str(raised.value) == (
        "[ROCKETMQ_DATA_LOSS.OFFSETS_UNAVAILABLE] 222 offsets no longer available in the brokers: [0, 100) of "
        "orders@broker-a:0, [3, 120) of orders@broker-a:1: the broker deleted them (retention); [0, 5) of "
        "orders@broker-a:2: the topic was deleted and created again, or its queue was emptied. Set "
        "'failOnDataLoss' to false to continue without them. To start a batch read over, call load() again. To "
        "start a stream over, stop the other members of its group. Then use a new checkpoint location (for a file "
        "sink also a new path), and set 'groupOffsets' to 'ignore': the query resets the group to 'startingOffsets'."
    )


@pytest.mark.parametrize(
    ("cause", "condition", "what"),
    [
        (RETENTION, "DATA_LOSS.OFFSETS_UNAVAILABLE", "3 offsets no longer available in the brokers: "),
        (RECREATED, "DATA_LOSS.TOPIC_RECREATED", "3 offsets of re-created or emptied queues no longer exist: "),
        (TRUNCATED, "DATA_LOSS.QUEUE_TRUNCATED", "3 offsets of truncated queues no longer exist: "),
        (REPLACED, "DATA_LOSS.QUEUE_TRUNCATED", "3 offsets of truncated queues no longer exist: "),
        (TAIL_LOST, "DATA_LOSS.QUEUE_TRUNCATED", "3 offsets of truncated queues no longer exist: "),
        (OMITTED, "DATA_LOSS.OFFSETS_OMITTED", "3 offsets are missing in the responses of the brokers: "),
    ],
)
def test_failure_of_one_kind_has_its_condition_and_exact_range(cause: LossCause, condition: str, what: str) -> None:
    with pytest.raises(DataLossError) as raised:
        report_losses([LostRange(A, 4, 7, cause)], is_failure=True)
    assert raised.value.condition == condition
    summary = f"[ROCKETMQ_{condition}] {what}[4, 7) of orders@broker-a:0: {cause}."
    advice = str(raised.value).removeprefix(summary)
    assert advice != str(raised.value)
    assert advice.startswith(" Set 'failOnDataLoss' to false to continue")


@pytest.mark.parametrize("cause", [BEYOND_END, BEYOND_UNVERIFIED_END])
def test_group_offset_beyond_the_end_fails_with_its_owner_and_what_continuing_does(cause: LossCause) -> None:
    """The count of offsets was called one of committed offsets, and the advice was to continue without them."""
    with pytest.raises(DataLossError) as raised:
        report_losses([LostRange(A, 4, 7, cause)], is_failure=True)
    assert str(raised.value) == (
        "[ROCKETMQ_DATA_LOSS.OFFSETS_BEYOND_END] Committed offsets of the group are beyond the ends of their queues, "
        f"by 3 offsets: [4, 7) of orders@broker-a:0: {cause}. Check the disks and replicas of these brokers, and which "
        "clients commit offsets of the group. To resume from the checkpoint's offsets, set 'failOnDataLoss' to false. "
        "Queues without an offset in the checkpoint are then read from their first message."
    )


def test_what_is_allowed_is_one_line_that_gives_no_advice_and_one_of_what_was_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All 30 rows of a topic that was recreated were in the sink, and a line said that they were in no output."""
    report_losses(LOST, is_failure=False)
    assert caplog.messages == [
        (
            "DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping 217 offsets that the query has not read; their messages are in no "
            "output: "
            "[0, 100) of orders@broker-a:0, [3, 120) of orders@broker-a:1: the broker deleted them (retention)"
        ),
        (
            "DATA_LOSS.TOPIC_RECREATED: 5 offsets that the query has read no longer exist in a re-created or emptied "
            "queue. Later messages may be lost too, their number is unknown: "
            "[0, 5) of orders@broker-a:2: the topic was deleted and created again, or its queue was emptied"
        ),
    ]


@pytest.mark.parametrize("cause", [BEYOND_END, BEYOND_UNVERIFIED_END])
def test_group_offset_beyond_the_end_is_logged_and_not_counted(
    cause: LossCause, caplog: pytest.LogCaptureFixture
) -> None:
    """No message had the offsets, and the line said that the query had read them."""
    lost = [LostRange(A, 4, 2**63 - 1, cause)]
    report_losses(lost, is_failure=False)
    assert caplog.messages == [
        (
            "DATA_LOSS.OFFSETS_BEYOND_END: Committed offsets of the group are beyond the ends of their queues. "
            "Lowering them to those of the checkpoint, or else to the first message, and resuming there. Messages may "
            "be lost, their number is unknown. Check the broker's disk and replicas: "
            f"[4, 9223372036854775807) of orders@broker-a:0: {cause}"
        )
    ]
    count = LossCount()
    for found in ([LostRange(A, 0, 2, RETENTION)], lost, [LostRange(A, 0, 2, RETENTION)]):
        count.add(found)
    assert (count.offsets, count.ranges) == (2, 1)


@pytest.mark.parametrize(
    ("cause", "key"),
    [
        (RETENTION, "OFFSETS_UNAVAILABLE"),
        (TAIL_LOST, "QUEUE_TRUNCATED"),
        (OMITTED, "OFFSETS_OMITTED"),
        (VACANT, "OFFSETS_OMITTED"),
    ],
)
def test_what_no_task_could_read_is_lost_whatever_kept_it(
    cause: LossCause, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Offsets that a broker left out of its answers were said to have been read."""
    report_losses([LostRange(A, 4, 7, cause)], is_failure=False)
    assert caplog.messages == [
        (
            f"DATA_LOSS.{key}: Skipping 3 offsets that the query has not read; their messages are in no "
            f"output: [4, 7) of orders@broker-a:0: {cause}"
        )
    ]
    count = LossCount()
    count.add([LostRange(A, 4, 7, cause)])
    assert (count.offsets, count.ranges) == (3, 1)


def test_each_cause_has_a_warning_and_each_warning_a_cause() -> None:
    """A loss without a row of the table would not be logged."""
    causes = [cause for cause in vars(data_loss).values() if isinstance(cause, LossCause)]
    assert len(causes) == 9
    assert {(cause.condition, cause.was_read) for cause in causes} == WARNINGS.keys()


def test_losses_of_all_causes_are_logged_by_kind_in_the_order_of_the_table(caplog: pytest.LogCaptureFixture) -> None:
    causes = [cause for cause in vars(data_loss).values() if isinstance(cause, LossCause)]
    report_losses([LostRange(A, number, number + 1, cause) for number, cause in enumerate(causes)], is_failure=False)
    begins = [
        "DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping 1 offsets that the query has not read",
        "DATA_LOSS.QUEUE_TRUNCATED: Skipping 1 offsets that the query has not read",
        "DATA_LOSS.OFFSETS_OMITTED: Skipping 2 offsets that the query has not read",
        "DATA_LOSS.TOPIC_RECREATED: 1 offsets that the query has read",
        "DATA_LOSS.QUEUE_TRUNCATED: 2 offsets that the query has read",
        "DATA_LOSS.OFFSETS_BEYOND_END: Committed offsets of the group",
    ]
    assert [line[: len(begin)] for line, begin in zip(caplog.messages, begins, strict=True)] == begins


def test_of_very_many_ranges_the_error_names_some_and_counts_the_others() -> None:
    with pytest.raises(DataLossError) as raised:
        report_losses([LostRange(queue, 0, 10, RETENTION) for queue in queues(1_000)], is_failure=True)
    reported = str(raised.value)
    assert reported.count(" of orders@") == MAX_LISTED_RANGES
    assert f"; and {10 * (1_000 - MAX_LISTED_RANGES)} offsets in {1_000 - MAX_LISTED_RANGES} more ranges" in reported


@pytest.mark.parametrize(
    ("cause", "begins"),
    [
        (RETENTION, "DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping 10000 offsets"),
        (RECREATED, "DATA_LOSS.TOPIC_RECREATED: 10000 offsets"),
        (TRUNCATED, "DATA_LOSS.QUEUE_TRUNCATED: 10000 offsets that the query has read"),
        (REPLACED, "DATA_LOSS.QUEUE_TRUNCATED: 10000 offsets that the query has read"),
    ],
)
def test_the_line_is_all_that_is_left_of_them_and_names_all(
    cause: LossCause, begins: str, caplog: pytest.LogCaptureFixture
) -> None:
    report_losses([LostRange(queue, 0, 10, cause) for queue in queues(1_000)], is_failure=False)
    (line,) = caplog.messages
    assert line.startswith(begins)
    assert line.count(" of orders@") == 1_000


@pytest.mark.parametrize("is_failure", [True, False])
def test_where_nothing_is_lost_nothing_is_logged(is_failure: bool, caplog: pytest.LogCaptureFixture) -> None:
    report_losses([], is_failure=is_failure)
    assert caplog.messages == []


def test_losses_add_up() -> None:
    count = LossCount()
    count.add(LOST)
    count.add([])
    count.add([LostRange(B, 200, 205, RETENTION)])
    assert (count.offsets, count.ranges) == (217 + 5, 3), "what was read is not lost"


def test_very_many_ranges_of_a_queue_are_counted_in_bounded_time() -> None:
    """Any producer of a batch consume queue makes them: 8,000 took 2 s, and 80,000 three minutes."""
    losses = LossCount()
    begin_s = time.process_time()
    losses.add_reported([found(A, 10 * number, 10 * number + 7) for number in range(20_000)])
    losses.add([LostRange(A, 3, 10 * 19_999 + 1, RETENTION)])
    assert (losses.offsets, losses.ranges) == (7 * 20_000 + 3 * 19_999, 20_001)
    assert time.process_time() - begin_s < 3 * TIMEOUT_FACTOR


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_losses_in_any_order_add_up(order: tuple[int, int, int]) -> None:
    parts = [found(A, 0, 10), found(A, 10, 20), found(A, 15, 30)]
    losses = LossCount()
    losses.add_reported([found(A, 40, 50)])
    for number in order:
        losses.add_reported([parts[number]])
    assert losses.offsets == 40


@pytest.mark.parametrize(
    ("lost", "offsets", "ranges"),
    [
        ([(A, 0, 10), (A, 0, 10)], 10, 1),
        ([(A, 0, 10), (A, 5, 15)], 15, 2),
        ([(A, 5, 15), (A, 0, 10)], 15, 2),
        ([(A, 0, 10), (A, 3, 5), (A, 10, 12)], 12, 2),
        ([(A, 0, 10), (A, 20, 30), (A, 8, 22)], 30, 3),
        ([(A, 0, 10), (A, 20, 30), (A, 10, 20), (A, 0, 30)], 30, 3),
        ([(A, 0, 10), (B, 0, 10)], 20, 2),
    ],
)
@pytest.mark.parametrize("reports", [(), (0,), (1,), (0, 1, 2, 3)])
def test_an_offset_that_several_report_to_be_lost_is_lost_once(
    lost: list[tuple[MessageQueue, int, int]], offsets: int, ranges: int, reports: tuple[int, ...]
) -> None:
    """What the planner had found and a task found again was counted twice. ``tells``: which are told by tasks."""
    count = LossCount()
    for number, one in enumerate(lost):
        if number in reports:
            count.add_reported({found(*one)})
        else:
            count.add([LostRange(*one, RETENTION)])
    assert (count.offsets, count.ranges) == (offsets, ranges)


def test_offsets_of_a_recreated_topic_are_others() -> None:
    count = LossCount()
    count.add([LostRange(A, 0, 10, RETENTION), LostRange(B, 0, 10, RETENTION)])
    count.add([LostRange(A, 10, 12, RECREATED)])
    count.add([LostRange(A, 0, 10, RETENTION), LostRange(B, 0, 10, RETENTION)])
    assert (count.offsets, count.ranges) == (30, 3)


def test_what_tasks_report_again_and_again_is_not_another_loss_of_a_recreated_topic() -> None:
    reported, count = {found(A, 0, 10)}, LossCount()
    count.add_reported(reported)
    count.add_reported(reported)
    count.add([LostRange(A, 10, 12, RECREATED)])
    count.add_reported(reported)
    assert (count.offsets, count.ranges) == (10, 1)


def test_a_range_is_as_long_as_what_it_has_lost() -> None:
    assert len(LostRange(A, 5, 12, RETENTION)) == 7


def test_a_line_and_an_error_count_each_offset_once(caplog: pytest.LogCaptureFixture) -> None:
    overlapping = [LostRange(A, 0, 10, RETENTION), LostRange(A, 5, 12, RETENTION)]
    report_losses(overlapping, is_failure=False)
    assert caplog.messages[0].startswith("DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping 12 offsets ")
    with pytest.raises(DataLossError, match="12 offsets no longer available in the brokers"):
        report_losses(overlapping, is_failure=True)


def test_of_a_range_only_what_is_below_the_first_offset_that_is_left_is_deleted() -> None:
    bounds = {A: QueueBounds(50, 200, 0), B: QueueBounds(50, 200, 0)}
    ranges = [QueueRange(A, 0, 100), QueueRange(A, 10, 40), QueueRange(B, 50, 60), QueueRange(C, 0, 9)]
    assert deleted(ranges, bounds) == (LostRange(A, 0, 50, RETENTION), LostRange(A, 10, 40, RETENTION))


def test_what_is_reported_covers_what_lies_within() -> None:
    reported = LostRange(A, 10, 20, RETENTION)
    within = [(A, 10, 20), (A, 12, 13)], [(A, 9, 12), (A, 19, 21), (B, 10, 20)]
    assert [[LostRange(*one, RETENTION) in reported for one in group] for group in within] == [[True] * 2, [False] * 3]


def test_what_tasks_report_is_counted_once_beside_what_was_planned_around() -> None:
    count = LossCount()
    count.add([LostRange(A, 0, 5, RETENTION)])
    reported = {found(A, 5, 9), found(B, 0, 2)}
    count.add_reported(reported)
    count.add_reported(reported | {found(B, 7, 8)})
    assert (count.offsets, count.ranges) == (5 + 4 + 2 + 1, 4)


@pytest.mark.parametrize(
    ("cause", "condition"),
    [
        (RETENTION, "OFFSETS_UNAVAILABLE"),
        (RECREATED, "TOPIC_RECREATED"),
        (REPLACED, "QUEUE_TRUNCATED"),
        (TRUNCATED, "QUEUE_TRUNCATED"),
        (TAIL_LOST, "QUEUE_TRUNCATED"),
        (OMITTED, "OFFSETS_OMITTED"),
        (VACANT, "OFFSETS_OMITTED"),
        (BEYOND_END, "OFFSETS_BEYOND_END"),
        (BEYOND_UNVERIFIED_END, "OFFSETS_BEYOND_END"),
    ],
)
def test_each_loss_is_counted_by_its_condition_once(cause: LossCause, condition: str) -> None:
    """A plan that no broker confirms finds the same loss again."""
    count = LossCount()
    assert count.by_condition == NONE_BY_CONDITION
    for _ in range(2):
        count.add([LostRange(A, 4, 7, cause)])
    count.add([LostRange(B, 0, 1, cause)])
    assert count.by_condition == NONE_BY_CONDITION | {condition: (4, 2)}


def test_losses_that_tasks_report_are_counted_by_their_condition() -> None:
    count = LossCount()
    count.add([LostRange(A, 0, 5, RETENTION)])
    count.add_reported([found(A, 3, 9, "QUEUE_TRUNCATED"), found(B, 0, 1), found(C, 0, 2, "another connector's")])
    assert count.by_condition == NONE_BY_CONDITION | {
        "OFFSETS_UNAVAILABLE": (5 + 2, 2),
        "QUEUE_TRUNCATED": (4, 1),
        "OFFSETS_OMITTED": (1, 1),
    }
    assert (count.offsets, count.ranges) == (12, 4)


def test_what_is_remembered_of_counted_losses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that causes a loss with each message filled the driver's memory."""
    monkeypatch.setattr(data_loss, "MAX_REMEMBERED", 100)
    count, lost = LossCount(), [found(A, 2 * number, 2 * number + 1) for number in range(1_000)]
    for begin in range(0, len(lost), 50):
        count.add_reported(lost[begin : begin + 50])
        count.add_reported(lost[begin : begin + 50])
    count.add_reported(lost[:9])
    assert (count.offsets, count.ranges) == (len(lost), len(lost))
    assert len(vars(count)["_reported"]) == 100
    assert 50 <= len(vars(count)["_counted"][A]) <= 100
