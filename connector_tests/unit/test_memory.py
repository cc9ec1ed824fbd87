from __future__ import annotations

import threading

import pytest

from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.memory import memory_pair


def test_bytes_arrive_in_order_and_never_more_than_requested() -> None:
    ours, theirs = memory_pair()
    ours.sendall(b"abcdef", PATIENT_MS)
    ours.sendall(b"gh", PATIENT_MS)
    assert [theirs.recv(4, 0), theirs.recv(4, 0), theirs.recv(4, 0)] == [b"abcd", b"ef", b"gh"]


def test_the_two_directions_are_apart() -> None:
    ours, theirs = memory_pair()
    ours.sendall(b"there", PATIENT_MS)
    theirs.sendall(b"back", PATIENT_MS)
    assert (theirs.recv(99, 0), ours.recv(99, 0)) == (b"there", b"back")


def test_nothing_in_time_is_none_and_an_ended_stream_is_empty() -> None:
    ours, theirs = memory_pair()
    assert ours.recv(10, 1) is None
    theirs.shutdown()
    assert ours.recv(10, 60_000) == b""


def test_what_was_sent_before_the_end_can_still_be_received() -> None:
    ours, theirs = memory_pair()
    theirs.sendall(b"last words", PATIENT_MS)
    theirs.shutdown()
    assert [ours.recv(99, 0), ours.recv(99, 0)] == [b"last words", b""]


def test_sending_after_the_end_is_a_lost_connection_that_names_the_address() -> None:
    ours, theirs = memory_pair("10.0.0.1:10911")
    theirs.shutdown()
    with pytest.raises(TransportError, match=r"CONNECTION_LOST.*10\.0\.0\.1:10911"):
        ours.sendall(b"x", PATIENT_MS)


def test_a_remote_end_that_takes_nothing_blocks_a_sender_only_for_its_timeout() -> None:
    ours, theirs = memory_pair(capacity_bytes=3)
    with pytest.raises(TransportError, match="accepted no data for 20 ms"):
        ours.sendall(b"abcd", 20)
    assert theirs.recv(99, 0) == b"abc"


def test_a_sender_continues_as_the_remote_end_makes_space() -> None:
    ours, theirs = memory_pair(capacity_bytes=2)
    sender = threading.Thread(target=ours.sendall, args=(b"abcdef", 10_000))
    sender.start()
    received = b"".join(theirs.recv(2, PATIENT_MS) or b"?" for _ in range(3))
    sender.join()
    assert received == b"abcdef"


def test_shutdown_wakes_a_receiver_on_the_same_side() -> None:
    ours, _theirs = memory_pair()
    received: list[bytes | None] = []
    receiver = threading.Thread(target=lambda: received.append(ours.recv(1, 60_000)))
    receiver.start()
    ours.shutdown()
    receiver.join()
    assert received == [b""]


def test_bytes_are_received_into_the_memory_that_is_given() -> None:
    ours, theirs = memory_pair()
    room = memoryview(bytearray(b"......"))
    assert ours.recv_into(room, 1) is None
    theirs.sendall(b"abcdef", PATIENT_MS)
    theirs.shutdown()
    assert [ours.recv_into(room[2:], 0), bytes(room)] == [4, b"..abcd"]
    assert [ours.recv_into(room, 0), bytes(room)] == [2, b"ef" + b"abcd"]
    assert ours.recv_into(room, 60_000) == 0
