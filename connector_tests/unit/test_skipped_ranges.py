from __future__ import annotations

import logging

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.skipped_ranges import (
    MOST_NAMED,
    as_skip_ranges,
    check_skipped,
    skippable_ranges,
    without_skipped,
)


def span(begin: int, end: int, queue_id: int = 0, broker: str = "a") -> QueueRange:
    return QueueRange(MessageQueue("T", broker, queue_id), begin, end)


LOGGED = [span(5, 9), span(0, 7, queue_id=1), span(2, 3, broker="b")]


def skipped(text: str) -> tuple[QueueRange, ...]:
    given = {"namesrvAddr": "n:9876", "consumerGroup": "G", "subscribe": "T", "skipRanges": text}
    return ReadOptions.parse(given).skip_ranges


def test_tasks_keep_their_numbers_without_what_is_skipped() -> None:
    """Message IDs contain the number of the task: where tasks were cut again, rows got the IDs of other stored rows."""
    tasks = [(span(0, 5), span(7, 9, queue_id=1)), (span(5, 9),), (span(2, 3, broker="b"),)]
    assert without_skipped(tasks, ()) == tasks
    assert without_skipped(tasks, (span(0, 9),)) == [(span(7, 9, queue_id=1),), (), (span(2, 3, broker="b"),)]


def test_what_is_skipped_is_logged_in_one_line_with_its_size(caplog: pytest.LogCaptureFixture) -> None:
    check_skipped(LOGGED, (span(5, 9), span(2, 3, broker="b")))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "OFFSETS_SKIPPED: Skipping 5 offsets as configured by 'skipRanges'; their messages are in no output: "
        "T@a:0[5,9),T@b:0[2,3)"
    )


@pytest.mark.parametrize("other", [span(5, 10), span(4, 9), span(6, 8), span(8, 12)])
def test_a_range_that_is_not_exactly_a_logged_one_is_refused_with_what_it_must_be(other: QueueRange) -> None:
    with pytest.raises(OptionError) as raised:
        check_skipped(LOGGED, (other,))
    assert raised.value.condition == "INVALID_OPTION_VALUE"
    assert raised.value.context == {
        "option": "skipRanges",
        "value": str(other),
        "expected": "exactly the range of this queue in the logged batch: T@a:0[5,9)",
    }


@pytest.mark.parametrize("other", [span(0, 5), span(9, 12), span(5, 9, broker="c"), span(5, 9, queue_id=2)])
def test_a_range_of_another_batch_changes_nothing(other: QueueRange, caplog: pytest.LogCaptureFixture) -> None:
    check_skipped(LOGGED, (other,))
    assert not caplog.records


def test_what_an_error_names_can_be_given_as_it_stands() -> None:
    ranges = (*LOGGED, QueueRange(MessageQueue("%RETRY%G", "room@b-1", 12), 0, 2**63 - 1))
    assert skipped(as_skip_ranges(ranges)) == ranges
    assert skipped(" " + as_skip_ranges(ranges).replace(",%", " , %") + " ") == ranges
    assert skipped("") == ()


@pytest.mark.parametrize(
    "text",
    ["T@a:0", "T@a:0[5,9]", "T@a:0(5,9)", "T@a:0[9,5)", "T@a:0[5,9) T@a:1[5,9)", "T@a:0[5,9),", "x", "T@a:0[-1,9)"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="skipRanges"):
        skipped(text)


def test_an_error_names_all_ranges_of_its_tasks_brokers() -> None:
    assert skippable_ranges(LOGGED, [span(5, 7)]) == (span(5, 9), span(0, 7, queue_id=1))


def test_where_they_are_many_an_error_names_its_own_queues_whole() -> None:
    logged = [span(5, 9, queue_id=number) for number in range(MOST_NAMED + 1)]
    assert skippable_ranges(logged[:-1], [span(6, 7)]) == tuple(logged[:-1])
    assert skippable_ranges(logged, [span(6, 7), span(6, 7, queue_id=3)]) == (span(5, 9), span(5, 9, queue_id=3))
