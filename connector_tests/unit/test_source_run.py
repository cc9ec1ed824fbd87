"""How a source runner's process ends: once, by unwinding, and only as an orphan by itself."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rocketmq_spark.source.stream.source_run import (
    OUTLIVED_PAUSE_S,
    ParentWatch,
    Run,
    ignore_signals,
    unwind_on_signals,
)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_the_main_thread_and_the_next_one_does_nothing(
    first: signal.Signals, second: signal.Signals
) -> None:
    """The JVM sends it twice; the second one came into the midst of leaving the group."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a suite below ``nohup`` ignores it
    unwind_on_signals()
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), first)
    os.kill(os.getpid(), second)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_caller_that_is_ending_already_is_not_ended_again(number: signal.Signals) -> None:
    ignore_signals()
    os.kill(os.getpid(), number)


def test_what_was_started_to_outlive_its_terminal_does() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    unwind_on_signals()
    os.kill(os.getpid(), signal.SIGHUP)


class EndedRun(Run):
    """Which a signal has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.stop()

    def latest_offset(self) -> str:
        self._pause_if_ended()
        return self._call_unless_ended(lambda: "next", "start")

    def _leave(self) -> None:
        """It has nothing."""


def test_an_ended_run_pauses_before_each_response() -> None:
    """Spark asks again at once, for up to 30 s."""
    run = EndedRun()
    begin_s = time.monotonic()
    assert run.latest_offset() == "start"
    assert time.monotonic() - begin_s >= OUTLIVED_PAUSE_S


class StartedRun(EndedRun):
    """Between two calls of Spark."""

    def __init__(self) -> None:
        Run.__init__(self)
        self._start(lambda: None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_between_calls_ends_the_run_without_unwinding(number: signal.Signals) -> None:
    """Spark may still call: an unwound runner would fail the query."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a suite below ``nohup`` ignores it
    run = StartedRun()
    assert run.latest_offset() == "next"
    os.kill(os.getpid(), number)
    assert run.latest_offset() == "start"


def test_a_caller_that_has_its_parent_resumes() -> None:
    unwind_on_signals()
    ParentWatch().leave_as_orphan()


def test_an_orphan_unwinds() -> None:
    unwind_on_signals()
    watch = ParentWatch()
    vars(watch)["_parent"] = -1
    with pytest.raises(SystemExit):
        watch.leave_as_orphan()
