"""Connections without a reader, their pool and the inbox of a range: whoever waits for an answer reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, answer
from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.pull.pull_request import PullRequest
from rocketmq_spark.pull.range_puller import PullInbox
from rocketmq_spark.remoting.connection import Pending
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
LONG_MS = 60_000
WAIT_S = 10.0
ECHO = RemotingCommand(RequestCode.GET_MAX_OFFSET)
SILENT = RemotingCommand(RequestCode.PULL_MESSAGE)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.on(ECHO.code, answer(remark="here"))
        broker.silent_on(SILENT.code)
        yield broker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pool(broker: ScriptedBroker, clock: ManualClock) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(1000, has_readers=False, connect=broker.connect, clock=clock)
    yield pool
    pool.close()


class Told:
    """What became of requests: the answers' remarks, and the conditions of errors."""

    def __init__(self) -> None:
        self.outcomes: list[str | None] = []

    def __call__(self, pending: Pending) -> None:
        try:
            self.outcomes.append(pending.result().remark)
        except RocketMQError as error:
            self.outcomes.append(error.condition)


def until(is_reached: Callable[[], bool], receive: Callable[[int], None]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_reached():
        assert time.monotonic() < deadline, "it does not come"
        receive(10)


def test_there_is_no_thread_and_the_one_who_waits_is_told(pool: ConnectionPool) -> None:
    before, told = threading.active_count(), Told()
    connection = pool.get(A)
    ours = threading.active_count() - before
    connection.submit(ECHO, LONG_MS, told)
    assert told.outcomes == []
    until(lambda: bool(told.outcomes), connection.receive)
    assert told.outcomes == ["here"]
    assert ours == 1, "the scripted server's session"


def test_what_is_never_answered_times_out_while_somebody_waits(pool: ConnectionPool, clock: ManualClock) -> None:
    told = Told()
    pool.get(A).submit(SILENT, 3_000, told)
    clock.advance(3_000)
    pool.receive(1)
    assert told.outcomes == ["RESPONSE_TIMED_OUT"]


def test_an_answer_that_came_while_the_owner_was_busy_is_not_too_late(
    pool: ConnectionPool, broker: ScriptedBroker, clock: ManualClock
) -> None:
    """Spark takes rows when it wants to; that may be minutes later."""
    told = Told()
    for _ in range(3):
        pool.get(A).submit(SILENT, 3_000, told)
    session = broker.next_session()
    for _ in range(3):
        session.reply(session.next_received(), answer(remark="in time"))
    clock.advance(90_000)
    until(lambda: len(told.outcomes) == 3, pool.receive)
    assert told.outcomes == ["in time"] * 3


def test_a_loss_is_told_to_all_that_is_in_flight(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    told = Told()
    connection = pool.get(A)
    connection.submit_all([SILENT, SILENT], LONG_MS, told)
    broker.next_session().hang_up()
    until(lambda: bool(told.outcomes), pool.receive)
    assert told.outcomes == ["CONNECTION_LOST"] * 2
    assert pool.get(A) is not connection


def test_a_request_that_cannot_be_sent_is_told_once_and_so_are_those_before_it(
    pool: ConnectionPool, broker: ScriptedBroker
) -> None:
    """Nobody will read on a connection that has been replaced."""
    told = Told()
    connection = pool.get(A)
    connection.submit(SILENT, LONG_MS, told)
    broker.next_session().hang_up()
    connection.submit_all([SILENT, SILENT], LONG_MS, told)
    assert told.outcomes == ["CONNECTION_LOST"] * 3


def test_closing_tells_what_is_in_flight(pool: ConnectionPool) -> None:
    told = Told()
    pool.get(A).submit(SILENT, LONG_MS, told)
    pool.close()
    assert told.outcomes == ["CONNECTION_LOST"]


def test_bytes_that_are_no_frame_end_the_connection(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    told = Told()
    pool.get(A).submit(SILENT, LONG_MS, told)
    broker.next_session().send_bytes(b"\0\0\0\1")
    until(lambda: bool(told.outcomes), pool.receive)
    assert told.outcomes == ["BAD_FRAME"]


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(
    pool: ConnectionPool, broker: ScriptedBroker
) -> None:
    """Brokers close what has been idle for two minutes; nobody has read since."""
    idle = pool.get(A)
    broker.next_session().hang_up()
    assert pool.get(A) is not idle
    assert not idle.is_open


def test_answers_of_several_servers_come_in_whichever_is_slow(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    told = Told()
    for _ in range(3):
        pool.get(A).submit(SILENT, LONG_MS, told)
    pool.get(B).submit(ECHO, LONG_MS, told)
    until(lambda: bool(told.outcomes), pool.receive)
    assert told.outcomes == ["here"]
    slow = broker.next_session()
    for _ in range(3):
        slow.reply(slow.next_received(), answer(remark="slow"))
    until(lambda: len(told.outcomes) == 4, pool.receive)
    assert told.outcomes[1:] == ["slow"] * 3


def test_a_retired_connection_still_gets_its_answers(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    told = Told()
    leaving = pool.get(A)
    leaving.submit(SILENT, LONG_MS, told)
    session = broker.next_session()
    pool.retire(leaving)
    del leaving
    session.reply(session.next_received(), answer(remark="late but well"))
    until(lambda: bool(told.outcomes), pool.receive)
    assert told.outcomes == ["late but well"]


def test_to_wait_for_nothing_takes_the_whole_time(pool: ConnectionPool) -> None:
    begin = time.monotonic()
    pool.receive(20)
    assert time.monotonic() - begin >= 0.02


def an_answer() -> tuple[PullRequest, RocketMQError]:
    return PullRequest(0, 1), TransportError("CONNECT_FAILED", address=A, reason="refused")


def test_an_inbox_waits_no_longer_than_it_should(clock: ManualClock) -> None:
    waits_ms: list[int] = []

    def receive(timeout_ms: int) -> None:
        waits_ms.append(timeout_ms)
        clock.advance(timeout_ms)

    assert not PullInbox(receive, clock).wait(450)
    assert waits_ms == [200, 200, 50]


def test_an_inbox_with_an_answer_does_not_wait(clock: ManualClock) -> None:
    def unexpected(timeout_ms: int) -> None:
        raise AssertionError(f"waits {timeout_ms} ms")

    inbox, item = PullInbox(unexpected, clock), an_answer()
    inbox.put(item)
    assert inbox.wait(None)
    assert inbox.take() is item
    assert inbox.take() is None


def test_an_inbox_waits_without_end_until_something_comes(clock: ManualClock) -> None:
    left = iter(range(500))

    def receive(_timeout_ms: int) -> None:
        if next(left) == 400:
            inbox.put(an_answer())

    inbox = PullInbox(receive, clock)
    assert inbox.wait(None)
