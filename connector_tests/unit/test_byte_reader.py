"""A cursor that never reads past the end, and names the field that would have."""

from __future__ import annotations

import struct

import pytest

from rocketmq_spark.wire.message.byte_reader import ByteReader

SHORT = struct.Struct(">H")


@pytest.fixture
def reader() -> ByteReader:
    return ByteReader(memoryview(b"\x00\x03abc"))


def test_fields_are_read_one_after_another(reader: ByteReader) -> None:
    (length,) = reader.unpack(SHORT, "length")
    assert (length, reader.position, reader.remaining_bytes) == (3, 2, 3)
    assert reader.take(length, "topic") == b"abc"
    assert (reader.position, reader.remaining_bytes) == (5, 0)


@pytest.mark.parametrize("length", [-1, 6])
def test_a_length_that_cannot_be_is_named_and_nothing_is_read(reader: ByteReader, length: int) -> None:
    with pytest.raises(ValueError, match=f"its topic should have {length} bytes where 5 remain"):
        reader.take(length, "topic")
    assert reader.position == 0


def test_numbers_end_where_the_bytes_do(reader: ByteReader) -> None:
    reader.take(4, "head")
    with pytest.raises(ValueError, match="its crc should have 2 bytes where 1 remain"):
        reader.unpack(SHORT, "crc")


def test_nothing_is_taken_where_nothing_is_left(reader: ByteReader) -> None:
    reader.take(5, "all")
    assert reader.take(0, "body") == b""
