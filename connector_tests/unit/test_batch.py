from __future__ import annotations

import struct

import pytest

from connector_tests.support.message_bytes import inner_batch
from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import Message
from rocketmq_spark.wire.message.batch import ByteReader, InnerMessage, decode_batch, encode_batch, message_properties


def test_a_batch_is_its_messages_one_after_another() -> None:
    messages = [
        Message("T", b"one", tags="TagA", keys="k1 k2", properties={"UNIQ_KEY": "A"}, flag=7),
        Message("T", b"two", properties={"UNIQ_KEY": "B"}, flag=7),
    ]
    expected = inner_batch(
        [(b"one", {"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "A"}), (b"two", {"UNIQ_KEY": "B"})], 7
    )
    assert encode_batch(messages) == expected


def test_a_batch_decodes_to_what_each_message_has_of_its_own() -> None:
    body = inner_batch([(b"one", {"a": "b"}), (b"", b"")], flag=-3)
    assert decode_batch(body) == [InnerMessage(-3, b"one", {"a": "b"}), InnerMessage(-3, b"", {})]


def test_a_message_without_tags_and_keys_has_no_such_properties() -> None:
    assert message_properties(Message("T", b"x", properties={"a": "b"})) == {"a": "b"}


def test_properties_that_cannot_travel_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="INVALID_MESSAGE"):
        encode_batch([Message("T", b"x", properties={"a": ""})])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "its inner batch is empty"),
        (b"\0" * 19, "its inner head should have 20 bytes where 19 remain"),
        (inner_batch([(b"body", b"")])[:-3], "its inner body should have 4 bytes where 3 remain"),
        (inner_batch([(b"body", b"")])[:-1], "its inner properties' length should have 2 bytes where 1 remain"),
        (inner_batch([(b"body", b"abc")])[:-1], "its inner properties should have 3 bytes where 2 remain"),
        (
            inner_batch([(b"", b"")]) + b"\0\0\0\x15" + inner_batch([(b"", b"")])[4:],
            "an inner message of 22 bytes declares 21",
        ),
        (inner_batch([(b"", b"")])[:-2] + b"\xff\xff", "its inner properties should have -1 bytes where 0 remain"),
        (
            inner_batch([(b"", b"")])[:16] + b"\xff\xff\xff\xff\0\0",
            "its inner body should have -1 bytes where 2 remain",
        ),
    ],
)
def test_a_damaged_batch_is_an_error(body: bytes, problem: str) -> None:
    with pytest.raises(ValueError) as raised:
        decode_batch(body)
    assert str(raised.value) == problem


SHORT = struct.Struct(">H")


@pytest.fixture
def reader() -> ByteReader:
    return ByteReader(memoryview(b"\x00\x03abc"))


def test_fields_are_read_one_after_another(reader: ByteReader) -> None:
    (length,) = reader.unpack(SHORT, "length")
    assert (length, reader.position, reader.remaining_bytes) == (3, 2, 3)
    assert reader.read(length, "topic") == b"abc"
    assert (reader.position, reader.remaining_bytes) == (5, 0)


@pytest.mark.parametrize("length", [-1, 6])
def test_a_length_that_cannot_be_is_named_and_nothing_is_read(reader: ByteReader, length: int) -> None:
    with pytest.raises(ValueError, match=f"its topic should have {length} bytes where 5 remain"):
        reader.read(length, "topic")
    assert reader.position == 0


def test_numbers_end_where_the_bytes_do(reader: ByteReader) -> None:
    reader.read(4, "head")
    with pytest.raises(ValueError, match="its crc should have 2 bytes where 1 remain"):
        reader.unpack(SHORT, "crc")


def test_nothing_is_accepted_where_nothing_is_left(reader: ByteReader) -> None:
    reader.read(5, "all")
    assert reader.read(0, "body") == b""
