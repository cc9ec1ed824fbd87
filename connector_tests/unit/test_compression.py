from __future__ import annotations

import zlib

import pytest

from connector_tests.support.traced_memory import least_peak_bytes
from rocketmq_spark.wire.message.compression import compress, compression_kind, decompress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

PLAIN = b"the quick brown fox " * 500
LZ4, ZSTD, ZLIB = MessageSysFlag.LZ4, MessageSysFlag.ZSTD, MessageSysFlag.ZLIB

MOST_OF_ONE_BYTES = 32 * 1024 * 1024

JAVA_LZ4_FRAME = bytes.fromhex("04224d186070730500008068656c6c6f00000000")
"""LZ4FrameOutputStream: 4 MiB independent blocks, no content size, no checksums."""

ALL_TYPES = pytest.mark.parametrize("kind", [LZ4, ZSTD, ZLIB])


@ALL_TYPES
def test_what_is_compressed_comes_back(kind: MessageSysFlag) -> None:
    packed = compress(PLAIN, kind)
    assert len(packed) < len(PLAIN)
    assert decompress(memoryview(packed), int(kind) | 0x1) == PLAIN


@ALL_TYPES
def test_a_stream_that_ends_early_is_damaged(kind: MessageSysFlag) -> None:
    with pytest.raises(ValueError, match=f"its {kind.name} body is damaged"):
        decompress(compress(PLAIN, kind)[:-5], int(kind))


@ALL_TYPES
def test_a_body_that_is_read_in_several_pieces_comes_back(kind: MessageSysFlag) -> None:
    large = bytes(range(256)) * 4_000
    assert decompress(compress(large, kind), int(kind)) == large


def test_zlib_is_what_java_writes_and_reports_where_it_ends_early() -> None:
    packed = compress(PLAIN, ZLIB)
    assert packed == zlib.compress(PLAIN, 5) != zlib.compress(PLAIN)
    with pytest.raises(ValueError) as raised:
        decompress(packed[:-5], int(ZLIB))
    assert str(raised.value) == "its ZLIB body is damaged: it ends early"


@ALL_TYPES
def test_bytes_of_another_format_are_damaged(kind: MessageSysFlag) -> None:
    with pytest.raises(ValueError, match="damaged"):
        decompress(b"no such stream", int(kind))


@ALL_TYPES
def test_one_body_has_a_limit_of_its_own(kind: MessageSysFlag) -> None:
    """A row of 500 MiB ended Spark's JVM: OutOfMemoryError."""
    assert len(decompress(compress(bytes(MOST_OF_ONE_BYTES), kind), int(kind))) == MOST_OF_ONE_BYTES
    with pytest.raises(ValueError, match="its body has more than the 33554432 bytes allowed when decompressed"):
        decompress(compress(bytes(MOST_OF_ONE_BYTES + 1), kind), int(kind))


@ALL_TYPES
def test_the_limit_itself_is_allowed_and_one_byte_more_is_not(kind: MessageSysFlag) -> None:
    packed = compress(PLAIN, kind)
    assert decompress(packed, int(kind), limit_bytes=len(PLAIN)) == PLAIN
    with pytest.raises(ValueError, match="more than the 9999 bytes"):
        decompress(packed, int(kind), limit_bytes=len(PLAIN) - 1)


@ALL_TYPES
def test_a_bomb_needs_no_more_memory_than_the_limit_allows(kind: MessageSysFlag) -> None:
    bomb = compress(bytes(64 * 1024 * 1024), kind)
    limit_bytes = 1024 * 1024

    def refuse() -> None:
        with pytest.raises(ValueError, match="more than the 1048576 bytes"):
            decompress(bomb, int(kind), limit_bytes)

    assert least_peak_bytes(refuse) < 4 * limit_bytes


@pytest.mark.parametrize("kind", [LZ4, ZSTD])
def test_frames_one_after_another_are_one_body(kind: MessageSysFlag) -> None:
    assert decompress(compress(b"ab", kind) + compress(b"cd", kind), int(kind)) == b"abcd"


def test_producers_that_name_no_type_mean_zlib() -> None:
    assert compression_kind(0x1) is ZLIB
    assert decompress(zlib.compress(PLAIN), 0x1) == PLAIN


@pytest.mark.parametrize("bits", [0x400, 0x500, 0x600, 0x700])
def test_a_type_that_rocketmq_does_not_have_is_an_error(bits: int) -> None:
    with pytest.raises(ValueError, match=f"compression {bits:#x} is unknown"):
        decompress(PLAIN, bits | 0x1)


def test_a_negative_sys_flag_names_its_type_in_the_same_bits() -> None:
    assert compression_kind(-(2**31) | 0x200) is ZSTD


def test_frames_of_the_java_client_are_read() -> None:
    assert decompress(JAVA_LZ4_FRAME, 0x101) == b"hello"
