"""The scripted broker, over which unit tests speak, frames and answers as a real one does.

One suite for both. What it answers is each test's own; what it does without being told is compared here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand, decode, encode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

UNKNOWN = 31_999
KNOWN = 26  # GET_BROKER_CONFIG, which needs no header and which we never ask
TIMEOUT_S = WAIT_S
A_WHILE_S = 0.5


class Client:
    """A socket, and the frames that have come over it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._frames = FrameBuffer("the server")

    def send(self, *data: bytes) -> None:
        for part in data:
            self._socket.sendall(part)

    def responses(self, count: int) -> list[RemotingCommand]:
        """The next so many, by their numbers."""
        found: list[RemotingCommand] = []
        while len(found) < count:
            if (frame := self._frames.next_frame()) is not None:
                found.append(decode(frame))
            else:
                data = self._socket.recv(1 << 16)
                assert data, "the server closed the connection"
                self._frames.feed(data)
        return sorted(found, key=lambda one: one.opaque)

    def is_unresponsive(self) -> bool:
        self._socket.settimeout(A_WHILE_S)
        try:
            return not self._socket.recv(1)
        except TimeoutError:
            return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["scripted", pytest.param("real", marks=pytest.mark.broker)])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.param == "real":
        cluster: EmbeddedCluster = request.getfixturevalue("cluster")
        with closing(Client(cluster.broker_addr())) as client:
            yield client
    else:
        with ScriptedBroker() as broker:
            broker.on(KNOWN, build_response(body=b"{}"))
            with closing(Client(broker.listen())) as client:
                yield client


def server_request(opaque: int, code: int = KNOWN, flag: int = 0) -> bytes:
    return encode(RemotingCommand(code, opaque=opaque, flag=flag))


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def test_a_response_has_the_number_of_its_request_and_reports_that_it_is_one(client: Client) -> None:
    client.send(server_request(77))
    (returned,) = client.responses(1)
    assert (returned.opaque, returned.flag & FLAG_RESPONSE, returned.code) == (77, FLAG_RESPONSE, ResponseCode.SUCCESS)


def test_an_unknown_request_is_reported_as_not_supported_and_the_connection_stays(client: Client) -> None:
    client.send(server_request(1, UNKNOWN))
    (returned,) = client.responses(1)
    assert returned.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert f"request type {UNKNOWN} not supported" in (returned.remark or "")
    client.send(server_request(2))
    assert [returned.code for returned in client.responses(1)] == [ResponseCode.SUCCESS]


@pytest.mark.parametrize("cut", [lambda data: [data], one_by_one], ids=["at once", "byte by byte"])
def test_requests_may_come_in_any_pieces(client: Client, cut: Callable[[bytes], list[bytes]]) -> None:
    client.send(*cut(b"".join(server_request(opaque) for opaque in range(1, 6))))
    assert [returned.opaque for returned in client.responses(5)] == [1, 2, 3, 4, 5]


def test_a_caller_that_wants_no_response_gets_none(client: Client) -> None:
    client.send(server_request(1, flag=FLAG_ONEWAY), server_request(2))
    assert [returned.opaque for returned in client.responses(1)] == [2]
    assert client.is_unresponsive()


def test_a_response_to_what_was_never_requested_gets_no_response(client: Client) -> None:
    client.send(server_request(1, flag=FLAG_RESPONSE), server_request(2))
    assert [returned.opaque for returned in client.responses(1)] == [2]
    assert client.is_unresponsive()
