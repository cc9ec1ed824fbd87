"""Connection against a scripted server over in-memory streams."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, Session, build_response
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.remoting import connection as connection_module
from rocketmq_spark.remoting.connection import Connection, PendingResponse
from rocketmq_spark.remoting.correlation import MAX_OPAQUE, UNRESPONSIVE_LIMIT_MS, opaques
from rocketmq_spark.remoting.memory import MemoryStream, memory_pair
from rocketmq_spark.remoting.stream import Buffer
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_ONEWAY, RemotingCommand

ADDRESS = "10.0.0.1:10911"
LONG_MS = 60_000
ECHO = RequestCode.GET_MAX_OFFSET
UNRESPONSIVE = RequestCode.PULL_MESSAGE
NOTICE = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=FLAG_ONEWAY)
REQUEST = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=1)


def echo(number: int) -> RemotingCommand:
    return RemotingCommand(ECHO, fields={"number": str(number)})


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.on(ECHO, lambda request: build_response(fields=request.fields, body=bytes(request.body)))
        broker.unresponsive_on(UNRESPONSIVE)
        yield broker


@pytest.fixture
def connection(broker: ScriptedBroker) -> Iterator[Connection]:
    connection = Connection(ADDRESS, broker.connect(ADDRESS, 0))
    yield connection
    connection.close()


@pytest.fixture
def session(broker: ScriptedBroker, connection: Connection) -> Session:
    return broker.next_session()


class Calls:
    """A callback that counts, and can be waited for."""

    def __init__(self) -> None:
        self.pendings: list[PendingResponse] = []
        self.called = threading.Event()

    def __call__(self, pending: PendingResponse) -> None:
        self.pendings.append(pending)
        self.called.set()


def failure_of(pending: PendingResponse) -> RocketMQError:
    with pytest.raises(RocketMQError) as raised:
        pending.result()
    return raised.value


# ------------------------------------------------------------------------------------------------------ answers


def test_numbers_begin_again_where_javas_end(broker: ScriptedBroker) -> None:
    """A number is an int there. A connection to a busy broker gets so far within months."""
    connection = Connection(ADDRESS, broker.connect(ADDRESS, 0))
    connection._opaques = opaques(MAX_OPAQUE - 1)
    try:
        responses = [connection.request(echo(number), LONG_MS) for number in range(4)]
    finally:
        connection.close()
    assert [one.fields["number"] for one in responses] == ["0", "1", "2", "3"]
    received = broker.next_session().received
    assert [received.get_nowait().opaque for _ in range(4)] == [MAX_OPAQUE - 1, MAX_OPAQUE, 0, 1]


def test_a_response_comes_back_with_code_fields_and_body(connection: Connection) -> None:
    reply = connection.request(RemotingCommand(ECHO, fields={"topic": "T"}, body=b"body"), LONG_MS)
    assert (reply.code, dict(reply.fields), bytes(reply.body)) == (0, {"topic": "T"}, b"body")


def test_an_error_code_is_a_response_too(connection: Connection) -> None:
    assert connection.request(RemotingCommand(9999), LONG_MS).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_responses_out_of_order_reach_the_requests_they_belong_to(connection: Connection, session: Session) -> None:
    pendings = [connection.submit(RemotingCommand(UNRESPONSIVE, body=bytes([n])), LONG_MS) for n in range(3)]
    requests = [session.next_received() for _ in pendings]
    for request in reversed(requests):
        session.reply(request, build_response(body=bytes(request.body)))
    assert [bytes(pending.result().body) for pending in pendings] == [b"\x00", b"\x01", b"\x02"]


def test_many_requests_are_in_flight_at_once_from_many_threads(connection: Connection) -> None:
    results: dict[int, str] = {}

    def call(first: int) -> None:
        pendings = {number: connection.submit(echo(number), LONG_MS) for number in range(first, first + 200)}
        results.update({number: pending.result().fields["number"] for number, pending in pendings.items()})

    threads = [threading.Thread(target=call, args=(first,)) for first in range(0, 1000, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: str(number) for number in range(1000)}


def test_a_result_can_be_requested_again(connection: Connection) -> None:
    pending = connection.submit(echo(1), LONG_MS)
    assert pending.result() is pending.result()


def test_a_callback_is_called_once_when_the_result_is_there(connection: Connection) -> None:
    calls = Calls()
    pending = connection.submit(echo(7), LONG_MS, calls)
    assert calls.called.wait(WAIT_S)
    assert calls.pendings == [pending]
    assert calls.pendings[0].result().fields["number"] == "7"


# ------------------------------------------------------------------------------------------- no answer in time


def test_a_server_that_accepts_and_never_responds_is_a_timeout_that_names_it(connection: Connection) -> None:
    with pytest.raises(
        TransportError, match=rf"RESPONSE_TIMED_OUT.*{ADDRESS} did not respond to PULL_MESSAGE within 20 ms"
    ):
        connection.request(RemotingCommand(UNRESPONSIVE), 20)
    assert connection.is_open


def test_a_late_response_is_dropped_and_the_next_request_gets_its_own(connection: Connection, session: Session) -> None:
    with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
        connection.request(RemotingCommand(UNRESPONSIVE), 1)
    session.reply(session.next_received(), build_response(fields={"number": "late"}))
    assert connection.request(echo(2), LONG_MS).fields["number"] == "2"


def test_a_callback_learns_of_a_timeout_without_a_waiting_caller(connection: Connection) -> None:
    calls = Calls()
    connection.submit(RemotingCommand(UNRESPONSIVE), 1, calls)
    assert calls.called.wait(WAIT_S)
    assert failure_of(calls.pendings[0]).condition == "RESPONSE_TIMED_OUT"
    assert connection.idle_since_ms is not None


def test_a_waiter_gives_up_in_time_even_while_the_reader_is_busy(connection: Connection) -> None:
    busy, free = threading.Event(), threading.Event()

    def work(_pending: PendingResponse) -> None:
        busy.set()
        free.wait()

    connection.submit(echo(1), LONG_MS, work)
    busy.wait()
    with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
        connection.request(RemotingCommand(UNRESPONSIVE), 1)
    free.set()


def test_one_slow_request_does_not_time_out_the_others(connection: Connection, session: Session) -> None:
    slow = connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
        connection.request(RemotingCommand(UNRESPONSIVE), 1)
    session.reply(session.next_received(), build_response(remark="slow"))
    assert slow.result().remark == "slow"


def test_a_server_that_has_been_unresponsive_for_long_times_out(broker: ScriptedBroker) -> None:
    """A host that vanished without a word leaves a connection that looks open for many minutes."""
    clock = ManualClock()
    connection = Connection(ADDRESS, broker.connect(ADDRESS, 0), clock=clock)
    pending = connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    clock.advance(max(LONG_MS, UNRESPONSIVE_LIMIT_MS))
    assert failure_of(pending).condition == "RESPONSE_TIMED_OUT"
    assert not connection.is_open
    connection.close()


def test_a_server_that_responded_lately_is_only_slow(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    connection = Connection(ADDRESS, broker.connect(ADDRESS, 0), clock=clock)
    slow = connection.submit(RemotingCommand(UNRESPONSIVE), 2 * UNRESPONSIVE_LIMIT_MS - 1)
    clock.advance(UNRESPONSIVE_LIMIT_MS)
    connection.request(echo(1), LONG_MS)
    clock.advance(UNRESPONSIVE_LIMIT_MS - 1)
    assert failure_of(slow).condition == "RESPONSE_TIMED_OUT"
    assert connection.is_open
    connection.close()


# ------------------------------------------------------------------------------------------------------- losses


def test_when_the_server_closes_everything_in_flight_fails_and_nothing_new_starts(
    connection: Connection, session: Session
) -> None:
    calls = Calls()
    pendings = [connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS) for _ in range(3)]
    connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS, calls)
    session.hang_up()
    assert {failure_of(pending).condition for pending in pendings} == {"CONNECTION_LOST"}
    assert calls.called.wait(WAIT_S)
    assert not connection.is_open
    with pytest.raises(TransportError, match=f"CONNECTION_LOST.*{ADDRESS}"):
        connection.submit(echo(1), LONG_MS)


@pytest.mark.parametrize(
    ("garbage", "condition"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "FRAME_TOO_LARGE"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04oops", "MALFORMED_FRAME"),
    ],
)
def test_bytes_that_are_no_frame_end_the_connection_with_what_was_wrong_and_where(
    connection: Connection, session: Session, garbage: bytes, condition: str
) -> None:
    pending = connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    session.send_bytes(garbage)
    failure = failure_of(pending)
    assert isinstance(failure, RemoteProtocolError)
    assert failure.condition == condition
    assert ADDRESS in str(failure)
    assert not connection.is_open


def test_closing_fails_what_is_in_flight_and_may_be_repeated(connection: Connection) -> None:
    pending = connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    connection.close()
    connection.close()
    assert "closed on this side" in str(failure_of(pending))


def test_closing_ends_the_reader_thread(connection: Connection) -> None:
    reader = next(thread for thread in threading.enumerate() if thread.name == f"rocketmq-reader-{ADDRESS}")
    connection.close()
    assert not reader.is_alive()


def test_a_callback_may_close_its_connection(connection: Connection) -> None:
    closed = threading.Event()

    def close(_pending: PendingResponse) -> None:
        connection.close()
        closed.set()

    connection.submit(echo(1), LONG_MS, close)
    assert closed.wait(WAIT_S)


def test_a_remote_end_that_stopped_reading_blocks_no_sender_for_ever() -> None:
    ours, _theirs = memory_pair(ADDRESS, capacity_bytes=64)
    connection = Connection(ADDRESS, ours)
    with pytest.raises(TransportError, match=r"CONNECTION_LOST.*accepted no data"):
        connection.request(RemotingCommand(UNRESPONSIVE, body=bytes(1000)), 20)
    assert not connection.is_open
    connection.close()


class StuckStream(MemoryStream):
    """Takes nothing until ``freed``, and is broken then."""

    def __init__(self) -> None:
        ours, _theirs = memory_pair(ADDRESS)
        super().__init__(ADDRESS, ours._incoming, ours._outgoing)
        self.is_sending = threading.Event()
        self.freed = threading.Event()

    def sendall(self, _data: Buffer, _timeout_ms: int) -> None:
        self.is_sending.set()
        self.freed.wait()
        raise TransportError("CONNECTION_LOST", address=ADDRESS, reason="stuck")


def test_a_sender_waits_for_another_that_is_stuck_no_longer_than_its_own_timeout() -> None:
    stream = StuckStream()
    connection = Connection(ADDRESS, stream)

    def send_first() -> None:
        with pytest.raises(TransportError, match="stuck"):
            connection.request(echo(1), LONG_MS)

    first = threading.Thread(target=send_first)
    first.start()
    stream.is_sending.wait()
    with pytest.raises(TransportError, match=r"CONNECTION_LOST.*accepted no data for 20 ms"):
        connection.request(echo(2), 20)
    stream.freed.set()
    first.join()
    connection.close()


class CountedClock(ManualClock):
    """States how often each thread has asked it."""

    def __init__(self) -> None:
        super().__init__()
        self.readings: Counter[str] = Counter()

    def __call__(self) -> int:
        now_ms = super().__call__()
        self.readings[threading.current_thread().name] += 1
        return now_ms


class HeldUpStream(MemoryStream):
    """Its first sender is held up until ``freed``, for ``held_up_ms`` of its clock. Notes the time that each has."""

    def __init__(self, held_up_ms: int = 0) -> None:
        ours, self.theirs = memory_pair(ADDRESS)
        super().__init__(ADDRESS, ours._incoming, ours._outgoing)
        self.clock = CountedClock()
        self.held_up_ms = held_up_ms
        self.timeouts_ms: list[int] = []
        self.is_sending = threading.Event()
        self.freed = threading.Event()

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        self.timeouts_ms.append(timeout_ms)
        if len(self.timeouts_ms) == 1:
            self.is_sending.set()
            self.freed.wait()
            self.clock.advance(self.held_up_ms)
        super().sendall(data, timeout_ms)


def test_waiting_for_another_sender_is_part_of_the_time_that_a_sender_has() -> None:
    stream = HeldUpStream(held_up_ms=400)
    connection = Connection(ADDRESS, stream, clock=stream.clock)
    senders = [threading.Thread(target=connection.submit, args=(echo(1), LONG_MS), name=name) for name in "ab"]
    senders[0].start()
    stream.is_sending.wait()
    senders[1].start()
    eventually(lambda: stream.clock.readings["b"] == 2, "the second knows its deadline")
    stream.freed.set()
    for sender in senders:
        sender.join()
    connection.close()
    assert stream.timeouts_ms == [LONG_MS, LONG_MS - 400]


def test_a_stuck_sender_holds_up_the_reader_no_longer_than_a_response_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "RESPONSE_TIMEOUT_MS", 20)
    stream = HeldUpStream()
    connection = Connection(ADDRESS, stream, clock=stream.clock)

    def send_first() -> None:
        with pytest.raises(TransportError, match="the stream has ended"):
            connection.request(echo(1), LONG_MS)

    stuck = threading.Thread(target=send_first)
    stuck.start()
    stream.is_sending.wait()
    stream.theirs.sendall(REQUEST.frame(1), LONG_MS)
    eventually(lambda: stream._outgoing._ended, "the reader gives up")
    assert not connection.is_open
    stream.freed.set()
    stuck.join()
    with pytest.raises(TransportError, match="accepted no data for 20 ms"):
        connection.request(echo(2), LONG_MS)
    connection.close()


def test_what_was_reported_to_the_callback_while_it_was_sent_is_not_raised_as_well() -> None:
    stream, calls = StuckStream(), Calls()

    def reported(pending: PendingResponse) -> None:
        calls(pending)
        stream.freed.set()

    connection = Connection(ADDRESS, stream)
    pending = connection.submit(RemotingCommand(UNRESPONSIVE), 1, reported)
    assert calls.pendings == [pending]
    assert failure_of(pending).condition == "RESPONSE_TIMED_OUT"
    connection.close()


def test_an_error_in_a_callback_is_not_swallowed_but_ends_the_connection(connection: Connection) -> None:
    def fail(_pending: PendingResponse) -> None:
        raise ZeroDivisionError

    other = connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    connection.submit(echo(1), LONG_MS, fail)
    assert "ZeroDivisionError" in str(failure_of(other))


def test_each_waiter_gets_an_error_of_its_own(connection: Connection, session: Session) -> None:
    pendings = [connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS) for _ in range(2)]
    session.hang_up()
    first, second = (failure_of(pending) for pending in pendings)
    assert first is not second
    assert first.__cause__ is second.__cause__


# ------------------------------------------------------------------------------------- requests of the server


Connected = Callable[[Callable[[RemotingCommand], RemotingCommand | None]], Session]


@pytest.fixture
def connected(broker: ScriptedBroker) -> Iterator[Connected]:
    """Connects with the given ``on_request``; gives the server's side."""
    connections: list[Connection] = []

    def connect(on_request: Callable[[RemotingCommand], RemotingCommand | None]) -> Session:
        connections.append(Connection(ADDRESS, broker.connect(ADDRESS, 0), on_request))
        return broker.next_session()

    yield connect
    for connection in connections:
        connection.close()


def test_a_request_of_the_server_is_no_response_even_with_the_number_of_one(
    connection: Connection, session: Session
) -> None:
    pending = connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    request = session.next_received()
    session.send(RemotingCommand(NOTICE.code, opaque=request.opaque, flag=FLAG_ONEWAY))
    session.reply(request, build_response(remark="the answer"))
    assert pending.result().remark == "the answer"


def test_a_request_of_the_server_gets_a_response_with_its_number(connected: Connected) -> None:
    session = connected(lambda _request: build_response(body=b"running"))
    session.send(REQUEST)
    reply = session.next_received()
    assert reply.is_response
    assert (reply.opaque, reply.code, bytes(reply.body)) == (REQUEST.opaque, 0, b"running")


def test_a_request_that_is_not_supported_gets_that_response_because_the_broker_waits(connected: Connected) -> None:
    session = connected(lambda _request: None)
    session.send(REQUEST)
    assert session.next_received().code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_oneway_request_of_the_server_is_received_without_a_response(connected: Connected) -> None:
    received_codes: list[int] = []

    def receive(request: RemotingCommand) -> RemotingCommand:
        received_codes.append(request.code)
        return build_response()

    session = connected(receive)
    session.send(NOTICE)
    session.send(REQUEST)
    assert session.next_received().opaque == REQUEST.opaque
    assert received_codes == [NOTICE.code, REQUEST.code]
    assert session.received.empty()


def test_the_representation_has_address_state_and_load(connection: Connection) -> None:
    assert repr(connection) == f"<Connection {ADDRESS} open, 0 in flight>"
    connection.submit(RemotingCommand(UNRESPONSIVE), LONG_MS)
    assert repr(connection) == f"<Connection {ADDRESS} open, 1 in flight>"
    connection.close()
    assert repr(connection).startswith(f"<Connection {ADDRESS} lost (CONNECTION_LOST)")
