"""Rows of the views, from what servers return."""

from __future__ import annotations

from rocketmq_spark.inspection.rows import (
    GroupRow,
    GroupState,
    MemberRow,
    QueueRow,
    TopicRow,
    conclusive_offsets,
    member_rows,
    permission_text,
    queue_rows,
    topic_rows,
)
from rocketmq_spark.model import BrokerData, MessageQueue, QueueBounds, QueueData, TopicRoute
from rocketmq_spark.wire.body.connections import GroupConnections, MemberConnection
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.body.topics import ConsumeProgress

Q0, Q1, Q2 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))
NOW_MS = 1_000_000


def rows_of(
    bounds: QueueBounds, committed: int | None, store_time_ms: int | None = None
) -> tuple[list[GroupRow], dict[MessageQueue, int]]:
    state = GroupState({Q0: bounds}, {Q0: committed})
    return list(state.rows("g", {Q0: store_time_ms}, NOW_MS)), state.oldest_unread()


def test_lag_is_from_the_committed_offset_to_the_end() -> None:
    assert rows_of(QueueBounds(2, 10), 7, 999_000) == (
        [GroupRow("g", "orders", "broker-a", 0, 7, 2, 10, 3, 999_000, 1_000)],
        {Q0: 7},
    )


def test_queue_without_a_committed_offset_lags_with_all_of_it() -> None:
    assert rows_of(QueueBounds(2, 10), None, 999_000) == (
        [GroupRow("g", "orders", "broker-a", 0, None, 2, 10, 8, 999_000, 1_000)],
        {Q0: 2},
    )


def test_deleted_messages_are_no_lag() -> None:
    (row,), oldest = rows_of(QueueBounds(5, 10), 1)
    assert (row.committed_offset, row.lag, oldest) == (1, 5, {Q0: 5})


def test_group_at_the_end_has_no_lag_and_no_age() -> None:
    for committed in (10, 12):
        (row,), oldest = rows_of(QueueBounds(2, 10), committed)
        assert (row.lag, row.lag_ms, row.oldest_store_ms, oldest) == (0, 0, None, {})


def test_age_is_unknown_without_the_message_and_never_negative() -> None:
    (unread,), _ = rows_of(QueueBounds(2, 10), 7)
    assert (unread.lag, unread.lag_ms) == (3, None)
    (ahead,), _ = rows_of(QueueBounds(2, 10), 7, NOW_MS + 5)
    assert (ahead.lag_ms, ahead.oldest_store_ms) == (0, NOW_MS + 5)


def test_rows_of_a_group_are_in_queue_order_without_queues_that_have_no_offset() -> None:
    bounds = dict.fromkeys((Q2, Q0, Q1), QueueBounds(0, 1))
    rows = GroupState(bounds, {Q2: 1, Q0: None}).rows("g", {}, NOW_MS)
    assert [row.queue for row in rows] == [Q0, Q2]


def test_offset_zero_is_not_conclusive() -> None:
    progress = {Q0: ConsumeProgress(9, 0, None, 0), Q1: ConsumeProgress(9, 4, None, 1)}
    assert conclusive_offsets(progress) == {Q1: 4}


def test_topic_has_a_row_for_each_broker() -> None:
    brokers = tuple(BrokerData("main", name, {0: f"{name}:10911"}) for name in ("b", "a"))
    route = TopicRoute("orders", brokers, (QueueData("b", 4, 8, 6), QueueData("a", 2, 2, 4), QueueData("c", 1, 1, 2)))
    assert list(topic_rows([route])) == [
        TopicRow("orders", "main", "a", 2, 2, "R"),
        TopicRow("orders", "main", "b", 4, 8, "RW"),
        TopicRow("orders", "", "c", 1, 1, "W"),
    ]


def test_permission_is_written_as_letters() -> None:
    assert [permission_text(permission) for permission in (0, 1, 2, 4, 6, 7)] == ["-", "-", "W", "R", "RW", "RW"]


def test_queues_have_their_bounds_in_order() -> None:
    assert list(queue_rows({Q1: QueueBounds(3, 9, 77), Q0: QueueBounds(4, 4)})) == [
        QueueRow("orders", "broker-a", 0, 4, 4, 0, None),
        QueueRow("orders", "broker-a", 1, 3, 9, 6, 77),
    ]


def test_member_of_two_brokers_is_one_row() -> None:
    mine, yours = (MemberConnection(name, f"{name}:1", "JAVA", 513) for name in ("me", "you"))
    a, b = ({"orders": build_subscription("orders", tag, 1)} for tag in "ab")
    at_a = GroupConnections((yours, mine), "CONSUME_PASSIVELY", "CLUSTERING", a)
    at_b = GroupConnections((mine._replace(address="me:2"), mine), "CONSUME_PASSIVELY", "CLUSTERING", b)
    assert list(member_rows("g", {"b": at_b, "a": at_a})) == [
        MemberRow("g", "me", "me:1", "JAVA", "V5_5_0", "a,b", "CONSUME_PASSIVELY", "CLUSTERING", {"orders": "a"}),
        MemberRow("g", "you", "you:1", "JAVA", "V5_5_0", "a", "CONSUME_PASSIVELY", "CLUSTERING", {"orders": "a"}),
    ]
    assert list(member_rows("g", {"a": GroupConnections()})) == []
