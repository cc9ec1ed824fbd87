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

    def answers(self, count: int) -> list[RemotingCommand]:
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

    def is_silent(self) -> bool:
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


def question(opaque: int, code: int = KNOWN, flag: int = 0) -> bytes:
    return encode(RemotingCommand(code, opaque=opaque, flag=flag))


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def test_an_answer_has_the_number_of_its_request_and_says_that_it_is_one(client: Client) -> None:
    client.send(question(77))
    (told,) = client.answers(1)
    assert (told.opaque, told.flag & FLAG_RESPONSE, told.code) == (77, FLAG_RESPONSE, ResponseCode.SUCCESS)


def test_what_nobody_knows_is_said_to_be_not_supported_and_the_connection_goes_on(client: Client) -> None:
    client.send(question(1, UNKNOWN))
    (told,) = client.answers(1)
    assert told.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert f"request type {UNKNOWN} not supported" in (told.remark or "")
    client.send(question(2))
    assert [told.code for told in client.answers(1)] == [ResponseCode.SUCCESS]


@pytest.mark.parametrize("cut", [lambda data: [data], one_by_one], ids=["at once", "byte by byte"])
def test_requests_may_come_in_any_pieces(client: Client, cut: Callable[[bytes], list[bytes]]) -> None:
    client.send(*cut(b"".join(question(opaque) for opaque in range(1, 6))))
    assert [told.opaque for told in client.answers(5)] == [1, 2, 3, 4, 5]


def test_who_wants_no_answer_gets_none(client: Client) -> None:
    client.send(question(1, flag=FLAG_ONEWAY), question(2))
    assert [told.opaque for told in client.answers(1)] == [2]
    assert client.is_silent()


def test_an_answer_to_what_was_never_asked_is_not_answered(client: Client) -> None:
    client.send(question(1, flag=FLAG_RESPONSE), question(2))
    assert [told.opaque for told in client.answers(1)] == [2]
    assert client.is_silent()
