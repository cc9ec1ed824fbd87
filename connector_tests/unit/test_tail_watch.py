from __future__ import annotations

import pytest

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.errors import BrokerError, RocketMQError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.remoting.tail_watch import SHORTEST_SUSPEND_MS, SUSPEND_MS_PER_QUEUE, PullCallback, TailWatch
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

FIRST, SECOND = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
LOST = TransportError("CONNECTION_LOST", address="a:1", reason="cut")
BUSY = BrokerError("BROKER_ERROR", address="a:1", request="PULL_MESSAGE", code=2, code_name="SYSTEM_BUSY", remark="")


def result(status: PullStatus, max_offset: int) -> PullResult:
    return PullResult(status, "", max_offset, 0, max_offset, memoryview(b""))


class Broker:
    """Holds every long poll until the test answers it."""

    def __init__(self) -> None:
        self.held: dict[MessageQueue, tuple[int, int, PullCallback]] = {}
        self.poll_count = 0

    def long_poll(self, queue: MessageQueue, offset: int, suspend_ms: int, on_response: PullCallback) -> None:
        self.held[queue] = (offset, suspend_ms, on_response)
        self.poll_count += 1

    def report(self, queue: MessageQueue, response: PullResult | RocketMQError) -> None:
        self.held.pop(queue)[2](response)


class Owner:
    def __init__(self) -> None:
        self.woken_count = 0

    def wake(self) -> None:
        self.woken_count += 1


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(broker: Broker, owner: Owner, clock: ManualClock) -> TailWatch:
    return TailWatch(broker.long_poll, owner.wake, clock)


def test_each_queue_has_one_long_poll_at_its_position_however_often_it_is_requested(
    broker: Broker, watch: TailWatch
) -> None:
    watch.watch({FIRST: 5, SECOND: 0})
    watch.watch({FIRST: 5, SECOND: 0})
    assert {queue: offset for queue, (offset, _, _) in broker.held.items()} == {FIRST: 5, SECOND: 0}
    assert broker.poll_count == 2


def test_a_message_wakes_the_owner(broker: Broker, watch: TailWatch, owner: Owner) -> None:
    watch.watch({FIRST: 5})
    broker.report(FIRST, result(PullStatus.FOUND, 8))
    assert owner.woken_count == 1


def test_a_busy_queue_brings_nothing_while_its_owner_is_busy_too(broker: Broker, watch: TailWatch) -> None:
    """What has come at a tail is one whole message, in the driver: so there is one for each time that it is idle."""
    for position in (5, 5_000, 10_000):
        watch.watch({FIRST: position, SECOND: 0})
        broker.report(FIRST, result(PullStatus.FOUND, position + 5_000))
        assert broker.held.keys() == {SECOND}
    assert broker.poll_count == 3 + 1


def test_a_timeout_wakes_no_thread_and_the_next_watch_repeats_it(
    broker: Broker, watch: TailWatch, owner: Owner
) -> None:
    watch.watch({FIRST: 5})
    broker.report(FIRST, result(PullStatus.NO_NEW_MSG, 5))
    watch.watch({FIRST: 5})
    assert (owner.woken_count, broker.poll_count) == (0, 2)


@pytest.mark.parametrize("status", [PullStatus.OFFSET_ILLEGAL, PullStatus.NO_MATCHED_MSG])
def test_whatever_is_no_timeout_is_a_change(broker: Broker, watch: TailWatch, owner: Owner, status: PullStatus) -> None:
    watch.watch({FIRST: 5})
    broker.report(FIRST, result(status, 3))
    assert owner.woken_count == 1


def test_a_failure_is_reported_and_the_call_repeated_after_a_pause(
    broker: Broker, watch: TailWatch, owner: Owner, clock: ManualClock
) -> None:
    watch.watch({FIRST: 5})
    broker.report(FIRST, LOST)
    assert owner.woken_count == 1
    watch.watch({FIRST: 5})
    assert broker.poll_count == 1
    clock.advance(REQUEST_PAUSES.shortest_ms)
    watch.watch({FIRST: 5})
    assert broker.poll_count == 2


@pytest.mark.parametrize("response", [LOST, BUSY, result(PullStatus.FOUND, 8)], ids=["lost", "busy", "found"])
@pytest.mark.parametrize("queue_count", [1, 100])
def test_what_gets_a_response_at_once_again_and_again_costs_little(
    broker: Broker, watch: TailWatch, clock: ManualClock, response: PullResult | RocketMQError, queue_count: int
) -> None:
    """A group that may not consume, a busy broker, a message that nobody is to plan: none is held."""
    positions = {MessageQueue("T", "b", queue_id): 5 for queue_id in range(queue_count)}
    for _ in range(10 * 60):
        watch.watch(positions)
        for queue in list(broker.held):
            broker.report(queue, response)
        clock.advance(200)
    assert broker.poll_count < 14 * queue_count


def test_a_queue_whose_position_moves_on_is_watched_at_once(broker: Broker, watch: TailWatch) -> None:
    for position in range(10):
        watch.watch({FIRST: position})
        broker.report(FIRST, result(PullStatus.FOUND, 20))
    assert broker.poll_count == 10


def test_a_timeout_ends_the_pauses(broker: Broker, watch: TailWatch, clock: ManualClock) -> None:
    for response in (LOST, LOST, LOST, result(PullStatus.NO_NEW_MSG, 5), LOST):
        clock.advance(1_000)
        watch.watch({FIRST: 5})
        broker.report(FIRST, response)
    clock.advance(REQUEST_PAUSES.shortest_ms)
    watch.watch({FIRST: 5})
    assert broker.poll_count == 6


def test_a_queue_that_went_and_came_back_is_watched_at_once(broker: Broker, watch: TailWatch) -> None:
    watch.watch({FIRST: 5})
    broker.report(FIRST, LOST)
    watch.watch({})
    watch.watch({FIRST: 5})
    assert broker.poll_count == 2


def test_a_response_at_once_on_the_callers_thread_locks_no_caller_out(owner: Owner, clock: ManualClock) -> None:
    watch = TailWatch(lambda _queue, _offset, _suspend_ms, on_response: on_response(LOST), owner.wake, clock)
    watch.watch({FIRST: 5})
    assert owner.woken_count == 1


def test_many_queues_are_held_longer_so_that_they_cost_no_more(broker: Broker, watch: TailWatch) -> None:
    watch.watch({FIRST: 0})
    watch.watch({MessageQueue("T", "c", queue_id): 0 for queue_id in range(100)})
    assert broker.held[FIRST][1] == SHORTEST_SUSPEND_MS
    assert broker.held[MessageQueue("T", "c", 0)][1] == 100 * SUSPEND_MS_PER_QUEUE
