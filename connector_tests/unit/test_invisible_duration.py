"""When a message is requested again, and when it is not ours any more."""

from __future__ import annotations

import secrets
from collections import Counter
from itertools import pairwise

import pytest

from rocketmq_spark.pop.invisible_duration import ExpiryLog, Lease, longest_duration_ms, random_duration_ms


@pytest.mark.parametrize(
    ("now_ms", "is_due", "is_expired"), [(0, False, False), (499, False, False), (500, True, False), (999, True, False),
                                      (1_000, False, True), (1_001, False, True)]
)  # fmt: skip
def test_it_is_due_in_its_second_half(now_ms: int, is_due: bool, is_expired: bool) -> None:
    lease = Lease.starting_at(0, 1_000)
    assert (lease.is_due(now_ms), lease.is_expired(now_ms)) == (is_due, is_expired)


@pytest.mark.parametrize(("invisible_ms", "pause_ms"), [(100, 50), (1_000, 50), (300_000, 15_000), (300_015, 15_000)])
def test_what_was_tried_in_vain_is_tried_again_after_a_pause_and_ends_when_it_would_have(
    invisible_ms: int, pause_ms: int
) -> None:
    tried = Lease.starting_at(0, invisible_ms).retry_later(invisible_ms // 2)
    assert tried == Lease(invisible_ms, invisible_ms // 2 + pause_ms, invisible_ms)


def test_its_times_are_whole_numbers() -> None:
    assert Lease.starting_at(0, 1_001) == Lease(1_001, 500, 1_001)


@pytest.mark.parametrize(
    ("invisible_ms", "least_ms", "most_ms"),
    [
        (1_000, 1_000, 2_000),
        (9_999, 8_999, 9_999),
        (10_000, 10_000, 11_000),
        (60_000, 60_000, 63_000),
        (300_000, 300_000, 315_000),
        (36_000_000, 36_000_000, 36_030_000),
        (43_200_000, 43_170_000, 43_200_000),
    ],
)
def test_a_poll_requests_an_unforeseeable_duration(invisible_ms: int, least_ms: int, most_ms: int) -> None:
    """It is one that a proxy takes, if that takes ``invisible_ms``, and only then."""
    durations = [random_duration_ms(invisible_ms, secrets.randbelow) for _ in range(2_000)]
    assert least_ms <= min(durations) <= least_ms + (most_ms - least_ms) // 10
    assert most_ms - (most_ms - least_ms) // 10 <= max(durations) <= most_ms == longest_duration_ms(invisible_ms)
    assert len(set(durations)) > 500


LINE = (
    "MESSAGES_EXPIRED: 7 messages were neither acknowledged nor extended within 'invisibleDurationMs' (10000 ms); "
    "brokers redeliver them, and they may be processed twice: broker=a count=5, broker=b count=2. If these brokers "
    "respond, raise 'invisibleDurationMs' or lower 'maxOffsetsPerTrigger'."
)


def test_it_reports_how_many_of_which_brokers_and_what_to_do() -> None:
    lines = ExpiryLog(10_000)
    assert lines.take_lines(Counter(), 0) == []
    assert list(map(str, lines.take_lines(Counter(b=2, a=5), 0))) == [LINE]
    assert lines.take_lines(Counter(b=2, a=5), 1_000_000) == [], "nothing new"


def test_messages_that_expire_all_day_are_a_line_ever_more_rarely() -> None:
    lines = ExpiryLog(10_000)
    reported_ms = [now_ms for now_ms in range(0, 3_600_000, 1_000) if lines.take_lines(Counter(a=now_ms + 1), now_ms)]
    assert reported_ms[:5] == [0, 15_000, 45_000, 105_000, 225_000]
    assert [after - before for before, after in pairwise(reported_ms)][-3:] == [600_000] * 3
    assert len(reported_ms) <= 12


def test_each_line_counts_what_is_new_and_after_a_quiet_time_it_is_logged_at_once_and_soon_again() -> None:
    lines = ExpiryLog(10_000)
    assert lines.take_lines(Counter(a=1), 0)
    (line,) = lines.take_lines(Counter(a=4), 15_000)
    assert line.text.startswith("3 messages")
    (line,) = lines.take_lines(Counter(a=5), 200_000)
    assert line.text.startswith("1 messages")
    assert lines.take_lines(Counter(a=6), 214_999) == []
    assert lines.take_lines(Counter(a=6), 215_000)
