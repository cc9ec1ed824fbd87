"""TcpStream over the loopback interface."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.remoting.tcp import connect_tcp


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def ends(listener: socket.socket) -> Iterator[tuple[Stream, socket.socket]]:
    """(our stream, the server's plain socket)"""
    ours = connect_tcp(address_of(listener), PATIENT_MS)
    theirs, _ = listener.accept()
    with theirs:
        yield ours, theirs
    ours.close()


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_bytes_go_both_ways(ends: tuple[Stream, socket.socket]) -> None:
    ours, theirs = ends
    ours.sendall(b"question", PATIENT_MS)
    assert theirs.recv(99) == b"question"
    theirs.sendall(b"answer")
    assert ours.recv(99, PATIENT_MS) == b"answer"


def test_nothing_in_time_is_none_and_a_closed_remote_end_is_empty(ends: tuple[Stream, socket.socket]) -> None:
    ours, theirs = ends
    assert ours.recv(99, 1) is None
    theirs.close()
    assert ours.recv(99, PATIENT_MS) == b""


def test_bytes_are_received_into_the_memory_that_is_given(ends: tuple[Stream, socket.socket]) -> None:
    stream, peer = ends
    room = memoryview(bytearray(b"......"))
    assert stream.recv_into(room, 1) is None
    peer.sendall(b"abcd")
    assert [stream.recv_into(room[2:], PATIENT_MS), bytes(room)] == [4, b"..abcd"]
    peer.close()
    assert stream.recv_into(room, PATIENT_MS) == 0


def test_small_requests_are_not_held_back_by_nagle(ends: tuple[Stream, socket.socket]) -> None:
    ours, _ = ends
    assert ours._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # type: ignore[attr-defined]  # a TcpStream, behind its port


def test_a_remote_end_that_does_not_read_blocks_a_sender_only_for_its_timeout(
    ends: tuple[Stream, socket.socket],
) -> None:
    ours, _ = ends
    with pytest.raises(TransportError, match=r"CONNECTION_LOST.*accepted no data for 30 ms"):
        ours.sendall(bytes(64 << 20), 30)


def test_a_frame_larger_than_all_buffers_arrives_whole(ends: tuple[Stream, socket.socket]) -> None:
    ours, theirs = ends
    data = bytes(range(256)) * (32 << 10)
    sender = threading.Thread(target=ours.sendall, args=(data, 30_000))
    sender.start()
    received = bytearray()
    while len(received) < len(data):
        received += theirs.recv(1 << 20)
    sender.join()
    assert received == data


def test_shutdown_wakes_a_receiver_and_may_be_repeated(ends: tuple[Stream, socket.socket]) -> None:
    ours, _ = ends
    received: list[bytes | None] = []
    receiver = threading.Thread(target=lambda: received.append(ours.recv(1, 60_000)))
    receiver.start()
    ours.shutdown()
    ours.shutdown()
    receiver.join()
    assert received == [b""]


def test_a_reset_is_a_lost_connection_that_names_the_address(
    ends: tuple[Stream, socket.socket], listener: socket.socket
) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    theirs.close()
    with pytest.raises(TransportError, match=f"CONNECTION_LOST.*{address_of(listener)}.*reset"):
        ours.recv(1, PATIENT_MS)


def test_a_closed_port_is_a_failed_connect(listener: socket.socket) -> None:
    address = address_of(listener)
    listener.close()
    with pytest.raises(TransportError, match=f"CONNECT_FAILED.*{address}.*refused"):
        connect_tcp(address, PATIENT_MS)


@pytest.mark.parametrize("address", ["null", "", ":1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", ".example.:1"])
def test_an_address_that_is_none_is_a_failed_connect(address: str) -> None:
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        connect_tcp(address, PATIENT_MS)


def test_ipv6_literals_connect() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        listening = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 loopback address")
    with listening:
        stream = connect_tcp(f"[::1]:{listening.getsockname()[1]}", PATIENT_MS)
        stream.close()
