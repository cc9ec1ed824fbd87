"""A batch as it is kept on a disk."""

from __future__ import annotations

import struct
import zlib

import pytest

from rocketmq_spark.pop.proxied_handles import UNVERIFIED
from rocketmq_spark.pop.receipt_handles import (
    BrokerHandle,
    OpaqueHandle,
    PopCheckPoint,
    ReceivedMessage,
    RecordFormat,
    is_unverified,
)
from rocketmq_spark.pop.spooled_batch import MAGIC, decode_spooled_batch, encode_spooled_batch

ORDINARY = PopCheckPoint("orders", 120, 1_763_712_000_000, 300_000, 3, "0", "broker-a", 1)
RETRIED = PopCheckPoint("payments", 0, 1_763_712_000_001, 300_000, 0, "2", "broker-b", 0)
BATCH = (
    ReceivedMessage(BrokerHandle(RETRIED, 7), memoryview(b"\x00\xff a record")),
    ReceivedMessage(BrokerHandle(ORDINARY, 120), memoryview(b"")),
    ReceivedMessage(BrokerHandle(ORDINARY, 121), memoryview(b"another" * 1_000), RecordFormat.PROXIED),
    ReceivedMessage(OpaqueHandle("orders", "a broker", "a server's own"), memoryview(b"x"), RecordFormat.PROXIED),
)


@pytest.mark.parametrize("messages", [BATCH, BATCH[:1], ()])
def test_what_is_kept_is_read_in_its_order(messages: tuple[ReceivedMessage, ...]) -> None:
    assert decode_spooled_batch(encode_spooled_batch(messages)) == messages


def test_what_was_not_written_to_its_end_is_no_batch() -> None:
    whole = encode_spooled_batch(BATCH)
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=r"^(it begins with b.*|it is damaged, or was not written to its end)$"):
            decode_spooled_batch(whole[:end])


def test_a_bit_that_has_changed_is_noticed() -> None:
    whole = bytearray(encode_spooled_batch(BATCH[:2]))
    for place in range(len(whole)):
        whole[place] ^= 4
        with pytest.raises(ValueError, match=r"it begins with|it is damaged"):
            decode_spooled_batch(bytes(whole))
        whole[place] ^= 4
    assert decode_spooled_batch(bytes(whole)) == BATCH[:2]


def test_another_version_is_named() -> None:
    other = MAGIC.replace(b"1", b"2") + encode_spooled_batch(BATCH)[len(MAGIC) :]
    with pytest.raises(ValueError, match=r"it begins with b'rocketmq-spark batch 2\\n'"):
        decode_spooled_batch(other)


@pytest.mark.parametrize("rest", [b"\0\0", b"\0\0\0\x04T"], ids=["length", "field"])
def test_a_batch_that_ends_within_a_field_is_damaged_whatever_its_checksum(rest: bytes) -> None:
    """It ended the query, at each restart."""
    content = MAGIC + rest
    with pytest.raises(ValueError, match="it ends within a field"):
        decode_spooled_batch(content + struct.pack(">I", zlib.crc32(content)))


@pytest.mark.parametrize(
    "text",
    [
        "0 1999999999999 60000 5 0 broker-a 7 3 99",
        "0 1999999999999 60000 5 0 broker-a 7 3",
        "a b c d 1 99",
        "0 1999999999999 60000 5 0 broker-a 7 3 x",
        "a gateway's",
    ],
)
def test_a_handle_that_a_producer_may_have_written_is_no_brokers_after_a_restart(text: str) -> None:
    """It was read as a broker's, and the next start extended, acknowledged or released another message by it."""
    before = OpaqueHandle("T", "broker-a", text)
    ((after, *_),) = decode_spooled_batch(encode_spooled_batch([ReceivedMessage(before, memoryview(b"record"))]))
    assert isinstance(after, OpaqueHandle)
    assert is_unverified(after) is is_unverified(before)
    assert after.text == (UNVERIFIED if is_unverified(before) else text)
