"""Arrow arrays cut out of a buffer by positions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.wire.arrow.slices import as_text, cut, interleave, utf8_text
from rocketmq_spark.wire.message.properties import decode_utf8

BUFFER = pa.py_buffer(b"0123456789")


def positions(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_two_columns_become_pairs() -> None:
    assert interleave(positions(1, 3), positions(2, 4)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("begins", "ends", "slices"),
    [
        ((), (), []),
        ((2,), (5,), [b"234"]),
        ((0, 3, 9), (3, 3, 10), [b"012", b"", b"9"]),
    ],
)
def test_slices_are_cut_and_what_is_between_them_is_not(
    begins: tuple[int, ...], ends: tuple[int, ...], slices: list[bytes]
) -> None:
    assert cut(BUFFER, positions(*begins), positions(*ends)).to_pylist() == slices


def test_what_is_cut_out_does_not_hold_the_buffer() -> None:
    """An arena is received into again while rows of it are still on their way to Spark."""
    arena = bytearray(b"0123456789")
    rows = cut(pa.py_buffer(arena), positions(2), positions(5))
    arena[:] = b"xxxxxxxxxx"
    assert rows.to_pylist() == [b"234"]


def test_text_is_utf8_and_what_is_not_is_read_as_javas() -> None:
    stored = [b"plain", "größer".encode(), b"\xff\xfe"]
    assert as_text(pa.array(stored, pa.binary())).to_pylist() == [decode_utf8(value) for value in stored]


def test_trusted_text_is_not_inspected() -> None:
    assert utf8_text(pa.array([b"a", "ü".encode()], pa.binary())).to_pylist() == ["a", "ü"]
