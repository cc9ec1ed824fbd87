from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from connector_tests.support.queues import queues
from rocketmq_spark.model import QueueBounds
from rocketmq_spark.source.stream.backlog import LIMIT, WaitingTimes

A, B = queues(2)
NOW_MS = 10_000


def surveyed(*surveys: tuple[int, int, int]) -> WaitingTimes:
    """After surveys of A, as (position, max offset, store time of the last message)."""
    times = WaitingTimes()
    for position, max_offset, last_stored_ms in surveys:
        times.surveyed({A: position}, {A: QueueBounds(0, max_offset, last_stored_ms)})
    return times


def test_nothing_waits_where_all_is_read() -> None:
    assert surveyed((10, 10, 4_000)).waiting_ms(A, NOW_MS) == 0


def test_nothing_waits_in_a_queue_that_nobody_has_surveyed() -> None:
    assert WaitingTimes().waiting_ms(A, NOW_MS) == 0


def test_what_was_seen_first_counts_until_it_is_read() -> None:
    assert surveyed((0, 10, 4_000), (5, 30, 9_000)).waiting_ms(A, NOW_MS) == 6_000
    assert surveyed((0, 10, 4_000), (10, 30, 9_000)).waiting_ms(A, NOW_MS) == 1_000


def test_a_survey_that_saw_nothing_new_changes_nothing() -> None:
    assert surveyed((0, 10, 4_000), (0, 10, 4_000)).waiting_ms(A, NOW_MS) == 6_000


def test_a_clock_behind_the_brokers_gives_nothing_below_zero() -> None:
    assert surveyed((0, 10, NOW_MS + 50)).waiting_ms(A, NOW_MS) == 0


def test_a_queue_whose_broker_was_silent_keeps_what_is_known() -> None:
    times = surveyed((0, 10, 4_000))
    times.surveyed({A: 0}, {})
    assert times.waiting_ms(A, NOW_MS) == 6_000


def test_a_queue_that_is_lost_is_forgotten() -> None:
    times = surveyed((0, 10, 4_000))
    times.surveyed({B: 0}, {B: QueueBounds(0, 1, 7_000)})
    assert (times.waiting_ms(A, NOW_MS), times.waiting_ms(B, NOW_MS)) == (0, 3_000)


def test_a_queue_that_was_made_anew_is_looked_at_anew() -> None:
    assert surveyed((0, 10, 4_000), (0, 3, 8_000)).waiting_ms(A, NOW_MS) == 2_000


def test_what_is_remembered_is_bounded_and_never_says_too_much() -> None:
    """Message n is stored at n; a survey each message, and nothing is read."""
    times = surveyed(*((0, number + 1, number) for number in range(1, 20 * LIMIT)))
    assert len(pickle.dumps(times)) < 20 * LIMIT
    for position in (0, 1, LIMIT, 10 * LIMIT):
        times.surveyed({A: position}, {})
        assert 0 < times.waiting_ms(A, 20 * LIMIT) <= 20 * LIMIT - position


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40))
def test_it_is_never_too_much_and_lacks_no_more_than_one_survey(steps: list[tuple[int, int, int]]) -> None:
    """Steps: milliseconds pass, messages are stored one by one within them, and some are read after the survey."""
    times, stored_ms, now_ms, position, surveys_ms = WaitingTimes(), list[int](), 0, 0, [0]
    for stored, ms, read in steps:
        stored_ms += [now_ms + 1 + number for number in range(stored)]
        now_ms += stored + ms + 1
        position = min(len(stored_ms), position + read)
        surveys_ms.append(now_ms)
        times.surveyed({A: position}, {A: QueueBounds(0, len(stored_ms), stored_ms[-1] if stored_ms else 0)})
        if position == len(stored_ms):
            assert times.waiting_ms(A, now_ms) == 0
            continue
        waited = now_ms - stored_ms[position]
        longest_pause = max(after - before for before, after in pairwise(surveys_ms))
        assert waited - longest_pause <= times.waiting_ms(A, now_ms) <= waited


def test_so_many_surveys_are_remembered_and_of_more_every_second_one_from_the_first() -> None:
    """Survey n saw message n stored at n; what is left is seen by reading on."""

    def remembered(count: int) -> list[int]:
        times = surveyed(*((0, number, number) for number in range(1, count + 1)))
        left = []
        for position in range(count):
            times.surveyed({A: position}, {})
            left.append(count - times.waiting_ms(A, count))
        return sorted(set(left))

    assert remembered(LIMIT) == list(range(1, LIMIT + 1))
    assert remembered(LIMIT + 1) == list(range(1, LIMIT + 2, 2))


def test_a_survey_that_saw_the_same_end_again_counts_with_its_last_time() -> None:
    """Where nothing was stored meanwhile the times are equal; a store that corrects one is believed."""
    assert surveyed((0, 10, 4_000), (0, 10, 5_000)).waiting_ms(A, NOW_MS) == 5_000
