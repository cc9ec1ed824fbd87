from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from connector_tests.support.traced_memory import least_peak_bytes
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.frame import FrameBuffer

LIMIT_BYTES = 1000
PAYLOADS = st.lists(st.binary(min_size=4, max_size=300), max_size=8)


def chunked(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(edges)]


def drain(buffer: FrameBuffer) -> list[bytes]:
    return [bytes(frame) for frame in iter(buffer.next_frame, None)]


@given(PAYLOADS, st.lists(st.integers(0, 10_000), max_size=40), st.sets(st.integers(0, 40)))
def test_any_chunking_gives_the_same_frames(payloads: list[bytes], cuts: list[int], late: set[int]) -> None:
    """``late``: chunks after which nobody requests frames, so that several wait."""
    stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    buffer = FrameBuffer("peer:1", LIMIT_BYTES)
    frames = []
    for number, chunk in enumerate(chunked(stream, cuts)):
        buffer.feed(chunk)
        if number not in late:
            frames += drain(buffer)
    assert frames + drain(buffer) == payloads
    assert len(buffer) == 0


@given(st.lists(st.binary(max_size=600), max_size=20))
def test_garbage_gives_frames_or_a_protocol_error_and_stays_bounded(chunks: list[bytes]) -> None:
    buffer = FrameBuffer("peer:1", LIMIT_BYTES)
    fed_bytes = given_bytes = 0
    try:
        for chunk in chunks:
            buffer.feed(chunk)
            fed_bytes += len(chunk)
            given_bytes += sum(4 + len(frame) for frame in drain(buffer))
            assert len(buffer) == fed_bytes - given_bytes
            assert len(buffer) < 4 + LIMIT_BYTES
    except RemoteProtocolError as error:
        assert error.condition in {"FRAME_TOO_LARGE", "MALFORMED_FRAME"}


def test_a_frame_in_many_small_chunks_costs_little_more_than_itself() -> None:
    frame_bytes = 200_000

    def feed() -> None:
        buffer = FrameBuffer("peer:1")
        buffer.feed(frame_bytes.to_bytes(4, "big"))
        for number in range(frame_bytes // 10):
            assert buffer.next_frame() is None
            buffer.feed(b"%10d" % number)
        frame = buffer.next_frame()
        assert frame is not None
        assert len(frame) == frame_bytes

    assert least_peak_bytes(feed) < 3 * frame_bytes
