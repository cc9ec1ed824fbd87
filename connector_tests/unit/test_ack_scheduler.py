"""What the requests about messages prove, and how many a worker sends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.ack_scheduler import AckScheduler
from rocketmq_spark.pop.receipt_handles import OpaqueHandle, ReceivedMessage
from rocketmq_spark.pop.receive_failures import ReceiveFailures
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import UnackedMessages
from rocketmq_spark.pop.workers import Workers

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
        workers.join(WAIT_S)
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
        workers.join(WAIT_S)
    assert not scheduler.has_due_requests
