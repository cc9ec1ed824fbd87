from __future__ import annotations

from rocketmq_spark.cli.group_lag import uncommitted
from rocketmq_spark.model import MessageQueue, QueueBounds

Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))


def test_the_lag_is_what_lies_behind_the_committed_offsets() -> None:
    assert uncommitted({Q0: QueueBounds(0, 10), Q1: QueueBounds(5, 20)}, {Q0: 10, Q1: 12}) == 8


def test_offset_zero_is_a_real_offset() -> None:
    assert uncommitted({Q0: QueueBounds(0, 10)}, {Q0: 0}) == 10


def test_a_queue_without_an_offset_counts_with_all_that_it_holds() -> None:
    assert uncommitted({Q0: QueueBounds(4, 10)}, {Q0: None}) == 6


def test_a_commit_that_came_after_the_bounds_is_no_negative_lag() -> None:
    assert uncommitted({Q0: QueueBounds(0, 10), Q1: QueueBounds(0, 3)}, {Q0: 12, Q1: 0}) == 3
