"""How a source runner's process ends: once, by unwinding, and only as an orphan by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from rocketmq_spark.source.stream.source_run import ParentWatch, ignore_sigterm, unwind_on_sigterm


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_signal_unwinds_the_main_thread_and_the_next_one_does_nothing() -> None:
    """The JVM sends it twice; the second one came into the midst of leaving the group."""
    unwind_on_sigterm()
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)


def test_who_is_ending_already_is_not_ended_again() -> None:
    ignore_sigterm()
    os.kill(os.getpid(), signal.SIGTERM)


def test_who_has_its_parent_goes_on() -> None:
    unwind_on_sigterm()
    ParentWatch().leave_as_orphan()


def test_an_orphan_unwinds() -> None:
    unwind_on_sigterm()
    watch = ParentWatch()
    vars(watch)["_parent"] = -1
    with pytest.raises(SystemExit):
        watch.leave_as_orphan()
