from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.source.data_loss import RECREATED, RETENTION, LostRange
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position
from rocketmq_spark.source.stream.position_resolution import (
    PositionResolution,
    QueueFacts,
    reset_positions,
    resolve_positions,
)

A, B, C = queues(3)
READ_TO_40 = SourceOffset({A: QueueProgress(20, 40, 5_000)})
BOUNDS = QueueBounds(min_offset=10, max_offset=100, last_store_timestamp_ms=6_000)


def facts(
    stored: Mapping[MessageQueue, int | None],
    *,
    bounds: QueueBounds = BOUNDS,
    recreated_from: Mapping[MessageQueue, int | None] | None = None,
    doubtful: Set[MessageQueue] = frozenset(),
    emptied: tuple[MessageQueue, ...] = (),
) -> QueueFacts:
    others = dict.fromkeys(stored) | dict(recreated_from or {})
    return QueueFacts(dict.fromkeys(stored, bounds), stored, others, doubtful, emptied)


def only_raised_to(position: int) -> PositionResolution:
    """A goes on there, and there is nothing else to do."""
    passed_over = (QueueRange(A, 40, position),) if position > 40 else ()
    return PositionResolution({A: Position(position)}, (), passed_over, (), frozenset(), {}, {A: position})


@pytest.mark.parametrize(("stored", "position"), [(30, 40), (40, 40), (60, 60)])
def test_the_broker_is_raised_to_the_larger_of_checkpoint_and_group(stored: int, position: int) -> None:
    assert resolve_positions(READ_TO_40, facts({A: stored}), has_own_offsets=False) == only_raised_to(position)


def test_what_the_group_has_read_beyond_the_checkpoint_is_passed_over() -> None:
    """Not what is lost, nor a queue that the checkpoint does not know, nor one that was emptied."""
    start = SourceOffset({A: QueueProgress(0, 40), C: QueueProgress(0, 5)})
    resolved = resolve_positions(start, facts({A: 60, B: 60, C: 8}), has_own_offsets=False)
    assert resolved.passed_over == (QueueRange(A, 40, 60),)
    deleted = resolve_positions(start, facts({A: 60}, bounds=QueueBounds(60, 100, 6_000)), has_own_offsets=False)
    assert deleted.passed_over == (QueueRange(A, 40, 60),), "deleted since: a restored checkpoint lacks it all the same"
    emptied = resolve_positions(start, facts({A: 60}, emptied=(A,)), has_own_offsets=False)
    assert emptied.passed_over == resolve_positions(start, facts({A: 60}), has_own_offsets=True).passed_over == ()


def test_all_queues_are_resolved_at_once() -> None:
    resolved = resolve_positions(READ_TO_40, facts({A: 30, B: None, C: 50}), has_own_offsets=False)
    assert resolved.positions == {A: Position(40), B: Position(10), C: Position(50)}
    assert resolved.raise_to == {A: 40, B: 10, C: 50}


def test_what_was_confirmed_is_forgotten_where_the_group_has_no_offset() -> None:
    resolved = resolve_positions(READ_TO_40, facts({A: None}), has_own_offsets=False)
    assert resolved == replace(only_raised_to(40), discard=frozenset({A}))


def test_what_was_confirmed_is_forgotten_where_the_offset_had_vanished_though_another_is_there_by_now() -> None:
    """Vanished are more queues than those that are settled here."""
    found = facts({A: 60}, doubtful={A, B})
    resolved = resolve_positions(READ_TO_40, found, has_own_offsets=False)
    assert resolved == replace(only_raised_to(60), discard=frozenset({A}))


def test_a_loss_is_to_be_reported() -> None:
    lost = LostRange(A, 40, 50, RETENTION)
    resolved = resolve_positions(READ_TO_40, facts({A: 30}, bounds=QueueBounds(50, 100, 6_000)), has_own_offsets=False)
    assert resolved == replace(only_raised_to(50), positions={A: Position(50, lost)}, passed_over=(), lost=(lost,))


def test_the_group_s_offset_is_lowered_to_where_another_queue_begins() -> None:
    lost = LostRange(A, 10, 40, RECREATED)
    resolved = resolve_positions(READ_TO_40, facts({A: 30}, recreated_from={A: 10}), has_own_offsets=False)
    expected = replace(only_raised_to(10), positions={A: Position(10, lost)}, lost=(lost,), lower_to={A: 10})
    assert resolved == replace(expected, discard=frozenset({A}))


def test_what_was_confirmed_is_forgotten_where_a_queue_resumes_before_what_was_read_of_it() -> None:
    """Though the group's offset need not be lowered: another member has done so."""
    resolved = resolve_positions(READ_TO_40, facts({A: 10, B: 10}, recreated_from={A: 10}), has_own_offsets=False)
    assert resolved.lower_to == {}
    assert resolved.discard == frozenset({A})


def test_an_emptied_queue_begins_again_and_nothing_is_lost() -> None:
    empty = QueueBounds(0, 3, 6_000)
    resolved = resolve_positions(READ_TO_40, facts({A: 40}, bounds=empty, emptied=(A, B)), has_own_offsets=False)
    assert resolved == replace(only_raised_to(0), emptied=(A,), discard=frozenset({A}), lower_to={A: 0})


def test_an_emptied_queue_without_an_offset_of_the_group_is_no_emptied_one() -> None:
    """The offset goes with a topic that is deleted."""
    empty = QueueBounds(0, 3, 6_000)
    resolved = resolve_positions(READ_TO_40, facts({A: None}, bounds=empty, emptied=(A,)), has_own_offsets=False)
    assert resolved.emptied == ()
    assert resolved.lost == (LostRange(A, 3, 40, RECREATED),)


def test_in_broadcasting_a_file_decides_nothing_of_a_queue_that_the_checkpoint_has() -> None:
    found = facts({A: 60, B: 60})
    resolved = resolve_positions(READ_TO_40, found, has_own_offsets=True)
    assert resolved.positions == {A: Position(40), B: Position(60)}


def test_in_broadcasting_a_larger_number_in_the_file_is_lowered() -> None:
    resolved = resolve_positions(READ_TO_40, facts({A: 60}), has_own_offsets=True)
    assert resolved == replace(only_raised_to(40), lower_to={A: 40})


@pytest.mark.parametrize(("expected", "position"), [(5, 10), (10, 10), (55, 55), (100, 100), (101, 100)])
def test_an_operator_s_position_is_kept_within_the_queue(expected: int, position: int) -> None:
    snapshot = MetadataSnapshot(frozenset({A}), {A: BOUNDS}, is_complete=True)
    assert reset_positions({A: expected}, snapshot) == {A: position}


def test_a_reset_waits_for_a_refresh_that_has_its_queue_as_ours() -> None:
    snapshot = MetadataSnapshot(frozenset({A, C}), {B: BOUNDS, C: BOUNDS}, is_complete=True)
    assert reset_positions({A: 20, B: 20, C: 20}, snapshot) == {C: 20}
