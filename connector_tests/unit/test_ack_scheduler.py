"""Threads for what may take long, each of which there is once at a time; and what their requests prove."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.streams import eventually
from connector_tests.support.thread_starts import starting_no_thread
from rocketmq_spark.errors import TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.ack_scheduler import AckScheduler, Workers
from rocketmq_spark.pop.receipt_handles import OpaqueHandle, ReceivedMessage
from rocketmq_spark.pop.receive_failures import ReceiveFailures
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import UnackedMessages


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
    workers.join(10)
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
    workers.join(10)
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
    workers.join(10)
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
        workers.join(60)
        beginning.join()
        workers.join(60)
        assert not workers.busy
    assert (len(done), reported) == (3_000, [])


UNVERIFIED = OpaqueHandle("T", "broker-a", "0 1 2 3 0 broker-a 0 5 77")
OUTAGE = TransportError("CONNECTION_LOST", address="p:8081", reason="by the test")
INVISIBLE_MS = 300_000
GIVEN = {
    "endpoints": "p:8081",
    "consumerGroup": "g",
    "subscribe": "T",
    "loadBalance": "message",
    "invisibleDurationMs": str(INVISIBLE_MS),
}
DUE: dict[str, Callable[[UnackedMessages, AckScheduler], None]] = {
    "extension": lambda *_: None,
    "acknowledgement": lambda unacked, _: unacked.mark_completed(1),
    "release": lambda _, scheduler: scheduler.begin_stop(),
}


@pytest.mark.parametrize("due", DUE)
def test_a_message_for_which_no_request_is_sent_ends_no_outage(due: str) -> None:
    """Each time it was due, the outage of its broker began anew, and had no end."""
    options = ReadOptions.parse(GIVEN)
    changed, clock, unacked = threading.Condition(), ManualClock(), UnackedMessages(INVISIBLE_MS)
    failures = ReceiveFailures(options, changed, lambda: None, clock)
    workers = Workers(changed, failures.fail)
    unacked.add_received([ReceivedMessage(UNVERIFIED, memoryview(b"x"))], clock())
    if due != "release":
        unacked.start_batch(1, max_messages=1)
    with closing(transport_of(options)) as transport:
        scheduler = AckScheduler(transport, unacked, failures, workers, changed, options, clock)
        DUE[due](unacked, scheduler)
        clock.advance(INVISIBLE_MS // 2)
        failures.record_outcome("broker-a", OUTAGE)
        clock.advance(INVISIBLE_MS // 4)
        was_due = scheduler.has_due_requests
        scheduler.start_due()
        workers.join(60)
    assert (was_due, scheduler.has_due_requests) == (True, False)
    assert failures.is_failing("broker-a")


def test_one_worker_releases_all_messages_of_a_broker_at_a_stop() -> None:
    """It claims 1,000 at a time. A stop has 10 s, and waits before it starts another worker."""
    options = ReadOptions.parse(GIVEN)
    changed, clock, unacked = threading.Condition(), ManualClock(), UnackedMessages(INVISIBLE_MS)
    failures = ReceiveFailures(options, changed, lambda: None, clock)
    workers = Workers(changed, failures.fail)
    texts = (f"{UNVERIFIED.text}{number}" for number in range(2_001))
    unacked.add_received([ReceivedMessage(UNVERIFIED._replace(text=text), memoryview(b"x")) for text in texts], clock())
    with closing(transport_of(options)) as transport:
        scheduler = AckScheduler(transport, unacked, failures, workers, changed, options, clock)
        scheduler.begin_stop()
        scheduler.start_due()
        workers.join(60)
    assert not scheduler.has_due_requests
