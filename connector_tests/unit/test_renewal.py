"""When a message is asked for again, and when it is not ours any more."""

from __future__ import annotations

import pytest

from rocketmq_spark.pop.renewal import Lease


@pytest.mark.parametrize(
    ("now_ms", "is_due", "is_over"), [(0, False, False), (499, False, False), (500, True, False), (999, True, False),
                                      (1_000, False, True), (1_001, False, True)]
)  # fmt: skip
def test_it_is_due_in_its_second_half(now_ms: int, is_due: bool, is_over: bool) -> None:
    lease = Lease.begun(0, 1_000)
    assert (lease.is_due(now_ms), lease.is_over(now_ms)) == (is_due, is_over)


@pytest.mark.parametrize(("invisible_ms", "pause_ms"), [(100, 50), (1_000, 50), (300_000, 15_000), (300_015, 15_000)])
def test_what_was_tried_in_vain_is_tried_again_after_a_pause_and_ends_when_it_would_have(
    invisible_ms: int, pause_ms: int
) -> None:
    tried = Lease.begun(0, invisible_ms).tried_in_vain(invisible_ms // 2)
    assert tried == Lease(invisible_ms, invisible_ms // 2 + pause_ms, invisible_ms)


def test_its_times_are_whole_numbers() -> None:
    assert Lease.begun(0, 1_001) == Lease(1_001, 500, 1_001)
