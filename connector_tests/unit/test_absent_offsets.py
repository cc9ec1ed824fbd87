from __future__ import annotations

import pytest

from rocketmq_spark.pull.absent_offsets import ABSENT_LIMIT_MS, AbsentAction, AbsentOffsets

LIMIT_MS = 60_000
MISSING_MS = 90_000
STALL_LIMIT_MS = MISSING_MS + 2 * ABSENT_LIMIT_MS
BEGAN_MS = 7_000_000


def absent(limit_ms: int = LIMIT_MS, missing_ms: int = MISSING_MS) -> AbsentOffsets:
    """Return the state after one response, at BEGAN_MS, that lacked its offset."""
    subject = AbsentOffsets(limit_ms, missing_ms)
    subject.record_absent(BEGAN_MS)
    return subject


def test_only_the_first_loss_of_each_request_is_pulled_again() -> None:
    subject, first, second = AbsentOffsets(LIMIT_MS, MISSING_MS), object(), object()
    assert subject.try_confirm_loss(first) is False
    assert subject.try_confirm_loss(second) is False
    assert subject.try_confirm_loss(first) is True
    subject.discard_loss(first)
    assert subject.try_confirm_loss(first) is False
    assert subject.try_confirm_loss(second) is True


@pytest.mark.parametrize(
    ("may_be_lost", "after_ms", "action"),
    [
        (True, 0, AbsentAction.POSTPONE),
        (True, ABSENT_LIMIT_MS - 1, AbsentAction.POSTPONE),
        (True, ABSENT_LIMIT_MS, AbsentAction.PRESUME_LOST),
        (True, STALL_LIMIT_MS, AbsentAction.PRESUME_LOST),
        (False, LIMIT_MS - 1, AbsentAction.POSTPONE),
        (False, LIMIT_MS, AbsentAction.STALLED),
    ],
)
def test_action_depends_on_the_time_of_absence(may_be_lost: bool, after_ms: int, action: AbsentAction) -> None:
    subject = absent()
    subject.record_absent(BEGAN_MS + after_ms)
    assert subject.action(BEGAN_MS + after_ms, may_be_lost=may_be_lost) is action


def test_a_range_fails_no_sooner_than_offsets_are_presumed_lost() -> None:
    subject = absent(limit_ms=0, missing_ms=0)
    assert subject.action(BEGAN_MS + ABSENT_LIMIT_MS - 1, may_be_lost=False) is AbsentAction.POSTPONE
    assert subject.action(BEGAN_MS + ABSENT_LIMIT_MS, may_be_lost=False) is AbsentAction.STALLED


@pytest.mark.parametrize(
    ("limit_ms", "missing_ms"), [(LIMIT_MS, MISSING_MS), (MISSING_MS, LIMIT_MS)], ids=["missing", "limit"]
)
def test_failures_restart_the_absence_but_not_the_stall(limit_ms: int, missing_ms: int) -> None:
    subject, now_ms = absent(limit_ms, missing_ms), BEGAN_MS
    for now_ms in range(BEGAN_MS, BEGAN_MS + STALL_LIMIT_MS, ABSENT_LIMIT_MS):
        subject.record_failure()
        subject.record_absent(now_ms)
        assert (subject.absent_ms(now_ms), subject.stalled_ms(now_ms)) == (0, now_ms - BEGAN_MS)
        assert subject.action(now_ms, may_be_lost=True) is AbsentAction.POSTPONE
    subject.record_failure()
    assert subject.action(BEGAN_MS + STALL_LIMIT_MS - 1, may_be_lost=True) is AbsentAction.POSTPONE
    assert subject.action(BEGAN_MS + STALL_LIMIT_MS, may_be_lost=True) is AbsentAction.STALLED


def test_a_success_ends_both_times() -> None:
    subject = absent()
    subject.record_success()
    later_ms = BEGAN_MS + STALL_LIMIT_MS
    assert (subject.absent_ms(later_ms), subject.stalled_ms(later_ms)) == (0, 0)
    subject.record_absent(later_ms)
    assert subject.absent_ms(later_ms + 5) == subject.stalled_ms(later_ms + 5) == 5
