from __future__ import annotations

import json
import pickle
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_tests.support.queues import queues
from rocketmq_spark.model import QueueBounds
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.source.data_loss import RETENTION, LossCount, LostRange
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.progress import (
    MAX_OUTAGES,
    MAX_SAMPLES,
    Backlog,
    ProgressReporter,
    WaitingTimes,
    outages_of,
)

NONE = LossCount()
Waits = list[dict[str, Any]] | None
A, B = queues(2)
CONTROL = Control("driver-7", "/nowhere/ours")


@pytest.fixture
def backlog() -> Backlog:
    """Three messages wait in A, nothing in B."""
    backlog = Backlog()
    backlog.update({A: 7, B: 4}, {A: QueueBounds(0, 10, 5_000), B: QueueBounds(0, 4, 4_000)}, is_complete=True)
    return backlog


def counts(**given: dict[str, int]) -> dict[str, dict[str, int]]:
    """``byCondition`` with ``given``, and none of the other conditions."""
    conditions = ("OFFSETS_BEYOND_END", "OFFSETS_OMITTED", "OFFSETS_UNAVAILABLE", "QUEUE_TRUNCATED", "TOPIC_RECREATED")
    return {condition: given.get(condition, {"offsets": 0, "ranges": 0}) for condition in conditions}


def report(
    reporter: ProgressReporter,
    backlog: Backlog,
    *,
    completed_after_rebalance: int = 0,
    now_ms: int = 6_000,
    outages: Waits = None,
    losses: LossCount = NONE,
) -> dict[str, object]:
    return reporter.report(
        backlog, completed_after_rebalance, losses, outages or [], client_id="me", control=CONTROL, now_ms=now_ms
    )


def test_all_that_a_query_shows(backlog: Backlog) -> None:
    shown = report(ProgressReporter(), backlog, completed_after_rebalance=2)
    assert json.loads(json.dumps(shown)) == {
        "clientId": "me",
        "maxOffsets": {"orders": {"broker-a": {"0": 10, "1": 4}}},
        "lag": 3,
        "lagByQueue": {
            "orders": {"broker-a": {"0": {"messages": 3, "ms": 1_000}, "1": {"messages": 0, "ms": 0}}},
        },
        "completedAfterRebalance": 2,
        "lost": {"offsets": 0, "ranges": 0, "byCondition": counts()},
        "outages": [],
        "control": {"host": "driver-7", "folder": "/nowhere/ours"},
    }


def test_before_the_first_refresh_nothing_waits() -> None:
    nothing = Backlog()
    assert (nothing.lag, nothing.max_offsets, nothing.waiting_ms(1), nothing.snapshot_count) == ({}, {}, {}, 0)


def test_where_a_queue_is_missing_the_lag_is_not_known_and_the_others_are_shown(backlog: Backlog) -> None:
    backlog.update({A: 10}, {A: QueueBounds(0, 10, 5_000)}, is_complete=False)
    reporter = ProgressReporter()
    shown = report(reporter, backlog)
    assert (shown["lag"], shown["lagByQueue"]) == (None, {"orders": {"broker-a": {"0": {"messages": 0, "ms": 0}}}})
    backlog.update({A: 10}, {A: QueueBounds(0, 10, 5_000)}, is_complete=True)
    assert report(reporter, backlog)["lag"] == 0


def test_refreshes_are_counted(backlog: Backlog) -> None:
    backlog.update({}, {}, is_complete=True)
    backlog.update({}, {}, is_complete=True)
    assert backlog.snapshot_count == 3


def test_a_queue_whose_broker_was_unresponsive_keeps_its_end(backlog: Backlog) -> None:
    backlog.update({A: 8, B: 4}, {B: QueueBounds(0, 6, 4_000)}, is_complete=True)
    assert (backlog.max_offsets, backlog.lag) == ({A: 10, B: 6}, {A: 2, B: 2})


def test_while_something_waits_its_time_continues(backlog: Backlog) -> None:
    reporter = ProgressReporter()
    assert report(reporter, backlog, now_ms=6_000) != report(reporter, backlog, now_ms=6_001)


def lost(count: int) -> LossCount:
    losses = LossCount()
    losses.add([LostRange(A, 0, count, RETENTION)])
    return losses


def test_a_report_without_lag_is_made_once_for_each_refresh_and_count(backlog: Backlog) -> None:
    reporter = ProgressReporter()
    backlog.update({A: 10}, {A: QueueBounds(0, 10, 5_000)}, is_complete=True)
    first = report(reporter, backlog)
    assert report(reporter, backlog, now_ms=9_000) is first
    late = report(reporter, backlog, completed_after_rebalance=1)
    assert late == first | {"completedAfterRebalance": 1}
    outages = report(reporter, backlog, completed_after_rebalance=1, outages=[{"resource": "broker a"}])
    assert outages == late | {"outages": [{"resource": "broker a"}]}
    assert report(reporter, backlog, completed_after_rebalance=1) == late
    lossy = report(reporter, backlog, completed_after_rebalance=1, losses=lost(465))
    unavailable = {"offsets": 465, "ranges": 1}
    assert lossy == late | {"lost": unavailable | {"byCondition": counts(OFFSETS_UNAVAILABLE=unavailable)}}
    backlog.update({B: 4}, {B: QueueBounds(0, 4, 4_000)}, is_complete=True)
    assert report(reporter, backlog, completed_after_rebalance=1)["maxOffsets"] == {"orders": {"broker-a": {"1": 4}}}


# ------------------------------------------------------------------------------------------------ what is waited for

EPOCH_MS = 1_763_712_000_250
"""2025-11-21 08:00:00.250 UTC."""


def test_since_and_until_are_times_of_day_whatever_clock_the_wait_has() -> None:
    wait = Outage("broker a", since_ms=5_000, until_ms=305_000, reason="it is down.", key="K")
    assert outages_of([wait], now_ms=15_000, epoch_ms=EPOCH_MS) == [
        {
            "resource": "broker a",
            "since": "2025-11-21T07:59:50.250Z",
            "until": "2025-11-21T08:04:50.250Z",
            "reason": "it is down.",
        }
    ]


def test_times_are_utc_wherever_the_driver_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        (reported,) = outages_of([Outage("a", 0, None, "c", "K")], now_ms=0, epoch_ms=0)
    time.tzset()
    assert reported["since"] == "1970-01-01T00:00:00.000Z"


def test_what_ends_no_query_has_no_until() -> None:
    (reported,) = outages_of([Outage("2 queues", 0, None, "away.", "K")], now_ms=0, epoch_ms=EPOCH_MS)
    assert reported["until"] is None


def test_the_longest_waits_are_reported_first_and_not_all() -> None:
    outages = [
        Outage(f"w{number}", since_ms=1_000 - number, until_ms=9_000, reason="", key="K") for number in range(100)
    ]
    reported = outages_of(outages, now_ms=1_000, epoch_ms=EPOCH_MS)
    assert [one["resource"] for one in reported] == [f"w{number}" for number in range(99, 99 - MAX_OUTAGES, -1)]


def test_what_mostly_passes_in_a_moment_is_reported_after_that() -> None:
    wait = Outage("topic orders", since_ms=1_000, until_ms=61_000, reason="", key="K", quiet_ms=500)
    assert outages_of([wait], now_ms=1_499, epoch_ms=EPOCH_MS) == []
    assert len(outages_of([wait], now_ms=1_500, epoch_ms=EPOCH_MS)) == 1


def test_nothing_is_waited_for_most_of_the_time() -> None:
    assert outages_of([], now_ms=0, epoch_ms=EPOCH_MS) == []


NOW_MS = 10_000


def update(*snapshot_count: tuple[int, int, int]) -> WaitingTimes:
    """After surveys of A, as (position, max offset, store time of the last message)."""
    times = WaitingTimes()
    for position, max_offset, last_stored_ms in snapshot_count:
        times.update({A: position}, {A: QueueBounds(0, max_offset, last_stored_ms)})
    return times


def test_nothing_waits_where_all_is_read() -> None:
    assert update((10, 10, 4_000)).waiting_ms(A, NOW_MS) == 0


def test_nothing_waits_in_an_unknown_queue() -> None:
    assert WaitingTimes().waiting_ms(A, NOW_MS) == 0


def test_what_was_seen_first_counts_until_it_is_read() -> None:
    assert update((0, 10, 4_000), (5, 30, 9_000)).waiting_ms(A, NOW_MS) == 6_000
    assert update((0, 10, 4_000), (10, 30, 9_000)).waiting_ms(A, NOW_MS) == 1_000


def test_a_snapshot_that_has_nothing_new_changes_nothing() -> None:
    assert update((0, 10, 4_000), (0, 10, 4_000)).waiting_ms(A, NOW_MS) == 6_000


def test_a_clock_behind_the_brokers_gives_nothing_below_zero() -> None:
    assert update((0, 10, NOW_MS + 50)).waiting_ms(A, NOW_MS) == 0


def test_a_queue_whose_broker_was_unresponsive_keeps_what_is_known() -> None:
    times = update((0, 10, 4_000))
    times.update({A: 0}, {})
    assert times.waiting_ms(A, NOW_MS) == 6_000


def test_an_unknown_store_time_adds_nothing_to_the_age() -> None:
    """The last message may be unreadable; the lag was then the time since 1970."""
    assert update((0, 10, 0)).waiting_ms(A, NOW_MS) == 0
    assert update((0, 10, 4_000), (0, 30, 0)).waiting_ms(A, NOW_MS) == 6_000
    assert update((0, 10, 0), (0, 30, 9_000)).waiting_ms(A, NOW_MS) == 1_000
    assert update((0, 10, 4_000), (0, 10, 0)).waiting_ms(A, NOW_MS) == 6_000
    assert update((0, 10, 4_000), (0, 3, 0)).waiting_ms(A, NOW_MS) == 0


def test_a_queue_that_is_lost_is_forgotten() -> None:
    times = update((0, 10, 4_000))
    times.update({B: 0}, {B: QueueBounds(0, 1, 7_000)})
    assert (times.waiting_ms(A, NOW_MS), times.waiting_ms(B, NOW_MS)) == (0, 3_000)


def test_a_recreated_queue_is_probed_again() -> None:
    assert update((0, 10, 4_000), (0, 3, 8_000)).waiting_ms(A, NOW_MS) == 2_000


def test_what_is_remembered_is_bounded_and_never_contains_too_much() -> None:
    """Message n is stored at n; a survey each message, and nothing is read."""
    times = update(*((0, number + 1, number) for number in range(1, 20 * MAX_SAMPLES)))
    assert len(pickle.dumps(times)) < 20 * MAX_SAMPLES
    for position in (0, 1, MAX_SAMPLES, 10 * MAX_SAMPLES):
        times.update({A: position}, {})
        assert 0 < times.waiting_ms(A, 20 * MAX_SAMPLES) <= 20 * MAX_SAMPLES - position


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40))
def test_it_is_never_too_much_and_lacks_no_more_than_one_refresh(steps: list[tuple[int, int, int]]) -> None:
    """Steps: milliseconds pass, messages are stored one by one within them, and some are read after the survey."""
    times, stored_ms, now_ms, position, refreshes_ms = WaitingTimes(), list[int](), 0, 0, [0]
    for stored, ms, read in steps:
        stored_ms += [now_ms + 1 + number for number in range(stored)]
        now_ms += stored + ms + 1
        position = min(len(stored_ms), position + read)
        refreshes_ms.append(now_ms)
        times.update({A: position}, {A: QueueBounds(0, len(stored_ms), stored_ms[-1] if stored_ms else 0)})
        if position == len(stored_ms):
            assert times.waiting_ms(A, now_ms) == 0
            continue
        waited = now_ms - stored_ms[position]
        longest_pause = max(after - before for before, after in pairwise(refreshes_ms))
        assert waited - longest_pause <= times.waiting_ms(A, now_ms) <= waited


def test_a_bounded_number_of_snapshots_is_kept_and_of_more_every_second_one_from_the_first() -> None:
    """Survey n saw message n stored at n; what is left is seen by reading on."""

    def remembered(count: int) -> list[int]:
        times = update(*((0, number, number) for number in range(1, count + 1)))
        left = []
        for position in range(count):
            times.update({A: position}, {})
            left.append(count - times.waiting_ms(A, count))
        return sorted(set(left))

    assert remembered(MAX_SAMPLES) == list(range(1, MAX_SAMPLES + 1))
    assert remembered(MAX_SAMPLES + 1) == list(range(1, MAX_SAMPLES + 2, 2))


def test_a_snapshot_that_has_the_same_end_again_counts_with_its_last_time() -> None:
    """Where nothing was stored meanwhile the times are equal; a store that corrects one is believed."""
    assert update((0, 10, 4_000), (0, 10, 5_000)).waiting_ms(A, NOW_MS) == 5_000
