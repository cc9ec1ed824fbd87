from __future__ import annotations

import pytest

from rocketmq_spark.consumer.process_queue import ProcessQueue, SlidingWindow
from rocketmq_spark.model import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 2)


def window(*ranges: tuple[int, int]) -> ProcessQueue:
    process_queue = ProcessQueue(QUEUE, generation=7)
    for begin, end in ranges:
        process_queue.put(begin, end)
    return process_queue


def test_ten_messages_finishing_0_gives_1_and_finishing_5_then_still_1() -> None:
    assigned_one_by_one = window(*((offset, offset + 1) for offset in range(10)))
    assigned_as_one = window((0, 10))
    for process_queue in (assigned_one_by_one, assigned_as_one):
        assert process_queue.remove(0, 1) == 1
        assert process_queue.remove(5, 6) == 1
        assert process_queue.remove(1, 5) == 6
        assert process_queue.remove(6, 10) == 10


def test_nothing_is_committable_before_something_was_assigned() -> None:
    assert window().committable is None


def test_offset_zero_is_a_real_offset() -> None:
    assert window((0, 5)).committable == 0


def test_what_is_accepted_is_committable_up_to_its_begin() -> None:
    assert window((20, 30), (10, 20)).committable == 10


def test_one_past_the_highest_is_committable_when_nothing_is_in_flight() -> None:
    process_queue = window((10, 20), (30, 40))
    process_queue.remove(30, 40)
    assert process_queue.remove(10, 20) == 40
    assert process_queue.in_flight == ()


def test_a_range_stays_what_was_put_until_it_is_finished() -> None:
    assert window((10, 20), (0, 10)).in_flight == ((0, 10), (10, 20))


def test_a_part_is_finished_behind_others_that_it_does_not_touch() -> None:
    process_queue = window((0, 1), (5, 10))
    assert process_queue.remove(6, 8) == 0
    assert process_queue.in_flight == ((0, 1), (5, 6), (8, 10))


def test_an_empty_window_may_move_back() -> None:
    """After a reset to 3 the offsets from 10 to 100 are to be read again: 100 must not be committed for [3, 10)."""
    process_queue = window((0, 100))
    process_queue.remove(0, 100)
    process_queue.put(3, 10)
    assert process_queue.committable == 3
    assert process_queue.remove(3, 10) == 10


@pytest.mark.parametrize(
    "accepted", [(0, 10), (9, 12), (0, 11), (5, 6), (10, 11), (19, 25), (5, 25), (4, 4), (20, 20), (8, 3)]
)
def test_offsets_in_flight_and_empty_ranges_cannot_be_accepted(accepted: tuple[int, int]) -> None:
    process_queue = window((0, 10), (10, 20))
    with pytest.raises(ValueError, match="does not fit"):
        process_queue.put(*accepted)
    assert process_queue.in_flight == ((0, 10), (10, 20))


@pytest.mark.parametrize("finished", [(0, 11), (9, 10), (25, 30), (15, 31), (18, 25), (40, 41), (12, 12), (15, 12)])
def test_what_is_not_in_flight_cannot_be_finished(finished: tuple[int, int]) -> None:
    process_queue = window((10, 20), (30, 40))
    with pytest.raises(ValueError, match="not in flight"):
        process_queue.remove(*finished)
    assert process_queue.in_flight == ((10, 20), (30, 40))


def test_a_dropped_queue_takes_nothing_and_is_dropped_for_ever() -> None:
    process_queue = window((0, 10))
    process_queue.drop()
    process_queue.drop()
    assert process_queue.dropped
    with pytest.raises(ValueError, match="is dropped"):
        process_queue.put(10, 20)


def test_a_dropped_queue_still_finishes_what_it_has_in_flight() -> None:
    process_queue = window((0, 10))
    process_queue.drop()
    assert process_queue.remove(0, 10) == 10


def test_its_state_is_visible_in_one_line() -> None:
    process_queue = window((0, 10), (10, 20))
    assert repr(process_queue) == "<ProcessQueue orders@broker-a:2 generation 7 OWNED, [0, 10) [10, 20)>"
    process_queue.remove(0, 20)
    process_queue.drop()
    assert repr(process_queue) == "<ProcessQueue orders@broker-a:2 generation 7 DROPPED, nothing in flight>"


def test_a_window_shows_what_is_in_flight() -> None:
    subject = SlidingWindow()
    assert repr(subject) == "<SlidingWindow nothing in flight>"
    subject.put(10, 20)
    subject.put(30, 40)
    assert repr(subject) == "<SlidingWindow [10, 20) [30, 40)>"


def test_ranges_up_to_an_offset_are_completed_together() -> None:
    subject = ProcessQueue(MessageQueue("orders", "broker-a", 0), 1)
    for begin in (0, 10, 20):
        subject.put(begin, begin + 10)
    assert subject.remove_completed(25)
    assert list(subject.in_flight) == [(20, 30)]
    assert not subject.remove_completed(29)
