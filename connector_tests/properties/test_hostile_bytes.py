"""Hostile bytes by the thousand: each meets the package's own errors or none, and no memory stays behind.

What Hypothesis tries a hundred times cannot show a leak; this tries as often as it takes, from one seed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from connector_tests.properties.test_codec import DECODERS, REAL_BODIES, mutated
from connector_tests.support.address_space import MIB, address_space_stays
from connector_tests.support.message_bytes import COMPRESSED, V2, Record, batch_of, pull_body
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.message.compression import compress, decompress
from rocketmq_spark.wire.message.stored_message import decode_messages
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.command import RemotingCommand, Serialization, decode, encode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

GROWS_AT_MOST_BYTES = 64 * MIB
"""Arenas of the allocators come in such sizes; 256 KiB for each of 2,000 inputs are eight times as much."""

SHORT = 2_000
TIMES = pytest.mark.parametrize(
    "times", [SHORT, pytest.param(500_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
KINDS = (MessageSysFlag.LZ4, MessageSysFlag.ZSTD, MessageSysFlag.ZLIB)
PLAIN = b"the quick brown fox jumps over the lazy dog; " * 20
PIECES = (b"", b"\0", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff" * 4, b"{", b'"', b"0", b"1e999")

Feed = Callable[[bytes], object]


def hostile(random: Random, good: bytes) -> bytes:
    """``good`` with one to three stretches replaced, and at times cut short."""
    edits = [
        (random.randrange(len(good)), random.randrange(8), random.choice(PIECES)) for _ in range(random.randint(1, 3))
    ]
    data = mutated(good, edits)
    return data[: random.randrange(len(data))] if data and random.random() < 0.2 else data


def feed_hostile(seed: int, times: int, goods: list[bytes], feed: Feed, allowed: type[Exception]) -> int:
    """How many were refused."""
    random = Random(seed)
    refused = 0
    for number in range(times):
        try:
            feed(hostile(random, goods[number % len(goods)]))
        except allowed:
            refused += 1
    return refused


def check(times: int, goods: list[bytes], feed: Feed, allowed: type[Exception] = RemoteProtocolError) -> None:
    feed_hostile(0, SHORT // 4, goods, feed, allowed)
    with address_space_stays(GROWS_AT_MOST_BYTES):
        refused = feed_hostile(1, times, goods, feed, allowed)
    assert refused > times // 20, "these bytes were hardly hostile"


@TIMES
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_compressed_bodies(kind: MessageSysFlag, times: int) -> None:
    check(times, [compress(PLAIN, kind)], lambda data: decompress(data, int(kind)), ValueError)


@TIMES
def test_damaged_pull_bodies(times: int) -> None:
    goods = [
        pull_body(
            Record(body=compress(PLAIN, kind), sys_flag=kind | COMPRESSED, properties={"TAGS": "a"}),
            Record(magic=V2, store_host=("::1", 10911), queue_offset=1),
            batch_of(Record(queue_offset=2), [(b"1", b"a\x01b\x02"), (b"2", b"")]),
        )
        for kind in KINDS
    ]
    decoder = ColumnDecoder(tuple(COLUMNS), broker_name="b", tags=None)

    def feed(data: bytes) -> None:
        with suppress(RemoteProtocolError):
            decoder.decode([data], 0, 10)
        decode_messages(data, broker_name="b")

    check(times, goods, feed)


@TIMES
def test_damaged_frames(times: int) -> None:
    command = RemotingCommand(code=11, opaque=1, flag=1, remark="fine", fields={"a": "b", "offset": "17"}, body=b"body")

    def feed(data: bytes) -> None:
        buffer = FrameBuffer("peer:1", 10_000)
        buffer.feed(data)
        for frame in iter(buffer.next_frame, None):
            decode(frame)

    check(times, [encode(command, serialization) for serialization in Serialization], feed)


@TIMES
@pytest.mark.parametrize("read", DECODERS)
def test_damaged_json_bodies(read: Feed, times: int) -> None:
    check(times, REAL_BODIES, read)
