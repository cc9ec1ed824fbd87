"""A batch as it is kept on a disk."""

from __future__ import annotations

import pytest

from rocketmq_spark.pop.handles import CheckPoint, Form, Handle, OpaqueHandle, Received
from rocketmq_spark.pop.spooled_batch import TITLE, decoded_batch, encoded_batch

ORDINARY = CheckPoint("orders", 120, 1_763_712_000_000, 300_000, 3, "0", "broker-a", 1)
RETRIED = CheckPoint("payments", 0, 1_763_712_000_001, 300_000, 0, "2", "broker-b", 0)
BATCH = (
    Received(Handle(RETRIED, 7), memoryview(b"\x00\xff a record")),
    Received(Handle(ORDINARY, 120), memoryview(b"")),
    Received(Handle(ORDINARY, 121), memoryview(b"another" * 1_000), Form.ANSWERED),
    Received(OpaqueHandle("orders", "a broker", "a server's own"), memoryview(b"x"), Form.ANSWERED),
)


@pytest.mark.parametrize("messages", [BATCH, BATCH[:1], ()])
def test_what_is_kept_is_read_in_its_order(messages: tuple[Received, ...]) -> None:
    assert decoded_batch(encoded_batch(messages)) == messages


def test_what_was_not_written_to_its_end_is_no_batch() -> None:
    whole = encoded_batch(BATCH)
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=r"^(it begins with b.*|it is damaged, or was not written to its end)$"):
            decoded_batch(whole[:end])


def test_a_bit_that_has_changed_is_noticed() -> None:
    whole = bytearray(encoded_batch(BATCH[:2]))
    for place in range(len(whole)):
        whole[place] ^= 4
        with pytest.raises(ValueError, match=r"it begins with|it is damaged"):
            decoded_batch(bytes(whole))
        whole[place] ^= 4
    assert decoded_batch(bytes(whole)) == BATCH[:2]


def test_another_version_is_named() -> None:
    other = TITLE.replace(b"1", b"2") + encoded_batch(BATCH)[len(TITLE) :]
    with pytest.raises(ValueError, match=r"it begins with b'rocketmq-spark batch 2\\n'"):
        decoded_batch(other)
