"""Threads for what may take long: of each name once at a time, or any number of one name."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from connector_tests.support.streams import eventually
from connector_tests.support.thread_starts import starting_no_thread
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.pop.workers import RunningThreads, Workers


def test_each_is_there_once_and_none_waits_for_another() -> None:
    changed, resume = threading.Condition(), threading.Event()
    done: list[str] = []
    workers = Workers(changed, lambda error: done.append(str(error)))

    def wait() -> None:
        resume.wait()
        done.append("first")

    workers.start("a", wait)
    workers.start("a", lambda: done.append("never"))
    workers.start("b", lambda: done.append("beside it"))
    eventually(lambda: workers.busy == {"a"}, "the other has ended")
    assert done == ["beside it"]
    with changed:
        resume.set()
        changed.wait_for(lambda: not workers.busy)
    assert done == ["beside it", "first"]
    workers.start("a", lambda: done.append("again"))
    workers.join(WAIT_S)
    assert done[-1] == "again"


def test_what_one_raises_is_reported_and_it_may_work_again(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[Exception] = []
    workers = Workers(threading.Condition(), reported.append)
    problem = LookupError("by the test")

    def fail() -> None:
        raise problem

    workers.start("a", fail)
    eventually(lambda: not workers.busy, "it has ended")
    assert reported == [problem]
    assert "INTERNAL_ERROR: Unexpected error in thread rocketmq-pop-a; the query fails. Report it." in caplog.text
    workers.start("a", lambda: reported.append(problem))
    workers.join(WAIT_S)
    eventually(lambda: len(reported) == 2, "it works again")


def test_what_no_thread_can_be_started_for_is_done_at_once() -> None:
    """At the exit of Python 3.12 nothing was released, and the stop was broken off."""
    done: list[set[str]] = []
    reported: list[Exception] = []
    workers = Workers(threading.Condition(), reported.append)
    with starting_no_thread():
        workers.start("a", lambda: done.append(workers.busy))
    assert (done, workers.busy, reported) == ([{"a"}], set(), [])
    workers.start("a", lambda: done.append(set()))
    workers.join(WAIT_S)
    assert done[1:] == [set()]


@pytest.fixture
def threads_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_switch_often")
def test_a_caller_that_waits_waits_for_those_too_that_are_just_beginning() -> None:
    """A stop ended with "cannot join thread before it is started"."""
    reported: list[Exception] = []
    done: list[int] = []
    for number in range(3_000):
        workers = Workers(threading.Condition(), reported.append)

        def start(workers: Workers = workers, number: int = number) -> None:
            workers.start("look", lambda: done.append(number))

        beginning = threading.Thread(target=start)
        beginning.start()
        workers.join(WAIT_S)
        beginning.join()
        workers.join(WAIT_S)
        assert not workers.busy
    assert (len(done), reported) == (3_000, [])


def test_threads_of_one_name_run_at_once_and_are_joined() -> None:
    threads, resume = RunningThreads("rocketmq-test"), threading.Event()
    names: list[str] = []

    def wait() -> None:
        resume.wait()
        names.append(threading.current_thread().name)

    for _ in range(2):
        threads.start(wait)
    threads.join(0)
    assert names == []
    resume.set()
    threads.join(WAIT_S)
    assert names == ["rocketmq-test"] * 2


@pytest.mark.usefixtures("threads_switch_often")
def test_thread_that_has_begun_is_joined() -> None:
    for _ in range(300):
        threads, begun, resume = RunningThreads("rocketmq-test"), threading.Event(), threading.Event()
        ended: list[bool] = []

        def run(begun: threading.Event = begun, resume: threading.Event = resume, ended: list[bool] = ended) -> None:
            begun.set()
            ended.append(resume.wait())

        starting = threading.Thread(target=threads.start, args=(run,))
        starting.start()
        begun.wait()
        resume.set()
        threads.join(WAIT_S)
        has_ended = bool(ended)
        starting.join()
        threads.join(WAIT_S)
        assert has_ended


def test_threads_that_have_ended_are_forgotten() -> None:
    threads, resume = RunningThreads("rocketmq-test"), threading.Event()
    threads.start(resume.wait)
    threads.start(lambda: None)
    eventually(lambda: sum(one.is_alive() for one in threads._running) == 1, "the other has ended")
    threads.start(resume.wait)
    assert len(threads._running) == 2
    resume.set()
    threads.join(WAIT_S)


def test_thread_that_cannot_be_started_is_not_joined() -> None:
    threads = RunningThreads("rocketmq-test")
    with starting_no_thread(), pytest.raises(RuntimeError):
        threads.start(lambda: None)
    threads.join(WAIT_S)
