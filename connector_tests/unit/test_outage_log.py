from __future__ import annotations

import logging
from dataclasses import replace
from itertools import pairwise

import pytest

from rocketmq_spark.remoting.outage_log import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, LogLine, Outage, OutageLog, Throttle

LIMIT_MS = 300_000
BROKER = Outage("broker a", 1_000, 1_000 + LIMIT_MS, "it is down.", "DOWN")
TOPIC = Outage("topic t", 1_500, 1_500 + 60_000, "it has no route.", "DOWN")
QUEUES = Outage("4 queues", 121_000, 121_000 + 60_000, "they have no route.", "QUEUES_UNAVAILABLE")
SHY = Outage("the group", 1_000, 11_000, "it does not list us.", "NOT_LISTED", quiet_ms=1_000)


def warned(key: str, text: str) -> list[LogLine]:
    return [LogLine(logging.WARNING, key, text)]


def ended(key: str, text: str) -> list[LogLine]:
    return [LogLine(logging.INFO, key, text)]


def test_a_wait_is_logged_at_once_with_how_long_it_may_last_and_why() -> None:
    assert OutageLog().take_lines([BROKER], 1_000) == warned(
        "DOWN", "Waiting for broker a (fails in 300 s): it is down."
    )


def test_the_first_word_of_a_line_is_its_key() -> None:
    assert str(LogLine(logging.INFO, "DOWN", "It is down.")) == "DOWN: It is down."


def test_what_continues_without_reports_that_it_has_no_end() -> None:
    endless = Outage("4 queues", 0, None, "they are away.", "AWAY")
    assert OutageLog().take_lines([endless], 0) == warned(
        "AWAY", "Waiting for 4 queues (no time limit): they are away."
    )


def test_one_line_for_all_that_begin_together() -> None:
    (line,) = OutageLog().take_lines([BROKER, TOPIC], 1_500)
    assert line.text == ("Waiting for broker a (fails in 300 s): it is down; topic t (fails in 60 s): it has no route.")


def test_a_line_for_each_key_of_those_that_begin_and_last_and_end_together() -> None:
    """An alert finds each by its first word."""
    subject, other = OutageLog(), replace(TOPIC, key="MISSING")
    begun = subject.take_lines([BROKER, other], 1_500)
    lasting = subject.take_lines([BROKER, other], 16_500)
    over = subject.take_lines([], 20_000)
    assert [[line.key for line in lines] for lines in (begun, lasting, over)] == [["DOWN", "MISSING"]] * 3
    assert over[1].text == "Recovered after 18 s: topic t"


def test_an_outage_keeps_its_key_where_its_cause_changes() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER], 1_000)
    other = replace(BROKER, reason="it is slow.", key="SLOW")
    assert subject.take_lines([other], 16_000) == warned(
        "DOWN", "Still waiting for broker a (for 15 s, fails in 285 s): it is slow."
    )
    assert subject.take_lines([], 17_000) == ended("DOWN", "Recovered after 16 s: broker a")


def test_what_is_not_required_any_more_has_not_recovered() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER, TOPIC], 1_500)
    subject.drop("broker a")
    subject.drop("what was never logged")
    dropped, recovered = subject.take_lines([], 11_500)
    assert dropped == LogLine(logging.INFO, "DOWN", "Not recovered, but no longer used, after 10 s: broker a")
    assert recovered == LogLine(logging.INFO, "DOWN", "Recovered after 10 s: topic t")


def test_what_was_dropped_and_is_waited_for_again_can_recover() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER], 1_000)
    subject.drop("broker a")
    assert subject.take_lines([BROKER], 2_000) == []
    assert subject.take_lines([], 3_000) == ended("DOWN", "Recovered after 2.0 s: broker a")


def test_called_five_times_a_second_it_logs_a_wait_of_an_hour_some_ten_times() -> None:
    subject = OutageLog()
    logged_at = [
        now_ms for now_ms in range(0, 3_600_000, 200) if subject.take_lines([Outage("x", 0, None, "c", "K")], now_ms)
    ]
    pauses = [after - before for before, after in pairwise(logged_at)]
    assert pauses[:4] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS, 8 * FIRST_PAUSE_MS]
    assert max(pauses) == LONGEST_PAUSE_MS
    assert len(logged_at) == 11


def test_what_lasts_is_logged_with_for_how_long_it_has() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER], 1_000)
    assert subject.take_lines([BROKER], 15_999) == []
    assert subject.take_lines([BROKER], 16_000) == warned(
        "DOWN", "Still waiting for broker a (for 15 s, fails in 285 s): it is down."
    )


def test_what_comes_later_is_logged_at_once_and_by_itself() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER], 1_000)
    (line,) = subject.take_lines([BROKER, TOPIC], 1_500)
    assert line.text.startswith("Waiting for topic t (")


def test_the_end_is_logged_once_for_all_with_the_whole_time() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER, TOPIC], 1_500)
    assert subject.take_lines([BROKER], 20_000)[0].text.startswith("Still waiting for broker a (")
    assert subject.take_lines([], 58_000) == ended("DOWN", "Recovered after 57 s: broker a; topic t")
    assert subject.take_lines([], 59_000) == []


def test_a_new_outage_after_the_end_is_logged_at_once_again() -> None:
    subject = OutageLog()
    subject.take_lines([BROKER], 1_000)
    subject.take_lines([], 2_000)
    assert len(subject.take_lines([BROKER], 2_500)) == 1
    assert subject.take_lines([BROKER], 2_500 + FIRST_PAUSE_MS)[0].text.startswith("Still")


def test_a_wait_that_takes_the_place_of_another_reports_it() -> None:
    """Of one outage two lines with two limits said that somebody was waited for: the broker, and then its queues."""
    subject = OutageLog()
    subject.take_lines([BROKER, TOPIC], 1_500)
    assert subject.take_lines([QUEUES, TOPIC], 121_000) == [
        *warned("QUEUES_UNAVAILABLE", "Waiting for 4 queues (fails in 60 s): they have no route."),
        *ended("DOWN", "Now reported as QUEUES_UNAVAILABLE, after 120 s: broker a"),
    ]
    assert subject.take_lines([QUEUES], 121_200) == []
    assert subject.take_lines([], 131_500) == [
        *ended("DOWN", "Recovered after 119 s: topic t"),
        *ended("QUEUES_UNAVAILABLE", "Recovered after 10 s: 4 queues"),
    ]


def test_a_second_outage_is_logged_though_something_else_has_lasted_since_the_first() -> None:
    """It was not, and a query whose other broker was gone for good ended without a word of this one."""
    subject = OutageLog()
    missing = Outage("4 queues", 500, None, "they are away.", "AWAY")
    assert [line.key for line in subject.take_lines([missing, BROKER], 1_000)] == ["AWAY", "DOWN"]
    assert subject.take_lines([missing], 9_000) == []
    again = replace(BROKER, since_ms=60_000, until_ms=60_000 + LIMIT_MS)
    (line,) = subject.take_lines([missing, again], 60_000)
    assert line.text == "Waiting for broker a (fails in 300 s): it is down."
    assert subject.take_lines([missing, again], 60_200) == []


def test_what_comes_and_goes_is_logged_with_a_pause() -> None:
    subject = OutageLog()
    missing = Outage("4 queues", 0, None, "they are away.", "AWAY")
    reported = [
        now_ms
        for now_ms in range(0, 60_000, 1_000)
        if any(
            line.text.startswith("Waiting")
            for line in subject.take_lines([missing, replace(BROKER, since_ms=now_ms)], now_ms)
        )
    ]
    assert reported == [0, FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 3 * FIRST_PAUSE_MS]


def test_what_most_often_passes_is_logged_only_when_it_has_lasted() -> None:
    subject = OutageLog()
    assert subject.take_lines([SHY], 1_000) == []
    assert subject.take_lines([], 1_500) == []
    assert subject.take_lines([SHY], 1_999) == []
    assert subject.take_lines([SHY], 2_000) == warned(
        "NOT_LISTED", "Waiting for the group (fails in 9 s): it does not list us."
    )


def test_of_many_three_are_named_and_the_others_counted() -> None:
    (line,) = OutageLog().take_lines([Outage(f"q{number}", 0, 0, "c", "K") for number in range(500)], 0)
    assert line.text.endswith("q2 (fails in 0 s): c; and 497 more")


def test_what_is_over_is_logged_though_something_that_is_not_reported_yet_continues() -> None:
    lines = OutageLog()
    lines.take_lines([Outage("a", 0, None, "c", "A")], 0)
    young = Outage("b", 4_000, None, "c", "B", quiet_ms=15_000)
    assert lines.take_lines([young], 5_000) == ended("A", "Recovered after 5.0 s: a")
    assert lines.take_lines([young], 18_999) == []
    assert lines.take_lines([young], 19_000) == warned("B", "Waiting for b (no time limit): c")


def test_what_continues_is_due_at_once_and_then_ever_more_rarely() -> None:
    throttle = Throttle()
    due_s = [now_s for now_s in range(4_000) if throttle.try_acquire(now_s * 1_000)]
    assert due_s[:7] == [0, 15, 45, 105, 225, 465, 945]
    assert due_s[-1] - due_s[-2] == LONGEST_PAUSE_MS // 1000
    throttle.start(4_000_000)
    assert [throttle.try_acquire(4_000_000 + after_ms) for after_ms in (FIRST_PAUSE_MS - 1, FIRST_PAUSE_MS)] == [
        False,
        True,
    ]


def test_an_event_after_a_long_rest_is_due_as_the_first_was() -> None:
    throttle = Throttle()
    assert [now_s for now_s in range(200) if throttle.try_acquire_event(now_s * 1_000)] == [0, 15, 45, 105]
    rested_s = 105 + 120 + 240
    assert [after_s for after_s in range(60) if throttle.try_acquire_event((rested_s + after_s) * 1_000)] == [0, 15, 45]


def test_causes_that_are_sentences_are_joined_into_one() -> None:
    outages = [Outage("a", 0, None, "It is down.", "K"), Outage("b", 0, None, "It too.", "K")]
    assert OutageLog().take_lines(outages, 0) == warned(
        "K", "Waiting for a (no time limit): It is down; b (no time limit): It too."
    )


def test_three_are_all_that_are_named() -> None:
    (line,) = OutageLog().take_lines([Outage(what, 0, None, "c", "K") for what in "abc"], 0)
    assert line.text.endswith("c (no time limit): c")


@pytest.mark.parametrize(
    ("lasted_ms", "reported"), [(300, "0.3 s"), (9_056, "9.1 s"), (9_940, "9.9 s"), (10_000, "10 s"), (57_999, "57 s")]
)
def test_durations_are_formatted_for_people(lasted_ms: int, reported: str) -> None:
    lines = OutageLog()
    lines.take_lines([Outage("a", 0, None, "c", "K")], 0)
    assert lines.take_lines([], lasted_ms) == ended("K", f"Recovered after {reported}: a")


@pytest.mark.parametrize(("limit_ms", "reported"), [(1, "1 s"), (1_000, "1 s"), (2_002_001, "2003 s")])
def test_what_is_left_is_rounded_up(limit_ms: int, reported: str) -> None:
    assert OutageLog().take_lines([Outage("a", 0, limit_ms, "c", "K")], 0) == warned(
        "K", f"Waiting for a (fails in {reported}): c"
    )
