from __future__ import annotations

import pytest

from connector_tests.support.queues import queue, queues
from rocketmq_spark.condition import MAX_LISTED
from rocketmq_spark.consumer.consume_from_where import ConsumeFromWhere, StartingPoint
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.queue_positions import GROUP, GROUP_OR_EARLIEST, GROUP_OR_LATEST, LATEST, QueuePositions
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.start_positions import (
    StartPlan,
    first_positions,
    format_lost_offsets,
    format_resumption,
    plan_start,
    queues_without_group_offset,
    unread_queues,
)

A, B, C = queues(3)
OTHER_TOPIC = queue(0, topic="payments")
BOUNDS = {A: QueueBounds(10, 100), B: QueueBounds(0, 0)}


# ---------------------------------------------------------------------------------------------------- unread_queues


def test_a_topic_of_which_no_queue_has_an_offset_is_unread() -> None:
    assert unread_queues(SourceOffset(), {A: None, B: None}) == [A, B]


def test_a_topic_that_the_group_has_is_started_even_at_offset_zero() -> None:
    assert unread_queues(SourceOffset(), {A: None, B: 0}) == []


def test_a_topic_that_the_checkpoint_has_is_started() -> None:
    assert unread_queues(SourceOffset({B: QueueProgress(0, 0)}), {A: None, B: None}) == []


def test_a_topic_starts_whatever_the_group_has_of_another() -> None:
    assert unread_queues(SourceOffset(), {A: 50, OTHER_TOPIC: None}) == [OTHER_TOPIC]


# ---------------------------------------------------------------------------------------------------- first_positions


def test_the_first_offset_is_what_the_broker_still_holds() -> None:
    assert first_positions(StartingPoint(ConsumeFromWhere.FIRST_OFFSET), BOUNDS, {}) == {A: 10, B: 0}


def test_the_last_offset_is_the_end() -> None:
    assert first_positions(StartingPoint(ConsumeFromWhere.LAST_OFFSET), BOUNDS, {}) == {A: 100, B: 0}


@pytest.mark.parametrize("where", [ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.TIMESTAMP])
def test_a_retry_topic_starts_with_what_was_sent_back_first(where: ConsumeFromWhere) -> None:
    retry = queue(0, topic="%RETRY%g")
    start = StartingPoint(where, 7_000 if where is ConsumeFromWhere.TIMESTAMP else None)
    assert first_positions(start, {retry: QueueBounds(10, 100)}, {retry: 50}) == {retry: 10}


@pytest.mark.parametrize(
    ("found", "first"),
    [(50, 50), (100, 100), pytest.param(120, 120, id="stored since the survey"), pytest.param(3, 10, id="deleted")],
)
def test_a_time_begins_with_the_first_message_since_then_that_is_still_held(found: int, first: int) -> None:
    start = StartingPoint(ConsumeFromWhere.TIMESTAMP, 7_000)
    assert first_positions(start, {A: BOUNDS[A]}, {A: found}) == {A: first}


def test_listed_queues_begin_where_the_list_defines_and_the_others_at_their_first_message() -> None:
    held = QueueBounds(10, 100)
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, 23), (B, -1)))
    assert first_positions(start, {A: held, B: held, C: held}, {}) == {A: 23, B: 100, C: 10}
    again = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, -2), (B, 10), (C, 100)))
    assert first_positions(again, {A: held, B: held, C: held}, {}) == {A: 10, B: 10, C: 100}


def test_topics_begin_where_the_list_defines_and_the_groups_words_at_their_fallbacks() -> None:
    held = QueueBounds(10, 100)
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, GROUP_OR_LATEST),), topics=(("orders", 50),))
    assert first_positions(start, {A: held, B: held, OTHER_TOPIC: held}, {}) == {A: 100, B: 50, OTHER_TOPIC: 10}
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, topics=(("orders", GROUP_OR_EARLIEST), ("payments", LATEST)))
    assert first_positions(start, {A: held, OTHER_TOPIC: held}, {}) == {A: 10, OTHER_TOPIC: 100}


def test_queues_whose_group_offset_is_required_and_missing_are_found() -> None:
    retry = queue(0, topic="%RETRY%g")
    unread = [A, B, OTHER_TOPIC, retry]
    required = StartingPoint(ConsumeFromWhere.LAST_OFFSET, requires_group=True)
    assert queues_without_group_offset(required, unread) == [A, B, OTHER_TOPIC]
    assert first_positions(required, {retry: QueueBounds(10, 100)}, {}) == {retry: 10}
    listed = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, GROUP), (B, 5)), topics=(("payments", GROUP),))
    assert queues_without_group_offset(listed, unread) == [A, OTHER_TOPIC]
    assert queues_without_group_offset(StartingPoint(ConsumeFromWhere.LAST_OFFSET), unread) == []


@pytest.mark.parametrize("offset", [9, 101])
def test_an_offset_that_a_queue_does_not_have_is_an_error_that_reports_what_it_has(offset: int) -> None:
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, offset),))
    with pytest.raises(OptionError) as raised:
        first_positions(start, BOUNDS, {})
    assert raised.value.condition == "OFFSETS_OUT_OF_RANGE"
    assert raised.value.context == {
        "option": "startingOffsets",
        "count": 1,
        "offsets": f"orders@broker-a:0: {offset} [10, 100]",
    }


def test_all_offsets_that_queues_do_not_have_are_named() -> None:
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, 9), (B, 7)))
    with pytest.raises(OptionError) as raised:
        first_positions(start, BOUNDS, {})
    assert raised.value.context["offsets"] == "orders@broker-a:0: 9 [10, 100], orders@broker-a:1: 7 [0, 0]"
    with pytest.raises(OptionError) as raised:
        first_positions(start, BOUNDS, {}, fail_on_data_loss=False)
    assert raised.value.context["offsets"] == "orders@broker-a:1: 7 [0, 0]"


def test_deleted_offset_begins_at_the_first_message_where_the_user_allows_it(caplog: pytest.LogCaptureFixture) -> None:
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((A, 4),))
    assert first_positions(start, BOUNDS, {}, fail_on_data_loss=False) == {A: 10, B: 0}
    assert "[4, 10) of orders@broker-a:0" in caplog.text


def test_queues_without_a_message_since_their_time_are_all_named_or_start_at_their_end() -> None:
    start = StartingPoint(ConsumeFromWhere.TIMESTAMP, 7_000)
    retry = queue(0, topic="%RETRY%g")
    bounds = {**BOUNDS, C: QueueBounds(0, 5), retry: QueueBounds(0, 0)}
    found = {A: 100, B: 0, C: 4, retry: 0}
    assert first_positions(start, bounds, found) == {A: 100, B: 0, C: 4, retry: 0}
    with pytest.raises(OptionError) as raised:
        first_positions(start, bounds, found, requires_match=True)
    assert str(raised.value) == (
        "[ROCKETMQ_TIMESTAMP_NOT_MATCHED] 2 queues without a message at or after the time of 'startingTimestamp': "
        "orders@broker-a:0: 7000, orders@broker-a:1: 7000. Use an earlier time, or set "
        "'startingOffsetsByTimestampStrategy' to latest: these queues then start at their end."
    )
    assert first_positions(start, {C: bounds[C]}, {C: 4}, requires_match=True) == {C: 4}


def test_queues_that_times_omit_begin_at_their_first_message() -> None:
    start = StartingPoint(ConsumeFromWhere.TIMESTAMP, times=QueuePositions(queues=((B, 7_000),)))
    assert first_positions(start, BOUNDS, {B: 0}) == {A: 10, B: 0}
    with pytest.raises(OptionError) as raised:
        first_positions(start, BOUNDS, {B: 0}, requires_match=True)
    assert raised.value.context["option"] == "startingOffsetsByTimestamp"
    assert raised.value.context["queues"] == "orders@broker-a:1: 7000"


def test_a_listed_queue_that_the_topic_does_not_have_is_an_error() -> None:
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((C, -2),))
    with pytest.raises(OptionError) as raised:
        first_positions(start, BOUNDS, {})
    assert raised.value.condition == "LISTED_QUEUES_UNKNOWN"
    assert raised.value.context == {"option": "startingOffsets", "count": 1, "queues": "orders@broker-a:2"}


def test_all_listed_queues_that_the_topic_does_not_have_are_named() -> None:
    unknown = queue(7)
    start = StartingPoint(ConsumeFromWhere.TIMESTAMP, times=QueuePositions(queues=((C, 5), (A, 5), (unknown, 5))))
    with pytest.raises(OptionError) as raised:
        first_positions(start, BOUNDS, {A: 10})
    assert str(raised.value) == (
        "[ROCKETMQ_LISTED_QUEUES_UNKNOWN] 2 queues of 'startingOffsetsByTimestamp' not among the queues to read: "
        f"{C}, {unknown}. Correct the list."
    )


def test_a_listed_queue_of_a_topic_that_has_started_is_nobodys_business() -> None:
    start = StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((OTHER_TOPIC, 9_999),))
    assert first_positions(start, BOUNDS, {}) == {A: 10, B: 0}


def test_where_the_group_resumes_is_reported_with_what_is_left_of_what_there_is() -> None:
    reported = format_resumption("the group", {A: 12, B: 15}, {A: QueueBounds(10, 12), B: QueueBounds(10, 20)})
    assert reported.endswith(
        ". To read: 5 of 12 offsets: queue=orders@broker-a:0 offset=12 bounds=[10, 12), "
        "queue=orders@broker-a:1 offset=15 bounds=[10, 20)"
    )


@pytest.mark.parametrize(
    ("count", "end"), [(MAX_LISTED, "7 offset=0 bounds=[0, 1)"), (MAX_LISTED + 1, "and 1 more queues")]
)
def test_of_many_queues_some_are_reported(count: int, end: str) -> None:
    many = dict.fromkeys(queues(count), 0)
    assert format_resumption("the group", many, dict.fromkeys(many, QueueBounds(0, 1))).endswith(end)


@pytest.mark.parametrize("read_to", [0, 1])
def test_a_group_that_is_forgotten_is_reported_with_queues_of_which_something_was_read(read_to: int) -> None:
    reported = format_lost_offsets({A: None}, SourceOffset({A: QueueProgress(0, read_to)}))
    assert (reported is not None) == (read_to > 0)


# --------------------------------------------------------------------------------------------------------- plan_start

EARLIEST = StartingPoint(ConsumeFromWhere.FIRST_OFFSET)
RETRY = queue(0, topic="%RETRY%g")
HELD = dict.fromkeys([A, B, C, OTHER_TOPIC, RETRY], QueueBounds(10, 100))


def plan(
    stored: dict[MessageQueue, int | None],
    checkpoint: SourceOffset | None = None,
    *,
    point: StartingPoint = EARLIEST,
    resets_group: bool = False,
    has_unavailable: bool = False,
    **given: str,
) -> StartPlan:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders,payments"}
    options = ReadOptions.parse(required | given)
    start = SourceOffset() if checkpoint is None else checkpoint
    return plan_start(options, start, HELD, stored, point, resets_group=resets_group, has_unavailable=has_unavailable)


def test_plan_of_unread_topic_commits_start_positions_without_log() -> None:
    point = StartingPoint(ConsumeFromWhere.TIMESTAMP, 7_000)
    subject = plan({A: None, B: None}, point=point)
    assert subject == StartPlan({A: None, B: None}, point, (A, B), (), {}, False, None, None)
    assert (subject.to_start, subject.timestamps_ms) == ((A, B), {A: 7_000, B: 7_000})


def test_plan_of_topic_that_group_read_logs_resumption_only() -> None:
    subject = plan({A: 40, B: None, OTHER_TOPIC: None})
    assert (subject.unread, subject.to_move, subject.to_restore) == ((OTHER_TOPIC,), (), {})
    assert subject.resumption is not None
    assert "those of the group, " in subject.resumption
    assert subject.resumption.endswith(f". To read: 60 of 90 offsets: queue={A} offset=40 bounds=[10, 100)")


def test_plan_of_broadcasting_query_names_its_file() -> None:
    subject = plan({A: 40}, messageModel="BROADCASTING", instanceName="one")
    assert subject.resumption is not None
    assert "those of this query's file, " in subject.resumption


def test_plan_without_queues_changes_nothing() -> None:
    assert plan({}, resets_group=True) == StartPlan({}, EARLIEST, (), (), {}, False, None, None)
    checkpoint = SourceOffset({A: QueueProgress(0, 20)})
    assert plan({}, checkpoint, resets_group=True) == StartPlan({}, EARLIEST, (), (), {}, False, None, None)


def test_plan_moves_group_of_new_checkpoint_except_retry_topic() -> None:
    subject = plan({A: 40, B: None, OTHER_TOPIC: None, RETRY: 50}, resets_group=True, retryTopic="true")
    assert (subject.unread, subject.to_move, subject.to_restore) == ((OTHER_TOPIC,), (A, B), {})
    assert subject.to_start == (OTHER_TOPIC, A, B)
    assert subject.resumption is not None
    assert subject.resumption.endswith(f": queue={RETRY} offset=50 bounds=[10, 100)")
    assert plan({A: 40}, resets_group=True).resumption is None


def test_plan_restores_group_that_is_ahead_of_checkpoint() -> None:
    checkpoint = SourceOffset({A: QueueProgress(0, 20), B: QueueProgress(0, 60)})
    subject = plan({A: 40, B: 50, C: 30}, checkpoint, resets_group=True)
    assert (subject.unread, subject.to_move, subject.to_restore) == ((), (), {A: 20, C: 10})
    assert not subject.is_reset_void
    assert plan({A: 40, B: 50, C: 30}, checkpoint).to_restore == {}


@pytest.mark.parametrize(
    ("resets_group", "has_unavailable", "at", "is_void"),
    [(True, False, 20, True), (False, False, 20, False), (True, True, 20, False), (True, False, 21, False)],
)
def test_reset_without_effect_is_logged_if_all_queues_are_available(
    resets_group: bool, has_unavailable: bool, at: int, is_void: bool
) -> None:
    checkpoint = SourceOffset({A: QueueProgress(0, 20)})
    subject = plan({A: at}, checkpoint, resets_group=resets_group, has_unavailable=has_unavailable)
    assert subject.is_reset_void is is_void


def test_plan_of_new_checkpoint_logs_no_void_reset() -> None:
    assert not plan({A: None}, resets_group=True).is_reset_void


def test_plan_logs_lost_offsets_unless_query_stores_its_own() -> None:
    checkpoint = SourceOffset({A: QueueProgress(0, 20)})
    assert plan({A: None}, checkpoint).lost_offsets == format_lost_offsets({A: None}, checkpoint)
    assert plan({A: None}, checkpoint).lost_offsets is not None
    assert plan({A: None}, checkpoint, messageModel="BROADCASTING", instanceName="one").lost_offsets is None


def test_plan_without_required_group_offsets_is_an_error() -> None:
    point = StartingPoint(ConsumeFromWhere.LAST_OFFSET, requires_group=True)
    with pytest.raises(OptionError) as raised:
        plan({A: None, B: None}, point=point)
    assert raised.value.condition == "COMMITTED_OFFSETS_NOT_FOUND"
    assert raised.value.context == {"group": "g", "count": 2, "option": "startingOffsets", "queues": f"{A}, {B}"}
    assert plan({A: 40, B: None}, point=point).unread == ()
