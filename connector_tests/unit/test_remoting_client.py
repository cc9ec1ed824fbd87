"""A server by its address: values, refusals, and one that is going away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.remoting_client import RemotingClient, Rpc, decode_nothing
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

TIMEOUT_MS = 10_000
ASKED = RequestCode.GET_MAX_OFFSET


def remark_of(one: RemotingCommand) -> str:
    return one.remark or ""


def damaged(_answer: RemotingCommand) -> str:
    raise RemoteProtocolError("MALFORMED_RESPONSE.BODY", subject="body", problem="it is empty")


QUESTION = Rpc(RemotingCommand(ASKED), remark_of)


@pytest.fixture
def server() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as server:
        server.on(ASKED, build_response(remark="here"))
        yield server


@pytest.fixture
def peer(server: ScriptedBroker) -> Iterator[RemotingClient]:
    pool = ConnectionPool(TIMEOUT_MS, connect=server.connect)
    yield RemotingClient(BrokerAddress("a:1"), pool, TIMEOUT_MS)
    pool.close()


def test_an_answer_is_read(peer: RemotingClient) -> None:
    assert peer.call(QUESTION) == "here"
    peer.call(Rpc(RemotingCommand(ASKED), decode_nothing))


def test_many_are_asked_before_the_first_answer_is_waited_for(peer: RemotingClient) -> None:
    assert [future.result() for future in [peer.submit(QUESTION) for _ in range(3)]] == ["here"] * 3


def test_a_refusal_names_server_request_and_code(server: ScriptedBroker, peer: RemotingClient) -> None:
    server.on(ASKED, build_response(ResponseCode.SYSTEM_BUSY, remark="later"))
    with pytest.raises(BrokerError, match=r"a:1 returned SYSTEM_BUSY \(2\) for GET_MAX_OFFSET: later"):
        peer.call(QUESTION)


def test_what_cannot_be_read_is_the_servers_error(peer: RemotingClient) -> None:
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY"):
        peer.call(Rpc(RemotingCommand(ASKED), damaged))


def test_a_server_that_is_going_away_is_asked_once_more_over_another_connection(
    server: ScriptedBroker, peer: RemotingClient
) -> None:
    answers = iter([build_response(ResponseCode.GO_AWAY), build_response(remark="the next")])
    server.on(ASKED, lambda _request: next(answers))
    assert peer.call(QUESTION) == "the next"
    assert server.connect_count == 2


def test_one_that_goes_away_for_ever_refuses(server: ScriptedBroker, peer: RemotingClient) -> None:
    server.on(ASKED, build_response(ResponseCode.GO_AWAY))
    with pytest.raises(BrokerError, match="GO_AWAY"):
        peer.call(QUESTION)


@pytest.mark.parametrize(("code", "told"), [(ResponseCode.SUCCESS, "here"), (ResponseCode.SYSTEM_BUSY, "BROKER_ERROR")])
def test_a_callback_is_handed_the_value_or_what_went_wrong(
    server: ScriptedBroker, peer: RemotingClient, code: int, told: str
) -> None:
    server.on(ASKED, build_response(code, remark="here"))
    heard: list[str | RocketMQError] = []
    peer.call_async(QUESTION, heard.append)
    peer._pool.get("a:1").request(RemotingCommand(31_999), TIMEOUT_MS)  # whose answer comes after it
    assert [one.condition if isinstance(one, RocketMQError) else one for one in heard] == [told]


def test_a_callback_is_handed_that_nothing_could_be_sent(peer: RemotingClient) -> None:
    peer._pool.close()
    heard: list[str | RocketMQError] = []
    peer.call_async(QUESTION, heard.append)
    assert [type(one).__name__ for one in heard] == ["TransportError"]
