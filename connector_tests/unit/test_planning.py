from __future__ import annotations

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import (
    RECREATED,
    RETENTION,
    TRUNCATED,
    LostRange,
    Position,
    lost_ranges,
    moved_back,
    plan_batch,
    position_of,
    resumed,
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


@pytest.mark.parametrize("checkpoint", [at(100, 4_999), None])
def test_a_queue_that_ends_earlier_and_has_something_newer_is_another_queue(checkpoint: QueueProgress | None) -> None:
    bounds = QueueBounds(10, 60, 5_000)
    assert position_of(A, bounds, checkpoint, 100) == Position(10, LostRange(A, 60, 100, RECREATED))


@pytest.mark.parametrize("first_later", [10, 39])
def test_what_the_checkpoint_has_passed_and_was_stored_later_is_of_another_queue(first_later: int) -> None:
    lost = LostRange(A, first_later, 40, RECREATED)
    assert position_of(A, BOUNDS, at(40), 60, first_later) == Position(10, lost)


@pytest.mark.parametrize(
    ("max_offset", "first_later"),
    [
        pytest.param(100, 40, id="the first message after the checkpoint"),
        pytest.param(100, 100, id="nothing was stored later"),
        pytest.param(40, 40, id="nothing was stored later, and all is read"),
    ],
)
def test_what_was_stored_later_behind_the_checkpoint_is_of_the_same_queue(max_offset: int, first_later: int) -> None:
    assert position_of(A, QueueBounds(10, max_offset, 5_000), at(40), None, first_later) == Position(40)


def test_the_end_of_a_queue_that_lost_messages_is_nothing_that_was_stored_later() -> None:
    """A broker that is asked for what it does not have answers its max offset."""
    position = position_of(A, QueueBounds(10, 30, 4_000), at(40), None, first_later=30)
    assert position == Position(30, LostRange(A, 30, 40, TRUNCATED))


def test_a_queue_is_verified_by_the_time_up_to_which_it_was_read_when_it_is_resumed() -> None:
    checkpoint = SourceOffset({A: at(40, 7_000), B: at(40, 8_000)})
    assert resumed([A, B, C], checkpoint, verified=set()) == {A: 7_000, B: 8_000}
    assert resumed([A, B, C], checkpoint, verified={A}) == {B: 8_000}


@pytest.mark.parametrize("progress", [at(0, 7_000), at(40, 0)])
def test_a_queue_of_which_nothing_was_read_has_nothing_to_verify(progress: QueueProgress) -> None:
    assert resumed([A], SourceOffset({A: progress}), verified=set()) == {}


def test_a_position_below_what_was_known_is_noticed() -> None:
    positions = {A: Position(50), B: Position(50), C: Position(50)}
    assert moved_back(positions, {A: 51, B: 50, C: None}) == {A: 50}


def test_losses_are_gathered_from_all_positions() -> None:
    lost = LostRange(A, 0, 10, RETENTION)
    assert lost_ranges([Position(5), Position(10, lost), Position(7)]) == [lost]


# ---------------------------------------------------------------------------------------------------- plan_batch


def test_a_plan_reads_from_the_position_to_the_max_offset() -> None:
    assert plan_batch({A: Position(40)}, {A: BOUNDS}, limit=None) == {A: QueueProgress(40, 100, 5_000)}


def test_a_queue_without_anything_new_is_not_planned() -> None:
    assert plan_batch({A: Position(100), B: Position(99)}, {A: BOUNDS, B: BOUNDS}, limit=None).keys() == {B}


def test_the_limit_is_shared() -> None:
    planned = plan_batch({A: Position(10), B: Position(70)}, {A: BOUNDS, B: BOUNDS}, limit=40)
    assert planned == {A: QueueProgress(10, 40, 5_000), B: QueueProgress(70, 80, 5_000)}


def test_turns_are_taken_where_the_limit_does_not_do_for_all() -> None:
    bounds = {A: BOUNDS, B: BOUNDS}
    positions = {A: Position(10), B: Position(90)}
    assert plan_batch(positions, bounds, limit=1).keys() == {A}
    assert plan_batch(positions, bounds, limit=1, served=[A]).keys() == {B}


def test_targets_end_a_plan() -> None:
    bounds = {A: BOUNDS, B: BOUNDS, C: BOUNDS}
    positions = {A: Position(40), B: Position(60), C: Position(40)}
    planned = plan_batch(positions, bounds, limit=None, targets={A: 60, B: 60, C: 900})
    assert planned == {A: QueueProgress(40, 60, 5_000), C: QueueProgress(40, 100, 5_000)}


def test_a_queue_without_a_target_is_not_read() -> None:
    bounds = {A: BOUNDS, B: QueueBounds(0, 100)}
    assert plan_batch({A: Position(40), B: Position(0)}, bounds, limit=None, targets={}) == {}


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
