"""A server by its address: values, refusals, and one that is going away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.remoting_client import RemotingClient, Rpc, decode_nothing
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

CALLED = RequestCode.GET_MAX_OFFSET


def remark_of(one: RemotingCommand) -> str:
    return one.remark or ""


def damaged(_response: RemotingCommand) -> str:
    raise RemoteProtocolError("MALFORMED_RESPONSE.BODY", subject="body", problem="it is empty")


REQUEST = Rpc(RemotingCommand(CALLED), remark_of)


@pytest.fixture
def server() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as server:
        server.on(CALLED, build_response(remark="here"))
        yield server


@pytest.fixture
def peer(server: ScriptedBroker) -> Iterator[RemotingClient]:
    pool = ConnectionPool(REQUEST_TIMEOUT_MS, connect=server.connect)
    yield RemotingClient(BrokerAddress("a:1"), pool, REQUEST_TIMEOUT_MS)
    pool.close()


def test_a_response_is_read(peer: RemotingClient) -> None:
    assert peer.call(REQUEST) == "here"
    peer.call(Rpc(RemotingCommand(CALLED), decode_nothing))


def test_many_are_called_before_the_first_response_is_waited_for(peer: RemotingClient) -> None:
    assert [future.result() for future in [peer.submit(REQUEST) for _ in range(3)]] == ["here"] * 3


def test_a_refusal_names_server_request_and_code(server: ScriptedBroker, peer: RemotingClient) -> None:
    server.on(CALLED, build_response(ResponseCode.SYSTEM_BUSY, remark="later"))
    with pytest.raises(BrokerError, match=r"a:1 returned SYSTEM_BUSY \(2\) for GET_MAX_OFFSET: later"):
        peer.call(REQUEST)


def test_what_cannot_be_read_is_the_servers_error(peer: RemotingClient) -> None:
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY"):
        peer.call(Rpc(RemotingCommand(CALLED), damaged))


def test_a_server_that_sends_goaway_is_called_once_more_over_another_connection(
    server: ScriptedBroker, peer: RemotingClient
) -> None:
    responses = iter([build_response(ResponseCode.GO_AWAY), build_response(remark="the next")])
    server.on(CALLED, lambda _request: next(responses))
    assert peer.call(REQUEST) == "the next"
    assert server.connect_count == 2


def test_one_that_sends_goaway_for_ever_refuses(server: ScriptedBroker, peer: RemotingClient) -> None:
    server.on(CALLED, build_response(ResponseCode.GO_AWAY))
    with pytest.raises(BrokerError, match="GO_AWAY"):
        peer.call(REQUEST)


@pytest.mark.parametrize(
    ("code", "reported"), [(ResponseCode.SUCCESS, "here"), (ResponseCode.SYSTEM_BUSY, "BROKER_ERROR")]
)
def test_a_callback_is_handed_the_value_or_what_went_wrong(
    server: ScriptedBroker, peer: RemotingClient, code: int, reported: str
) -> None:
    server.on(CALLED, build_response(code, remark="here"))
    received: list[str | RocketMQError] = []
    peer.call_async(REQUEST, received.append)
    peer._pool.get("a:1").request(RemotingCommand(31_999), REQUEST_TIMEOUT_MS)  # whose answer comes after it
    assert [one.condition if isinstance(one, RocketMQError) else one for one in received] == [reported]


def test_a_callback_is_handed_that_nothing_could_be_sent(peer: RemotingClient) -> None:
    peer._pool.close()
    received: list[str | RocketMQError] = []
    peer.call_async(REQUEST, received.append)
    assert [type(one).__name__ for one in received] == ["TransportError"]
