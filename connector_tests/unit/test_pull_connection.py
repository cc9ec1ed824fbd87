"""Pulls over one stream, which its owner reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.pull.pull_connection import PullConnection
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import UNRESPONSIVE_LIMIT_MS
from rocketmq_spark.remoting.memory import memory_pair
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand, decode
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.frame_arena import Arenas
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

ADDRESS = "a:1"
TIMEOUT_MS, WAIT_MS = 3_000, int(WAIT_S * 1000)
FRAMES = pull_frames("G", MessageQueue("T", "broker-a", 0), "*")
FOUND = build_response(fields={"nextBeginOffset": "8", "minOffset": "0", "maxOffset": "8"}, body=b"messages")


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.unresponsive_on(RequestCode.PULL_MESSAGE)
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
    return [reported.condition for _, reported, _ in completions if isinstance(reported, RocketMQError)]


def test_a_waiting_caller_gets_what_arrives(connection: PullConnection, broker: ScriptedBroker) -> None:
    requested = request(0)
    assert connection.pull([requested], FRAMES) == []
    session = broker.next_session()
    session.reply(session.next_received(), FOUND)
    ((reported, result, _),) = connection.receive(WAIT_MS)
    assert reported is requested
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


def test_what_gets_no_response_in_its_time_is_reported_while_nothing_comes(
    connection: PullConnection, clock: ManualClock
) -> None:
    connection.pull([request(0), request(8)], FRAMES)
    assert connection.receive(0) == []
    clock.advance(TIMEOUT_MS)
    reported = connection.receive(0)
    assert conditions(reported) == ["RESPONSE_TIMED_OUT"] * 2
    assert {reported.context["address"] for _, reported, _ in reported if isinstance(reported, RocketMQError)} == {
        ADDRESS
    }
    assert connection.is_open


def test_a_server_that_closes_ends_all_that_is_in_flight(connection: PullConnection, broker: ScriptedBroker) -> None:
    connection.pull([request(0), request(8)], FRAMES)
    broker.next_session().hang_up()
    assert conditions(connection.receive(WAIT_MS)) == ["CONNECTION_LOST"] * 2
    assert not connection.is_open
    assert conditions(connection.pull([request(0)], FRAMES)) == ["CONNECTION_LOST"]


def reasons(completions: list[Completion]) -> list[tuple[object, object]]:
    return [
        (reported.context["address"], reported.context["reason"])
        for _, reported, _ in completions
        if isinstance(reported, RocketMQError)
    ]


def test_a_loss_reports_which_broker_and_why(connection: PullConnection, broker: ScriptedBroker) -> None:
    connection.pull([request(0)], FRAMES)
    broker.next_session().hang_up()
    reported = reasons(connection.receive(WAIT_MS))
    assert connection.address == ADDRESS
    assert reported == [(ADDRESS, "the server closed it")]


def test_what_is_closed_here_reports_it(connection: PullConnection) -> None:
    connection.pull([request(0)], FRAMES)
    assert reasons(connection.close()) == [(ADDRESS, "it was closed on this side")]
    assert reasons(connection.pull([request(8)], FRAMES)) == [(ADDRESS, "it was closed on this side")]


def test_what_cannot_be_sent_names_what_the_stream_does(clock: ManualClock) -> None:
    ours, theirs = memory_pair(ADDRESS)
    theirs.shutdown()
    connection = PullConnection(ADDRESS, ours, Arenas(), TIMEOUT_MS, clock)
    assert reasons(connection.pull([request(0)], FRAMES)) == [(ADDRESS, "the stream has ended")]
    assert not connection.is_open


def test_a_server_s_own_request_is_refused_beside_the_responses_and_once(clock: ManualClock) -> None:
    ours, theirs = memory_pair(ADDRESS)
    connection = PullConnection(ADDRESS, ours, Arenas(), TIMEOUT_MS, clock)
    requested = request(0)
    connection.pull([requested], FRAMES)
    (pull,) = commands(theirs)
    server_request = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO)
    theirs.sendall(server_request.frame(7) + replace(FOUND, flag=FLAG_RESPONSE).frame(pull.opaque), TIMEOUT_MS)
    assert [reported for reported, _, _ in connection.receive(0)] == [requested]
    (refused,) = commands(theirs)
    assert (refused.code, refused.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 7)
    theirs.sendall(replace(FOUND, flag=FLAG_RESPONSE).frame(99), TIMEOUT_MS)
    assert connection.receive(0) == []
    assert theirs.recv(1, 0) is None, "the question was refused before"


def commands(stream: Stream) -> list[RemotingCommand]:
    frames = FrameBuffer("a client")
    frames.feed(stream.recv(1 << 20, WAIT_MS) or b"")
    return [decode(frame) for frame in iter(frames.next_frame, None)]


def test_a_server_that_responded_a_moment_ago_is_only_late(
    connection: PullConnection, broker: ScriptedBroker, clock: ManualClock
) -> None:
    connection.pull([request(0), request(8)], FRAMES)
    session = broker.next_session()
    clock.advance(UNRESPONSIVE_LIMIT_MS)
    session.reply(session.next_received(), FOUND)
    assert len(connection.receive(WAIT_MS)) == 1
    assert conditions(connection.receive(0)) == ["RESPONSE_TIMED_OUT"]
    assert connection.is_open


def test_in_a_forked_child_it_is_nobodys(connection: PullConnection) -> None:
    connection.pull([request(0)], FRAMES)
    connection.abandon()
    assert not connection.is_open
    reported = connection.pull([request(8)], FRAMES)
    assert conditions(reported) == ["CONNECTION_LOST"]
    assert reasons(reported) == [(ADDRESS, "it belongs to the parent process")]


def test_what_cannot_be_received_names_what_the_stream_does(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_space: memoryview, _timeout_ms: int) -> int:
        raise TransportError("CONNECTION_LOST", address=ADDRESS, reason="connection reset by peer")

    ours, _ = memory_pair(ADDRESS)
    monkeypatch.setattr(ours, "recv_into", fail)
    connection = PullConnection(ADDRESS, ours, Arenas(), TIMEOUT_MS, clock)
    connection.pull([request(0)], FRAMES)
    assert reasons(connection.receive(0)) == [(ADDRESS, "connection reset by peer")]
    assert not connection.is_open
