"""ConnectionPool over in-memory streams of a scripted server."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.simulated_cluster import OLD_VERSION
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.pool import ConnectionPool, connections_to_close, shared_pool
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.security import Credentials, Secret, Security, Tls
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.signature import sign

ADDRESS = "10.0.0.1:10911"
LONG_MS = 60_000
ECHO = RemotingCommand(RequestCode.GET_MAX_OFFSET)
UNRESPONSIVE = RemotingCommand(RequestCode.PULL_MESSAGE)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.on(ECHO.code, build_response())
        broker.unresponsive_on(UNRESPONSIVE.code)
        yield broker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pool(broker: ScriptedBroker, clock: ManualClock) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(1000, connect=broker.connect, clock=clock, limit=2, idle_ms=1000)
    yield pool
    pool.close()


def test_an_address_has_one_connection(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    assert pool.get(ADDRESS) is pool.get(ADDRESS)
    assert broker.connect_count == 1


def test_a_lost_connection_is_replaced(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    first = pool.get(ADDRESS)
    pending = first.submit(UNRESPONSIVE, LONG_MS)
    broker.next_session().hang_up()
    with pytest.raises(TransportError, match="CONNECTION_LOST"):
        pending.result()
    second = pool.get(ADDRESS)
    assert second is not first
    assert second.request(ECHO, LONG_MS).code == 0


def test_it_reports_which_connection_the_next_request_goes_by(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    assert pool.connection_number(ADDRESS) == 1
    for _ in range(2):
        pool.get(ADDRESS)
    assert pool.connection_number(ADDRESS) == 1
    pool.retire(pool.get(ADDRESS))
    assert pool.connection_number(ADDRESS) == 2
    pool.get(ADDRESS)
    assert pool.connection_number(ADDRESS) == 2
    pool.get(ADDRESS).close()
    assert pool.connection_number(ADDRESS) == 3


def test_it_reports_which_version_has_responded(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    """Of an old server none is known before it has answered, and none after it has gone."""
    broker.on(ECHO.code, replace(build_response(), version=OLD_VERSION))
    assert pool.server_version(ADDRESS) == 0
    connection = pool.get(ADDRESS)
    assert pool.server_version(ADDRESS) == 0
    connection.request(ECHO, LONG_MS)
    assert pool.server_version(ADDRESS) == OLD_VERSION
    pool.retire(connection)
    assert pool.server_version(ADDRESS) == 0


def test_threads_that_want_one_address_at_once_open_one_connection(broker: ScriptedBroker) -> None:
    may_connect, waiting = threading.Event(), threading.Barrier(4)

    def connect(address: str, timeout_ms: int) -> Stream:
        may_connect.wait()
        return broker.connect(address, timeout_ms)

    pool = ConnectionPool(LONG_MS, connect=connect)
    got: list[object] = []

    def get() -> None:
        waiting.wait()
        got.append(pool.get(ADDRESS))

    threads = [threading.Thread(target=get) for _ in range(3)]
    for thread in threads:
        thread.start()
    waiting.wait()
    may_connect.set()
    for thread in threads:
        thread.join()
    pool.close()
    assert len(got) == 3
    assert len(set(map(id, got))) == 1
    assert broker.connect_count == 1


def test_an_address_that_does_not_respond_delays_no_other(broker: ScriptedBroker) -> None:
    connecting, may_fail = threading.Event(), threading.Event()

    def connect(address: str, timeout_ms: int) -> Stream:
        if address == "dead:1":
            connecting.set()
            may_fail.wait()
            raise TransportError("CONNECT_FAILED", address=address, reason="no answer")
        return broker.connect(address, timeout_ms)

    pool = ConnectionPool(20, connect=connect)
    failures: list[TransportError] = []

    def get_dead() -> None:
        try:
            pool.get("dead:1")
        except TransportError as error:
            failures.append(error)

    thread = threading.Thread(target=get_dead)
    thread.start()
    connecting.wait()
    assert pool.get(ADDRESS).request(ECHO, LONG_MS).code == 0
    get_dead()  # and whoever waits for the dead one waits no longer than connecting may last
    may_fail.set()
    thread.join()
    pool.close()
    assert ["another thread has been connecting" in str(error) for error in failures] == [True, False]


def test_a_failed_connect_is_tried_again_by_the_next_get(broker: ScriptedBroker) -> None:
    failures = [TransportError("CONNECT_FAILED", address=ADDRESS, reason="refused")]

    def connect(address: str, timeout_ms: int) -> Stream:
        if failures:
            raise failures.pop()
        return broker.connect(address, timeout_ms)

    pool = ConnectionPool(1000, connect=connect)
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        pool.get(ADDRESS)
    assert pool.get(ADDRESS).is_open
    pool.close()


def test_beyond_the_limit_the_longest_idle_connection_is_closed(pool: ConnectionPool, clock: ManualClock) -> None:
    first = pool.get("a:1")
    clock.advance(1)
    second = pool.get("b:1")
    clock.advance(1)
    first.request(ECHO, LONG_MS)
    third = pool.get("c:1")
    assert [first.is_open, second.is_open, third.is_open] == [True, False, True]


def test_without_a_limit_every_address_keeps_its_connection(broker: ScriptedBroker, clock: ManualClock) -> None:
    """A member heartbeats to all of them in one order: with a limit below their number, each round opened all again."""
    addresses = [f"10.0.0.{number}:10911" for number in range(100)]
    pool = ConnectionPool(1000, connect=broker.connect, clock=clock, limit=None)
    try:
        for _ in range(3):
            for address in addresses:
                pool.get(address).request(ECHO, LONG_MS)
            clock.advance(30_000)
        assert broker.connect_count == len(addresses)
    finally:
        pool.close()


def test_a_connection_that_awaits_a_response_is_never_closed_for_space(
    pool: ConnectionPool, clock: ManualClock
) -> None:
    connections = [pool.get(f"{name}:1") for name in "abc"]
    for connection in connections:
        if connection.is_open:
            connection.submit(UNRESPONSIVE, LONG_MS)
    clock.advance(1)
    pool.get("d:1")
    assert [connection.is_open for connection in connections] == [False, True, True]


def test_long_idle_connections_are_closed_when_another_is_opened(pool: ConnectionPool, clock: ManualClock) -> None:
    idle = pool.get("a:1")
    clock.advance(1000)
    pool.get("b:1")
    assert not idle.is_open


def test_idle_since_time_zero_is_idle(pool: ConnectionPool) -> None:
    connection = pool.get(ADDRESS)
    assert connection.idle_since_ms == 0
    assert connections_to_close([connection], 1, 0) == [connection]


def test_a_retired_connection_still_gets_its_responses_and_a_new_one_is_opened(
    pool: ConnectionPool, broker: ScriptedBroker
) -> None:
    leaving = pool.get(ADDRESS)
    pending = leaving.submit(UNRESPONSIVE, LONG_MS)
    session = broker.next_session()
    pool.retire(leaving)
    assert pool.get(ADDRESS) is not leaving
    session.reply(session.next_received(), build_response(remark="late but well"))
    assert pending.result().remark == "late but well"
    pool.get("b:1")
    assert not leaving.is_open


def test_retiring_what_was_replaced_already_leaves_the_replacement_alone(pool: ConnectionPool) -> None:
    leaving = pool.get(ADDRESS)
    pool.retire(leaving)
    replacement = pool.get(ADDRESS)
    pool.retire(leaving)
    assert pool.get(ADDRESS) is replacement


def test_a_closed_pool_closes_its_connections_and_opens_none(pool: ConnectionPool, broker: ScriptedBroker) -> None:
    connection, retired = pool.get(ADDRESS), pool.get("b:1")
    retired.submit(UNRESPONSIVE, LONG_MS)
    pool.retire(retired)
    pool.close()
    assert not connection.is_open
    assert not retired.is_open
    with pytest.raises(TransportError, match=r"CONNECT_FAILED.*stopped"):
        pool.get(ADDRESS)
    assert broker.connect_count == 2


def test_pool_closed_while_connecting_closes_the_new_connection(broker: ScriptedBroker) -> None:
    streams: list[Stream] = []

    def connect(address: str, timeout_ms: int) -> Stream:
        subject.close()
        streams.append(broker.connect(address, timeout_ms))
        return streams[0]

    subject = ConnectionPool(1000, connect=connect)
    with pytest.raises(TransportError, match=r"CONNECT_FAILED.*stopped"):
        subject.get(ADDRESS)
    with pytest.raises(TransportError, match="CONNECTION_LOST"):
        streams[0].sendall(b"x", LONG_MS)


def test_the_servers_requests_reach_the_pools_handler(broker: ScriptedBroker) -> None:
    pool = ConnectionPool(1000, lambda _request: build_response(remark="handled"), connect=broker.connect)
    pool.get(ADDRESS)
    session = broker.next_session()
    session.send(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=5))
    assert session.next_received().remark == "handled"
    pool.close()


def test_a_process_has_one_shared_pool_for_one_timeout() -> None:
    assert shared_pool(3000) is shared_pool(3000)
    assert shared_pool(3000) is not shared_pool(4000)


def test_clients_that_are_secured_differently_share_no_pool() -> None:
    mine, other = (Security(Credentials("me", Secret(key))) for key in ("a", "b"))
    assert shared_pool(3000, mine) is shared_pool(3000, Security(Credentials("me", Secret("a"))))
    assert len({shared_pool(3000), shared_pool(3000, mine), shared_pool(3000, other)}) == 3
    assert shared_pool(3000, Security(tls=Tls())) is not shared_pool(3000)


def test_all_requests_of_a_pool_with_credentials_are_signed(broker: ScriptedBroker) -> None:
    credentials = Credentials("me", Secret("key"))
    pool = ConnectionPool(1000, security=Security(credentials), connect=broker.connect)
    request = RemotingCommand(RequestCode.HEART_BEAT, fields={"a": "b"}, body=b"beat")
    pool.get(ADDRESS).request(request, LONG_MS)
    assert broker.next_session().next_received().fields == sign(request, credentials).fields
    pool.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_after_a_fork_the_child_opens_its_own_and_the_parents_stays(broker: ScriptedBroker) -> None:
    """Python workers of Spark are forked: two processes that read one socket would take each other's answers."""
    address, pool = broker.listen(), ConnectionPool(1000)
    inherited = pool.get(address)
    child = os.fork()
    if child == 0:
        fresh = pool.get(address)
        works = fresh is not inherited and not inherited.is_open and fresh.request(ECHO, LONG_MS).code == 0
        os._exit(0 if works else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert pool.get(address) is inherited
    assert inherited.request(ECHO, LONG_MS).code == 0
    pool.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_was_forked_while_the_parent_connected_is_not_locked_out(broker: ScriptedBroker) -> None:
    connecting, may_connect = threading.Event(), threading.Event()

    def connect(address: str, timeout_ms: int) -> Stream:
        connecting.set()
        may_connect.wait()
        return broker.connect(address, timeout_ms)

    pool = ConnectionPool(LONG_MS, connect=connect)
    opener = threading.Thread(target=pool.get, args=(ADDRESS,))
    opener.start()
    connecting.wait()
    pool._table.acquire()  # as if a third thread were just looking an address up
    child = os.fork()
    if child == 0:
        signal.alarm(int(WAIT_S))  # ends the child if it is locked out
        may_connect.set()
        os._exit(0 if pool.get(ADDRESS).is_open else 1)
    pool._table.release()
    may_connect.set()
    opener.join()
    _, status = os.waitpid(child, 0)
    pool.close()
    assert os.waitstatus_to_exitcode(status) == 0
