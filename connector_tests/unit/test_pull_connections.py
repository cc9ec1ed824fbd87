"""The pull connections of one thread, to a scripted server over in-memory streams: whoever waits for answers reads."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.pull.pull_connections import PullConnections, shared_pull_connections
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import UNRESPONSIVE_LIMIT_MS
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_ONEWAY, RemotingCommand
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

A, B, UNRESPONSIVE = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
TIMEOUT_MS = 3_000
FRAMES = pull_frames("G", MessageQueue("T", "broker-a", 0), "*")
REQUEST = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=1)


def found(remark: str = "here", next_begin: int = 32) -> RemotingCommand:
    fields = {"nextBeginOffset": str(next_begin), "minOffset": "0", "maxOffset": "64"}
    return build_response(fields=fields, body=b"messages", remark=remark)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Answers at once."""
    with ScriptedBroker() as broker:
        broker.on(RequestCode.PULL_MESSAGE, found())
        yield broker


@pytest.fixture
def unresponsive() -> Iterator[ScriptedBroker]:
    """Answers nothing by itself; it is at ``SILENT``."""
    with ScriptedBroker() as broker:
        broker.unresponsive_on(RequestCode.PULL_MESSAGE)
        yield broker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Pulls:
    """Pulls, and what became of them: the answers' remarks, the conditions of errors."""

    def __init__(self, connections: PullConnections) -> None:
        self.connections = connections
        self.reported: list[str] = []

    def pull(self, address: str, count: int = 1) -> None:
        requests = [PullRequest(offset, offset + 1, 1, deque()) for offset in range(count)]
        self._note(self.connections.get_or_open(BrokerAddress(address)).pull(requests, FRAMES))

    def receive(self, timeout_ms: int = 10) -> None:
        self._note(self.connections.receive(timeout_ms))

    def until_reported(self, count: int) -> list[str]:
        deadline = time.monotonic() + WAIT_S
        while len(self.reported) < count:
            assert time.monotonic() < deadline, "it does not come"
            self.receive()
        assert len(self.reported) == count
        return self.reported

    def _note(self, completions: list[Completion]) -> None:
        for _, outcome, _ in completions:
            self.reported.append(outcome.condition if isinstance(outcome, RocketMQError) else outcome.reason)


@pytest.fixture
def pulls(broker: ScriptedBroker, unresponsive: ScriptedBroker, clock: ManualClock) -> Iterator[Pulls]:
    def connect(address: str, timeout_ms: int) -> Stream:
        return (unresponsive if address == UNRESPONSIVE else broker).connect(address, timeout_ms)

    connections = PullConnections(TIMEOUT_MS, connect=connect, clock=clock, limit=2, idle_ms=100_000)
    yield Pulls(connections)
    connections.close()


# ------------------------------------------------------------------------------------------------------- answers


def test_there_is_no_thread_and_the_one_that_waits_gets_the_response(pulls: Pulls) -> None:
    before = threading.active_count()
    pulls.pull(A)
    ours = threading.active_count() - before
    assert pulls.reported == []
    assert pulls.until_reported(1) == ["here"]
    assert ours == 1, "the scripted server's session"


def test_pulls_are_sent_together_and_each_response_goes_to_its_own(pulls: Pulls, unresponsive: ScriptedBroker) -> None:
    requests = [PullRequest(offset, offset + 1, 1, deque()) for offset in range(3)]
    assert pulls.connections.get_or_open(BrokerAddress(UNRESPONSIVE)).pull(requests, FRAMES) == []
    session = unresponsive.next_session()
    for received in reversed([session.next_received() for _ in requests]):
        session.reply(received, found(next_begin=int(received.fields["queueOffset"]) + 100))
    completions: list[Completion] = []
    while len(completions) < 3:
        completions += pulls.connections.receive(1_000)
    assert [request for request, _, _ in completions] == requests[::-1]
    assert [outcome.next_begin_offset for _, outcome, _ in completions if not isinstance(outcome, RocketMQError)] == [
        102,
        101,
        100,
    ]


def test_an_address_has_one_connection_for_as_long_as_it_is_open(pulls: Pulls, broker: ScriptedBroker) -> None:
    for count in (1, 2, 3):
        pulls.pull(A)
        pulls.until_reported(count)
    assert broker.connect_count == 1


def test_responses_of_several_servers_come_in_whichever_is_slow(pulls: Pulls, unresponsive: ScriptedBroker) -> None:
    pulls.pull(UNRESPONSIVE, 3)
    pulls.pull(A)
    assert pulls.until_reported(1) == ["here"]
    slow = unresponsive.next_session()
    for _ in range(3):
        slow.reply(slow.next_received(), found("slow"))
    assert pulls.until_reported(4)[1:] == ["slow"] * 3


def test_to_wait_for_nothing_takes_the_whole_time(pulls: Pulls) -> None:
    begin = time.monotonic()
    assert pulls.connections.receive(20) == []
    assert time.monotonic() - begin >= 0.02


def test_a_refusal_and_a_response_without_its_numbers_are_reported_and_the_others_resume(
    pulls: Pulls, unresponsive: ScriptedBroker
) -> None:
    pulls.pull(UNRESPONSIVE, 3)
    session = unresponsive.next_session()
    replies = [build_response(ResponseCode.NO_PERMISSION), build_response(fields={"minOffset": "0"}), found()]
    for reply in replies:
        session.reply(session.next_received(), reply)
    assert pulls.until_reported(3) == ["BROKER_ERROR", "MALFORMED_RESPONSE.HEADER", "here"]


# ------------------------------------------------------------------------------------------- no answer in time


def test_what_never_gets_a_response_times_out_while_a_caller_waits(pulls: Pulls, clock: ManualClock) -> None:
    pulls.pull(UNRESPONSIVE)
    clock.advance(TIMEOUT_MS - 1)
    pulls.receive(1)
    assert pulls.reported == []
    clock.advance(1)
    pulls.receive(1)
    assert pulls.reported == ["RESPONSE_TIMED_OUT"]


def test_a_late_response_is_dropped_and_the_next_pull_gets_its_own(
    pulls: Pulls, unresponsive: ScriptedBroker, clock: ManualClock
) -> None:
    pulls.pull(UNRESPONSIVE)
    clock.advance(TIMEOUT_MS)
    pulls.receive(1)
    session = unresponsive.next_session()
    session.reply(session.next_received(), found("late"))
    pulls.pull(UNRESPONSIVE)
    session.reply(session.next_received(), found("in time"))
    assert pulls.until_reported(2) == ["RESPONSE_TIMED_OUT", "in time"]


def test_a_response_that_came_while_the_owner_was_busy_is_not_too_late(
    pulls: Pulls, unresponsive: ScriptedBroker, clock: ManualClock
) -> None:
    """Spark takes rows when it wants to; that may be minutes later."""
    pulls.pull(UNRESPONSIVE, 3)
    session = unresponsive.next_session()
    for _ in range(3):
        session.reply(session.next_received(), found("in time"))
    clock.advance(90_000)
    assert pulls.until_reported(3) == ["in time"] * 3


def test_a_server_that_has_been_unresponsive_for_long_times_out(
    pulls: Pulls, unresponsive: ScriptedBroker, clock: ManualClock
) -> None:
    """A host that vanished without a word leaves a connection that looks open for many minutes."""
    pulls.pull(UNRESPONSIVE)
    clock.advance(UNRESPONSIVE_LIMIT_MS - 1)
    pulls.pull(UNRESPONSIVE)
    pulls.receive(1)
    assert pulls.reported == ["RESPONSE_TIMED_OUT"]
    clock.advance(TIMEOUT_MS)
    pulls.pull(UNRESPONSIVE, 2)
    pulls.receive(1)
    assert pulls.reported == ["RESPONSE_TIMED_OUT"] * 2 + ["CONNECTION_LOST"] * 2
    pulls.pull(UNRESPONSIVE)
    assert unresponsive.connect_count == 2


# ------------------------------------------------------------------------------------------------------- losses


def test_a_loss_is_reported_to_all_that_is_in_flight(pulls: Pulls, unresponsive: ScriptedBroker) -> None:
    pulls.pull(UNRESPONSIVE, 2)
    unresponsive.next_session().hang_up()
    assert pulls.until_reported(2) == ["CONNECTION_LOST"] * 2
    pulls.pull(UNRESPONSIVE)
    assert unresponsive.connect_count == 2


def test_what_cannot_be_sent_is_reported_once_and_so_is_what_was_sent_before(
    pulls: Pulls, unresponsive: ScriptedBroker
) -> None:
    """Nobody will read on a connection that has been replaced."""
    pulls.pull(UNRESPONSIVE)
    unresponsive.next_session().hang_up()
    pulls.pull(UNRESPONSIVE, 2)
    assert pulls.reported == ["CONNECTION_LOST"] * 3


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    def refuse(address: str, _timeout_ms: int) -> Stream:
        raise TransportError("CONNECT_FAILED", address=address, reason="refused")

    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        PullConnections(TIMEOUT_MS, connect=refuse).get_or_open(BrokerAddress(A))


@pytest.mark.parametrize(
    ("garbage", "condition"),
    [
        (b"\0\0\0\1", "MALFORMED_FRAME"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "FRAME_TOO_LARGE"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04oops", "MALFORMED_FRAME"),
    ],
)
def test_bytes_that_are_no_frame_end_the_connection_but_not_the_responses_before(
    pulls: Pulls, unresponsive: ScriptedBroker, garbage: bytes, condition: str
) -> None:
    pulls.pull(UNRESPONSIVE, 3)
    session = unresponsive.next_session()
    session.reply(session.next_received(), found())
    session.send_bytes(garbage)
    assert pulls.until_reported(3) == ["here", condition, condition]
    assert session.ended.wait(WAIT_S), "the stream is still open"


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(pulls: Pulls, broker: ScriptedBroker) -> None:
    """Brokers close what has been idle for two minutes; nobody has read since."""
    pulls.pull(A)
    pulls.until_reported(1)
    broker.next_session().hang_up()
    pulls.pull(A)
    assert pulls.until_reported(2) == ["here", "here"]
    assert broker.connect_count == 2


def test_a_server_that_sends_goaway_gets_no_new_pulls_and_its_responses_still_come(
    pulls: Pulls, unresponsive: ScriptedBroker
) -> None:
    pulls.pull(UNRESPONSIVE, 2)
    leaving = unresponsive.next_session()
    leaving.reply(leaving.next_received(), build_response(ResponseCode.GO_AWAY))
    assert pulls.until_reported(1) == ["BROKER_ERROR"]
    pulls.pull(UNRESPONSIVE)
    replacement = unresponsive.next_session()
    replacement.reply(replacement.next_received(), found("from the new one"))
    assert pulls.until_reported(2)[1:] == ["from the new one"]
    leaving.reply(leaving.next_received(), found("late but well"))
    assert pulls.until_reported(3)[2:] == ["late but well"]
    pulls.pull(B)
    assert leaving.ended.wait(WAIT_S), "nobody needs it any more"


# ---------------------------------------------------------------------------------------------- room, and the server


def test_beyond_the_limit_the_longest_idle_connection_is_closed(
    pulls: Pulls, broker: ScriptedBroker, clock: ManualClock
) -> None:
    for count, address in enumerate(("a:1", "b:1", "c:1"), start=1):
        pulls.pull(address)
        pulls.until_reported(count)
        clock.advance(1)
    first, second, third = (broker.next_session() for _ in range(3))
    assert first.ended.wait(WAIT_S)
    assert not (second.ended.is_set() or third.ended.is_set())


def test_long_idle_connections_are_closed_when_another_is_opened(
    pulls: Pulls, broker: ScriptedBroker, clock: ManualClock
) -> None:
    pulls.pull("a:1")
    pulls.until_reported(1)
    clock.advance(100_000)
    pulls.pull("b:1")
    assert broker.next_session().ended.wait(WAIT_S)


def test_a_request_of_the_server_gets_not_supported_because_the_server_waits(
    pulls: Pulls, unresponsive: ScriptedBroker
) -> None:
    pulls.pull(UNRESPONSIVE)
    session = unresponsive.next_session()
    request = session.next_received()
    session.send(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=request.opaque, flag=FLAG_ONEWAY))
    session.send(REQUEST)
    session.reply(request, found())
    assert pulls.until_reported(1) == ["here"]
    reply = session.next_received()
    assert (reply.opaque, reply.code) == (REQUEST.opaque, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert session.received.empty()


def test_a_process_has_one_set_for_one_timeout() -> None:
    assert shared_pull_connections(3000) is shared_pull_connections(3000)
    assert shared_pull_connections(3000) is not shared_pull_connections(4000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_after_a_fork_the_child_opens_its_own_and_the_parents_stays(broker: ScriptedBroker) -> None:
    """Python workers of Spark are forked: two processes that read one socket would take each other's answers."""
    address = broker.listen()
    pulls = Pulls(PullConnections(TIMEOUT_MS))

    def is_answered() -> bool:
        pulls.reported.clear()
        pulls.pull(address)
        return pulls.until_reported(1) == ["here"]

    assert is_answered()
    inherited = pulls.connections._connections[BrokerAddress(address)]
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if is_answered() and not inherited.is_open else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert broker.connect_count == 2
    assert is_answered()
    assert broker.connect_count == 2
    pulls.connections.close()
