"""Pulls over one stream, which its owner reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, answer
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.pull.pull_connection import PullConnection
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.frame_arena import Arenas
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

ADDRESS = "a:1"
TIMEOUT_MS, WAIT_MS = 3_000, 10_000
FRAMES = pull_frames("G", MessageQueue("T", "broker-a", 0), "*")
FOUND = answer(fields={"nextBeginOffset": "8", "minOffset": "0", "maxOffset": "8"}, body=b"messages")


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.silent_on(RequestCode.PULL_MESSAGE)
        yield broker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def connection(broker: ScriptedBroker, clock: ManualClock) -> Iterator[PullConnection]:
    connection = PullConnection(ADDRESS, broker.connect(ADDRESS, 0), Arenas(), TIMEOUT_MS, clock)
    yield connection
    connection.close()


def request(offset: int) -> PullRequest:
    return PullRequest(offset, offset + 8, 8, deque())


def conditions(completions: list[Completion]) -> list[str]:
    return [told.condition for _, told in completions if isinstance(told, RocketMQError)]


def test_whoever_waits_is_handed_what_comes(connection: PullConnection, broker: ScriptedBroker) -> None:
    asked = request(0)
    assert connection.pull([asked], FRAMES) == []
    session = broker.next_session()
    session.reply(session.next_received(), FOUND)
    ((told, result),) = connection.receive(WAIT_MS)
    assert told is asked
    assert not isinstance(result, RocketMQError)
    assert bytes(result.body) == b"messages"
    assert connection.in_flight_count == 0


def test_it_is_idle_from_its_last_use_on_and_not_while_it_waits(connection: PullConnection, clock: ManualClock) -> None:
    idle_since_ms = [connection.idle_since_ms]
    clock.advance(500)
    connection.pull([request(0)], FRAMES)
    idle_since_ms.append(connection.idle_since_ms)
    assert conditions(connection.close()) == ["CONNECTION_LOST"]
    assert [*idle_since_ms, connection.idle_since_ms] == [1_000, None, 1_500]


def test_what_is_not_answered_in_its_time_is_told_while_nothing_comes(
    connection: PullConnection, clock: ManualClock
) -> None:
    connection.pull([request(0), request(8)], FRAMES)
    assert connection.receive(0) == []
    clock.advance(TIMEOUT_MS)
    assert conditions(connection.receive(0)) == ["RESPONSE_TIMED_OUT"] * 2
    assert connection.is_open


def test_a_server_that_closes_ends_all_that_is_in_flight(connection: PullConnection, broker: ScriptedBroker) -> None:
    connection.pull([request(0), request(8)], FRAMES)
    broker.next_session().hang_up()
    assert conditions(connection.receive(WAIT_MS)) == ["CONNECTION_LOST"] * 2
    assert not connection.is_open
    assert conditions(connection.pull([request(0)], FRAMES)) == ["CONNECTION_LOST"]


def test_in_a_forked_child_it_is_nobodys(connection: PullConnection) -> None:
    connection.abandon()
    assert not connection.is_open
