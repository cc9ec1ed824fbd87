from __future__ import annotations

import pytest

from connector_tests.support.traced_memory import least_peak_bytes
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.frame import DEFAULT_LIMIT_BYTES, FrameBuffer


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def frames_of(buffer: FrameBuffer) -> list[bytes]:
    found = []
    while (frame := buffer.next_frame()) is not None:
        found.append(bytes(frame))
    return found


def test_nothing_fed_is_nothing_found() -> None:
    buffer = FrameBuffer("peer:1")
    buffer.feed(b"")
    assert buffer.next_frame() is None


def test_several_frames_may_come_in_one_chunk() -> None:
    buffer = FrameBuffer("peer:1")
    buffer.feed(framed(b"first") + framed(b"second") + framed(b"third")[:-1])
    assert frames_of(buffer) == [b"first", b"second"]
    buffer.feed(b"d")
    assert frames_of(buffer) == [b"third"]


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_frame_may_be_cut_anywhere(cut: int) -> None:
    stream = framed(b"payload!") + framed(b"next")
    buffer = FrameBuffer("peer:1")
    found = []
    for chunk in (stream[:cut], stream[cut:]):
        buffer.feed(chunk)
        found += frames_of(buffer)
    assert found == [b"payload!", b"next"]
    assert len(buffer) == 0


def test_a_frame_within_one_chunk_is_not_copied() -> None:
    chunk = framed(b"payload")
    buffer = FrameBuffer("peer:1")
    buffer.feed(chunk)
    frame = buffer.next_frame()
    assert frame is not None
    assert frame.obj is chunk


def test_a_frame_once_given_never_changes() -> None:
    buffer = FrameBuffer("peer:1")
    stream = framed(b"payload") + framed(b"another")
    buffer.feed(stream[:6])
    buffer.feed(stream[6:])
    frame = buffer.next_frame()
    assert frame is not None
    assert frame.readonly
    assert frames_of(buffer) == [b"another"]
    assert bytes(frame) == b"payload"


@pytest.mark.parametrize("start", [b"HTTP/1.1 400 Bad Request\r\n", b"\x15\x03\x03\x00\x02\x02\x46", b"\xff" * 8])
def test_another_protocol_is_recognized_at_once(start: bytes) -> None:
    buffer = FrameBuffer("peer:1")
    buffer.feed(start)
    with pytest.raises(RemoteProtocolError, match="peer:1 sent a frame") as caught:
        buffer.next_frame()
    assert caught.value.condition == "FRAME_TOO_LARGE"
    assert caught.value.context == {
        "peer": "peer:1",
        "length_bytes": int.from_bytes(start[:4]),
        "limit_bytes": DEFAULT_LIMIT_BYTES,
    }


def test_what_waits_and_what_is_unfinished_is_held() -> None:
    buffer = FrameBuffer("peer:1")
    buffer.feed(framed(b"payload")[:6])
    assert buffer.next_frame() is None
    buffer.feed(b"123")
    assert len(buffer) == 9


@pytest.mark.parametrize("length", [0, 3])
def test_a_frame_too_short_for_a_header_is_an_error(length: int) -> None:
    buffer = FrameBuffer("peer:1")
    buffer.feed(framed(bytes(length)))
    with pytest.raises(RemoteProtocolError) as caught:
        buffer.next_frame()
    assert caught.value.condition == "MALFORMED_FRAME"
    problem = f"a length of {length}, where a header alone has 4"
    assert caught.value.context == {"peer": "peer:1", "problem": problem}


def test_a_frame_may_be_as_long_as_the_limit() -> None:
    buffer = FrameBuffer("peer:1", limit_bytes=8)
    buffer.feed(framed(b"12345678") + framed(b"123456789"))
    assert bytes(buffer.next_frame() or b"") == b"12345678"
    with pytest.raises(RemoteProtocolError):
        buffer.next_frame()


@pytest.mark.parametrize("cut", [1, 4, 5])
def test_an_error_is_final(cut: int) -> None:
    buffer = FrameBuffer("peer:1", limit_bytes=8)
    stream = framed(b"123456789")
    buffer.feed(stream[:cut])
    with pytest.raises(RemoteProtocolError):
        assert buffer.next_frame() is None
        buffer.feed(stream[cut:] + framed(b"fine"))
        buffer.next_frame()
    with pytest.raises(RemoteProtocolError):
        buffer.next_frame()


def test_what_is_announced_is_not_allocated() -> None:
    def feed() -> None:
        buffer = FrameBuffer("peer:1")
        buffer.feed((200 * 1024 * 1024).to_bytes(4, "big") + b"x")
        assert buffer.next_frame() is None

    assert least_peak_bytes(feed) < 100_000
