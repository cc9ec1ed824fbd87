from __future__ import annotations

import pytest

from connector_tests.support.queues import queue, queues
from rocketmq_spark.source.stream.admission import fair_shares

A, B, C = queues(3)


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


def test_what_rounding_leaves_is_handed_out_as_well() -> None:
    assert sorted(fair_shares({A: 10, B: 10, C: 10}, 10).values()) == [3, 3, 4]


def test_below_one_each_the_fullest_come_first() -> None:
    assert fair_shares({A: 5, B: 7, C: 6}, 2) == {B: 1, C: 1}


def test_below_one_each_those_without_a_turn_come_before_the_fuller() -> None:
    assert fair_shares({A: 1, B: 900, C: 800}, 1, served=[B, C]) == {A: 1}


def test_below_one_each_the_longest_without_a_turn_comes_first() -> None:
    assert fair_shares({A: 1, B: 900, C: 800}, 2, served=[C, A, B]) == {C: 1, A: 1}


def test_turns_do_not_matter_while_there_is_one_for_each() -> None:
    waiting = {A: 100, B: 300}
    assert fair_shares(waiting, 40, served=[A, B]) == fair_shares(waiting, 40, served=[B, A])


def test_numbers_beyond_a_float_are_exact() -> None:
    shares = fair_shares({A: 2**62 + 1, B: 2**62 - 1}, 2**62)
    assert sum(shares.values()) == 2**62


def test_equal_queues_are_told_apart_by_their_order() -> None:
    assert fair_shares({queue(2): 5, queue(0): 5, queue(1): 5}, 2) == {A: 1, B: 1}
