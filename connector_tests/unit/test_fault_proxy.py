"""The proxy of the fault tests must itself do what it states."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from connector_tests.support.fault_proxy import Direction, FaultProxy


@pytest.fixture
def echo() -> Iterator[str]:
    """Address of a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening,), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_echo, args=(listening.accept()[0],), daemon=True).start()


def _echo(accepted: socket.socket) -> None:
    with accepted, suppress(OSError):
        while data := accepted.recv(1 << 16):
            accepted.sendall(data)


@pytest.fixture
def proxy(echo: str) -> Iterator[FaultProxy]:
    with FaultProxy(echo) as proxy:
        yield proxy


def client(proxy: FaultProxy) -> socket.socket:
    host, _, port = proxy.address.rpartition(":")
    connected = socket.create_connection((host, int(port)), 10)
    connected.settimeout(10)
    return connected


def received(connected: socket.socket, byte_count: int) -> bytes:
    data = b""
    while len(data) < byte_count and (chunk := connected.recv(byte_count - len(data))):
        data += chunk
    return data


def until_reset(connected: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while chunk := connected.recv(1 << 16):
            data += chunk
    return data


def test_it_rewrites_nothing_by_itself(proxy: FaultProxy) -> None:
    data = bytes(range(256)) * 64
    with client(proxy) as ours:
        ours.sendall(data)
        assert received(ours, len(data)) == data
    assert proxy.forwarded_bytes[Direction.TO_SERVER] == len(data)


def test_a_client_that_closes_is_seen_closing_by_the_server_and_back(proxy: FaultProxy) -> None:
    with client(proxy) as ours:
        ours.sendall(b"bye")
        ours.shutdown(socket.SHUT_WR)
        assert received(ours, 99) == b"bye"


def test_a_delay_holds_responses_back(proxy: FaultProxy) -> None:
    proxy.delay(60_000)
    with client(proxy) as ours:
        ours.sendall(b"x")
        ours.settimeout(0.05)
        with pytest.raises(TimeoutError):
            ours.recv(1)


def test_a_cut_comes_after_exactly_so_many_bytes(proxy: FaultProxy) -> None:
    proxy.cut_after(3)
    with client(proxy) as ours:
        ours.sendall(b"abcdef")
        assert until_reset(ours) == b"abc"


def test_a_cut_counts_over_chunks_and_connections(proxy: FaultProxy) -> None:
    proxy.cut_after(3)
    with client(proxy) as first, client(proxy) as second:
        first.sendall(b"ab")
        assert received(first, 2) == b"ab"
        second.sendall(b"cdef")
        assert until_reset(second) == b"c"


def test_a_stalled_connection_stays_up_and_continues_later(proxy: FaultProxy) -> None:
    with client(proxy) as ours:
        proxy.stall()
        ours.sendall(b"late")
        ours.settimeout(0.05)
        with pytest.raises(TimeoutError):
            ours.recv(1)
        proxy.pass_through()
        ours.settimeout(10)
        assert received(ours, 4) == b"late"


def test_corruption_inverts_one_byte_and_no_other(proxy: FaultProxy) -> None:
    proxy.corrupt(4)
    with client(proxy) as ours:
        ours.sendall(b"\x00\x00\x00")
        assert received(ours, 3) == b"\x00\x00\x00"
        ours.sendall(b"\x00\x00\x00")
        assert received(ours, 3) == b"\x00\xff\x00"


def test_refusing_resets_open_connections_and_the_port_comes_back(proxy: FaultProxy) -> None:
    address = proxy.address
    with client(proxy) as ours:
        ours.sendall(b"x")
        assert received(ours, 1) == b"x"
        proxy.refuse()
        assert until_reset(ours) == b""
    with pytest.raises(ConnectionRefusedError):
        client(proxy)
    proxy.pass_through()
    assert proxy.address == address
    with client(proxy) as again:
        again.sendall(b"y")
        assert received(again, 1) == b"y"


def test_cutting_now_leaves_new_connections_alone(proxy: FaultProxy) -> None:
    with client(proxy) as ours:
        ours.sendall(b"x")
        assert received(ours, 1) == b"x"
        proxy.cut_now()
        assert until_reset(ours) == b""
    with client(proxy) as again:
        again.sendall(b"y")
        assert received(again, 1) == b"y"
