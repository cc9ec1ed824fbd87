from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from connector_tests.support.queues import queue, queues
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.data_loss import (
    BEYOND_END,
    BEYOND_UNVERIFIED_END,
    RECREATED,
    REPLACED,
    RETENTION,
    TRUNCATED,
    LossCause,
    LostRange,
)
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import (
    NOTHING_READ,
    Position,
    fair_shares,
    idle_progress,
    is_recorded,
    later_of,
    lost_ranges,
    plan_batch,
    position_of,
    positions_below,
    unplanned_offsets,
    unreached,
)

A, B, C = queues(3)
BOUNDS = QueueBounds(min_offset=10, max_offset=100, last_store_timestamp_ms=5_000)


def at(offset: int, stored_at_ms: int = 5_000) -> QueueProgress:
    return QueueProgress(offset, offset, stored_at_ms)


# ---------------------------------------------------------------------------------------------------- position_of


@pytest.mark.parametrize(
    ("checkpoint", "stored", "expected"),
    [
        pytest.param(at(40), 30, 40, id="the checkpoint is further"),
        pytest.param(at(30), 40, 40, id="the group is further"),
        pytest.param(at(40), None, 40, id="the group knows nothing"),
        pytest.param(None, 40, 40, id="the checkpoint knows nothing"),
        pytest.param(None, None, 10, id="nobody knows it: a new queue begins at its min offset"),
        pytest.param(at(10), 10, 10, id="at the min offset"),
        pytest.param(at(100), 100, 100, id="at the max offset"),
        pytest.param(QueueProgress(20, 40, 5_000), None, 40, id="the end of the checkpoint's range counts"),
    ],
)
def test_a_plan_starts_at_the_larger_of_checkpoint_and_broker(
    checkpoint: QueueProgress | None, stored: int | None, expected: int
) -> None:
    assert position_of(A, BOUNDS, checkpoint, stored) == Position(expected)


def test_offset_zero_of_the_group_is_a_real_offset() -> None:
    empty = QueueBounds(0, 100, 5_000)
    assert position_of(A, empty, None, 0) == Position(0)
    assert position_of(A, BOUNDS, None, 0) == Position(10, LostRange(A, 0, 10, RETENTION))


def test_what_retention_deleted_in_front_of_the_position_is_lost() -> None:
    assert position_of(A, BOUNDS, at(4), 3) == Position(10, LostRange(A, 4, 10, RETENTION))


def test_a_new_queue_has_lost_nothing_whatever_its_min_offset_is() -> None:
    assert position_of(A, BOUNDS, None, None).lost is None


@pytest.mark.parametrize("last_stored_at_ms", [5_000, 4_999, 0])
def test_a_queue_that_ends_earlier_and_has_nothing_newer_lost_its_end(last_stored_at_ms: int) -> None:
    bounds = QueueBounds(10, 60, last_stored_at_ms)
    assert position_of(A, bounds, at(100), None) == Position(60, LostRange(A, 60, 100, TRUNCATED))


@pytest.mark.parametrize("stored", [100, 60, None])
def test_a_queue_that_ends_earlier_and_has_something_newer_is_another_queue(stored: int | None) -> None:
    bounds = QueueBounds(10, 60, 5_000)
    assert position_of(A, bounds, at(100, 4_999), stored) == Position(10, LostRange(A, 60, 100, RECREATED))


@pytest.mark.parametrize("last_stored_at_ms", [4_999, 5_000, 5_001])
@pytest.mark.parametrize(("read_to", "stored"), [(40, 101), (100, 101), (10, 101), (40, 2**63 - 1)])
def test_group_offset_beyond_the_end_leaves_the_verified_checkpoint(
    read_to: int, stored: int, last_stored_at_ms: int
) -> None:
    """A client had committed 2^63-1: the query read again what its checkpoint had."""
    bounds = QueueBounds(10, 100, last_stored_at_ms)
    lost = LostRange(A, 100, stored, BEYOND_END)
    assert position_of(A, bounds, at(read_to), stored) == Position(read_to, lost)


@pytest.mark.parametrize(
    "checkpoint", [pytest.param(None, id="no checkpoint"), pytest.param(at(40, 0), id="nothing to verify it by")]
)
def test_group_offset_beyond_the_end_of_an_unverified_queue_reads_it_all(checkpoint: QueueProgress | None) -> None:
    lost = LostRange(A, 100, 101, BEYOND_UNVERIFIED_END)
    assert position_of(A, BOUNDS, checkpoint, 101) == Position(10, lost)


def test_group_offset_beyond_the_end_hides_no_deleted_offsets() -> None:
    assert position_of(A, BOUNDS, at(9), 101) == Position(10, LostRange(A, 9, 10, RETENTION))


@pytest.mark.parametrize(
    ("recreated_from", "position", "cause"),
    [
        pytest.param(10, 10, RECREATED, id="from its first message"),
        pytest.param(5, 10, RECREATED, id="from messages that retention has deleted"),
        pytest.param(25, 25, REPLACED, id="from there on"),
        pytest.param(90, 39, REPLACED, id="the last message that was read, at least"),
    ],
)
def test_another_queue_is_read_from_where_it_begins_to_be_another(
    recreated_from: int, position: int, cause: LossCause
) -> None:
    lost = LostRange(A, min(recreated_from, 39), 40, cause)
    assert position_of(A, BOUNDS, at(40), 60, recreated_from) == Position(position, lost)


@pytest.mark.parametrize(
    ("known_ms", "last_ms", "expected_ms"), [(5_000, 6_000, 6_000), (5_000, 0, 5_000), (5_000, -1, 5_000), (0, -1, 0)]
)
def test_the_last_store_time_is_never_forgotten(known_ms: int, last_ms: int, expected_ms: int) -> None:
    bounds, checkpoint = {A: QueueBounds(10, 60, last_ms)}, SourceOffset({A: at(20, known_ms)})
    planned = plan({A: Position(20)}, bounds, limit=None, checkpoint=checkpoint)
    assert planned[A].last_store_timestamp_ms == expected_ms


@pytest.mark.parametrize(
    ("bounds", "known_ms", "expected_ms"),
    [
        pytest.param(QueueBounds(60, 60, 0), None, 1, id="all was deleted before it was met"),
        pytest.param(QueueBounds(1, 1, 0), None, 1, id="the one message was deleted before it was met"),
        pytest.param(QueueBounds(60, 60, 0), 0, 1, id="or before anything was known"),
        pytest.param(QueueBounds(60, 60, 0), 5_000, 5_000, id="something is known"),
        pytest.param(QueueBounds(60, 60, 5_000), None, 5_000, id="the broker still knows"),
        pytest.param(QueueBounds(10, 60, 0), None, 0, id="there are messages of an unknown time"),
        pytest.param(QueueBounds(0, 0, 0), None, 0, id="there never was a message"),
    ],
)
def test_what_is_below_the_position_in_an_emptied_queue_is_never_its_own(
    bounds: QueueBounds, known_ms: int | None, expected_ms: int
) -> None:
    assert later_of(None if known_ms is None else at(60, known_ms), bounds) == expected_ms


@pytest.mark.parametrize(
    ("progress", "is_recorded_there"),
    [(None, False), (at(60, 5_000), True), (at(60, 1), True), (at(60, 0), False), (at(59, 5_000), False)],
)
def test_position_is_recorded_with_a_store_time_only(progress: QueueProgress | None, is_recorded_there: bool) -> None:
    assert is_recorded(progress, 60) is is_recorded_there


def test_idle_progress_keeps_recorded_store_times_and_leaves_out_queues_without_bounds() -> None:
    checkpoint = SourceOffset({A: at(60, 4_000), B: at(50, 6_000)})
    progress = idle_progress({A: 60, B: 70, C: 10}, checkpoint, {A: BOUNDS, B: BOUNDS})
    assert progress == {B: at(70, 6_000)}


def test_a_position_below_what_was_known_is_noticed() -> None:
    positions = {A: Position(50), B: Position(50), C: Position(50)}
    assert positions_below(positions, {A: 51, B: 50, C: None}) == {A: 50}


def test_losses_are_collected_from_all_positions() -> None:
    lost = LostRange(A, 0, 10, RETENTION)
    assert lost_ranges([Position(5), Position(10, lost), Position(7)]) == [lost]


# ---------------------------------------------------------------------------------------------------- plan_batch


def plan(
    positions: Mapping[MessageQueue, Position],
    bounds: Mapping[MessageQueue, QueueBounds],
    *,
    limit: int | None,
    targets: Mapping[MessageQueue, int] | None = None,
    last_planned: Sequence[MessageQueue] = (),
    checkpoint: SourceOffset = NOTHING_READ,
) -> dict[MessageQueue, QueueProgress]:
    unplanned = unplanned_offsets(positions, bounds, targets)
    return plan_batch(positions, bounds, unplanned, limit=limit, last_planned=last_planned, checkpoint=checkpoint)


def test_a_plan_reads_from_the_position_to_the_max_offset() -> None:
    assert plan({A: Position(40)}, {A: BOUNDS}, limit=None) == {A: QueueProgress(40, 100, 5_000)}


def test_a_queue_without_anything_new_is_not_planned() -> None:
    assert plan({A: Position(100), B: Position(99)}, {A: BOUNDS, B: BOUNDS}, limit=None).keys() == {B}


def test_the_limit_is_shared() -> None:
    planned = plan({A: Position(10), B: Position(70)}, {A: BOUNDS, B: BOUNDS}, limit=40)
    assert planned == {A: QueueProgress(10, 40, 5_000), B: QueueProgress(70, 80, 5_000)}


def test_topics_alternate_where_the_limit_does_not_do_for_all() -> None:
    bounds = {A: BOUNDS, B: BOUNDS}
    positions = {A: Position(10), B: Position(90)}
    assert plan(positions, bounds, limit=1).keys() == {A}
    assert plan(positions, bounds, limit=1, last_planned=[A]).keys() == {B}


def test_targets_end_a_plan() -> None:
    bounds = {A: BOUNDS, B: BOUNDS, C: BOUNDS}
    positions = {A: Position(40), B: Position(60), C: Position(40)}
    planned = plan(positions, bounds, limit=None, targets={A: 60, B: 60, C: 900})
    assert planned == {A: QueueProgress(40, 60, 5_000), C: QueueProgress(40, 100, 5_000)}


def test_a_queue_without_a_target_is_not_read() -> None:
    bounds = {A: BOUNDS, B: QueueBounds(0, 100)}
    assert plan({A: Position(40), B: Position(0)}, bounds, limit=None, targets={}) == {}


# ---------------------------------------------------------------------------------------------------- unreached


@pytest.mark.parametrize(
    ("checkpoint", "stored", "missing"),
    [
        (SourceOffset({A: at(60)}), {}, {}),
        (SourceOffset(), {A: 60}, {}),
        (SourceOffset({A: at(50)}), {A: 61}, {}),
        (SourceOffset({A: at(50)}), {A: None}, {A: 10}),
        (SourceOffset({A: at(50)}), {A: 40}, {A: 10}),
        (SourceOffset(), {A: 0}, {A: 60}),
        (SourceOffset(), {}, {A: 60}),
    ],
)
def test_a_target_is_reached_by_this_query_or_by_the_group(
    checkpoint: SourceOffset, stored: dict[MessageQueue, int | None], missing: dict[MessageQueue, int]
) -> None:
    assert unreached({A: 60}, checkpoint, stored) == missing


def test_an_empty_queue_is_reached_at_once() -> None:
    assert unreached({A: 0}, SourceOffset(), {}) == {}


@pytest.mark.parametrize("last_ms", [0, -1])
def test_without_any_store_time_none_is_remembered(last_ms: int) -> None:
    planned = plan({A: Position(20)}, {A: QueueBounds(10, 60, last_ms)}, limit=None)
    assert planned[A].last_store_timestamp_ms == 0


def test_without_a_limit_everything_is_admitted() -> None:
    assert fair_shares({A: 5, B: 7}, None) == {A: 5, B: 7}


def test_a_limit_that_is_just_reached_by_one_each_changes_nothing() -> None:
    assert fair_shares({A: 1, B: 1}, 2) == {A: 1, B: 1}


@pytest.mark.parametrize("limit", [12, 13, 2**63 - 1])
def test_a_limit_that_is_not_reached_changes_nothing(limit: int) -> None:
    assert fair_shares({A: 5, B: 7}, limit) == {A: 5, B: 7}


def test_nothing_waiting_is_nothing_admitted() -> None:
    assert fair_shares({}, 10) == {}


def test_shares_are_in_proportion_to_what_waits() -> None:
    assert fair_shares({A: 1_000, B: 3_000}, 40) == {A: 10, B: 30}


def test_each_gets_one_and_what_is_left_goes_by_what_waits_beyond_it() -> None:
    assert fair_shares({A: 4, B: 2, C: 1}, 5) == {A: 3, B: 1, C: 1}


def test_a_queue_with_little_is_not_starved_by_one_with_much() -> None:
    assert fair_shares({A: 1, B: 10**15}, 10) == {A: 1, B: 9}


def test_what_rounding_leaves_is_assigned_as_well() -> None:
    assert sorted(fair_shares({A: 10, B: 10, C: 10}, 10).values()) == [3, 3, 4]


def test_below_one_each_the_fullest_come_first() -> None:
    assert fair_shares({A: 5, B: 7, C: 6}, 2) == {B: 1, C: 1}


def test_below_one_each_those_not_served_come_before_the_fuller() -> None:
    assert fair_shares({A: 1, B: 900, C: 800}, 1, last_planned=[B, C]) == {A: 1}


def test_below_one_each_the_longest_not_served_comes_first() -> None:
    assert fair_shares({A: 1, B: 900, C: 800}, 2, last_planned=[C, A, B]) == {C: 1, A: 1}


def test_the_order_does_not_matter_while_there_is_one_for_each() -> None:
    waiting = {A: 100, B: 300}
    assert fair_shares(waiting, 40, last_planned=[A, B]) == fair_shares(waiting, 40, last_planned=[B, A])


def test_numbers_beyond_a_float_are_exact() -> None:
    shares = fair_shares({A: 2**62 + 1, B: 2**62 - 1}, 2**62)
    assert sum(shares.values()) == 2**62


def test_equal_queues_are_distinguished_by_their_order() -> None:
    assert fair_shares({queue(2): 5, queue(0): 5, queue(1): 5}, 2) == {A: 1, B: 1}
