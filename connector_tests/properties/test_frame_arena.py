"""Frames that lie where they were received are the ones that ``FrameBuffer`` cuts, and stay as they are."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.frame_arena import (
    ARENA_BYTES,
    MAX_POOLED_ARENAS,
    MIN_WRITABLE_BYTES,
    Arenas,
    FrameArena,
)

LIMIT_BYTES = 8 * ARENA_BYTES
SIZES = st.sampled_from([4, 5, 300, 8_000, 200_000, MIN_WRITABLE_BYTES, ARENA_BYTES, 3 * ARENA_BYTES])

MANY_CHUNKS = 200
"""What comes behind so many comes in large ones: a byte at a time, a large frame would take a minute."""


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def received(arena: FrameArena, data: bytes) -> list[memoryview]:
    """All of ``data``, in as many receives as there is room for."""
    frames: list[memoryview] = []
    while data:
        writable_buffer = arena.writable_buffer()
        count = min(len(writable_buffer), len(data))
        writable_buffer[:count] = data[:count]
        arena.received(count)
        frames += iter(arena.next_frame, None)
        data = data[count:]
    return frames


def cut_by_buffer(chunks: list[bytes]) -> tuple[list[bytes], str | None]:
    """Frames, and the error after them."""
    buffer, frames = FrameBuffer("peer:1", LIMIT_BYTES), []
    for chunk in chunks:
        buffer.feed(chunk)
    try:
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
    except RemoteProtocolError as error:
        return frames, str(error)
    return frames, None


@given(st.lists(SIZES, max_size=12), st.lists(st.integers(1, 2 * ARENA_BYTES), min_size=1, max_size=12), st.data())
def test_frames_are_the_same_however_they_come_and_never_change(
    sizes: list[int], chunk_sizes: list[int], data: st.DataObject
) -> None:
    """``kept``: frames that somebody still has while others come."""
    stream = b"".join(framed(bytes([number]) * size) for number, size in enumerate(sizes))
    arena, kept = FrameArena("peer:1", Arenas(), LIMIT_BYTES), []
    position = step = 0
    seen = 0
    while position < len(stream):
        chunk_bytes = chunk_sizes[step % len(chunk_sizes)] if step < MANY_CHUNKS else ARENA_BYTES
        chunk = stream[position : position + chunk_bytes]
        position, step = position + len(chunk), step + 1
        for frame in received(arena, chunk):
            assert (len(frame), frame[0], frame[-1]) == (sizes[seen], seen, seen)
            if data.draw(st.booleans()):
                kept.append((seen, frame))
            seen += 1
    assert seen == len(sizes)
    assert all(bytes(frame) == bytes([number]) * sizes[number] for number, frame in kept)


@given(st.lists(st.binary(min_size=4, max_size=40)), st.binary(max_size=12), st.integers(1, 50))
def test_what_is_no_frame_fails_as_it_does_in_a_buffer_and_after_the_same_frames(
    payloads: list[bytes], garbage: bytes, chunk_bytes: int
) -> None:
    stream = b"".join(map(framed, payloads)) + garbage
    chunks = [stream[at : at + chunk_bytes] for at in range(0, len(stream), chunk_bytes)]
    arena = FrameArena("peer:1", Arenas(), LIMIT_BYTES)
    frames = [bytes(frame) for chunk in chunks for frame in received(arena, chunk)]
    assert (frames, arena.failure and str(arena.failure)) == cut_by_buffer(chunks)


def test_a_frame_may_be_as_long_as_the_limit_and_no_longer() -> None:
    arena = FrameArena("peer:1", Arenas(), limit_bytes=8)
    assert received(arena, framed(b"12345678")) == [b"12345678"]
    assert arena.failure is None
    assert received(arena, framed(b"123456789")) == []
    assert arena.failure is not None


def test_memory_is_used_again_when_no_caller_has_a_part_of_it() -> None:
    arenas = Arenas()
    first = arenas.reserve(ARENA_BYTES)
    view = memoryview(first)
    part = view[5:6]
    view.release()
    assert arenas.reserve(ARENA_BYTES) is not first
    part.release()
    assert arenas.reserve(ARENA_BYTES) is first
    assert len(first) == ARENA_BYTES


def test_a_long_stream_whose_frames_are_let_go_needs_little_memory() -> None:
    arena, frame = FrameArena("peer:1", Arenas()), framed(bytes(8_000))
    tracemalloc.start()
    for _ in range(50 * ARENA_BYTES // len(frame)):
        received(arena, frame)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 * ARENA_BYTES


def test_an_announced_frame_takes_no_memory_before_it_comes() -> None:
    arena = FrameArena("peer:1", Arenas())
    tracemalloc.start()
    received(arena, (200 * 1024 * 1024).to_bytes(4, "big") + bytes(100))
    arena.writable_buffer()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < ARENA_BYTES


def test_an_unfinished_frame_takes_twice_the_memory_of_what_has_come() -> None:
    """And no more: a third of all that a large frame takes is a copy of it, while it is moved into more room."""
    tracemalloc.start()
    arena = FrameArena("peer:1", Arenas())
    received(arena, (200 * 1024 * 1024).to_bytes(4, "big"))
    for _ in range(56):
        received(arena, bytes(MIN_WRITABLE_BYTES))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 7 * ARENA_BYTES


def test_what_a_large_frame_took_is_let_go_of_before_the_next_receive() -> None:
    """An idle connection kept it for as long as it was open."""
    tracemalloc.start()
    arena = FrameArena("peer:1", Arenas(), LIMIT_BYTES * 4)
    received(arena, framed(bytes(14 * ARENA_BYTES)))
    arena.writable_buffer()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 2 * ARENA_BYTES


def test_no_more_memory_is_kept_than_a_task_needs() -> None:
    arenas = Arenas()
    tracemalloc.start()
    views = [memoryview(arenas.reserve(ARENA_BYTES)) for _ in range(MAX_POOLED_ARENAS + 8)]
    views.clear()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < (MAX_POOLED_ARENAS + 1) * ARENA_BYTES
