"""When tasks of one thread are due, by a clock that a test moves."""

from __future__ import annotations

from functools import partial

import pytest

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.remoting.periodic_work import PeriodicWork


class Case:
    """Tasks "a", every 100 ms, and "b", every 250 ms."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.done: list[str] = []
        self.a, self.b = (partial(self.done.append, name) for name in "ab")
        self.work = PeriodicWork({self.a: 100, self.b: 250}, self.clock)

    def done_after(self, passed_ms: int) -> str:
        self.clock.advance(passed_ms)
        self.done.clear()
        self.work.run_due()
        return "".join(self.done)


def test_all_tasks_are_due_at_start_in_order() -> None:
    assert Case().done_after(0) == "ab"


def test_each_task_is_due_again_after_its_interval() -> None:
    case = Case()
    assert [case.done_after(passed_ms) for passed_ms in (0, 99, 1, 149, 1, 0)] == ["ab", "", "a", "a", "b", ""]


def test_interval_counts_from_the_last_call() -> None:
    case = Case()
    assert [case.done_after(passed_ms) for passed_ms in (0, 190, 99, 1)] == ["ab", "a", "b", "a"]


def test_next_task_is_due_after_the_shortest_rest() -> None:
    case = Case()
    case.done_after(0)
    assert case.work.next_due_ms == 100
    case.done_after(200)
    assert case.work.next_due_ms == 250


def test_task_made_due_runs_at_once() -> None:
    case = Case()
    case.done_after(0)
    case.work.make_due(case.b)
    assert case.work.next_due_ms <= case.clock()
    assert [case.done_after(passed_ms) for passed_ms in (10, 239, 11)] == ["b", "a", "b"]


def test_task_may_make_itself_due_for_the_next_round() -> None:
    clock, done = ManualClock(), list[int]()

    def repeat() -> None:
        done.append(clock())
        work.make_due(repeat)

    work = PeriodicWork({repeat: 1_000}, clock)
    for _ in range(2):
        work.run_due()
        clock.advance(1)
    assert done == [0, 1]


def test_interval_counts_from_the_start_of_a_long_task() -> None:
    clock, done = ManualClock(), list[int]()

    def last() -> None:
        done.append(clock())
        clock.advance(60)

    work = PeriodicWork({last: 100, partial(last): 100}, clock)
    work.run_due()
    assert (done, work.next_due_ms) == ([0, 60], 100)


def test_error_of_a_task_leaves_the_next_tasks_due() -> None:
    clock, done = ManualClock(), list[str]()

    def fail() -> None:
        raise LookupError("by the test")

    work = PeriodicWork({fail: 100, partial(done.append, "b"): 100}, clock)
    with pytest.raises(LookupError):
        work.run_due()
    assert done == []
    work.run_due()
    assert done == ["b"]
