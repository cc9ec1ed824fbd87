"""Ids that a replay repeats: whoever reads knows a row by them, over restarts and versions."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.sink.message_ids import column_ids, micro_batch, row_ids, task_key


def id_made_of(text: bytes) -> bytes:
    digits = hashlib.blake2b(text, digest_size=12).hexdigest().upper()
    return f"{digits[:20]}00000000{digits[20:]}".encode()


def test_an_id_of_columns_is_made_of_the_length_and_text_of_each_value_and_nothing_else() -> None:
    columns = [pa.array(["ab", None, "a", None]), pa.array([7, 12, None, None], pa.int64())]
    texts = [b"2:ab1:7", b"-2:12", b"1:a-", b"--"]
    assert column_ids(columns).tolist() == [id_made_of(text) for text in texts]


MICROSECONDS = 1_700_000_000_123_456


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (pa.binary(), b"\xff\x00", b"\xff\x00"),
        (pa.large_binary(), b"\xff\x00", b"\xff\x00"),
        (pa.bool_(), True, b"true"),
        (pa.date32(), datetime.date(2024, 2, 29), b"2024-02-29"),
        (pa.int8(), -7, b"-7"),
        (pa.int16(), -7, b"-7"),
        (pa.int32(), -7, b"-7"),
        (pa.int64(), -7, b"-7"),
        (pa.string(), "é", "é".encode()),
        (pa.large_string(), "é", "é".encode()),
        (pa.timestamp("us", "UTC"), MICROSECONDS, b"%d" % MICROSECONDS),
        (pa.timestamp("us", "Europe/Berlin"), MICROSECONDS, b"%d" % MICROSECONDS),
    ],
)
def test_each_type_of_column_has_one_text_for_a_value(type_: pa.DataType, value: Any, text: bytes) -> None:
    """Bytes ended the task unless they were UTF-8; a timestamp's text had the session's time zone in it."""
    assert column_ids([pa.array([value, None], type_)]).tolist() == [
        id_made_of(b"%d:%b" % (len(text), text)),
        id_made_of(b"-"),
    ]


def test_no_row_has_no_id() -> None:
    none = column_ids([pa.array([], pa.string())])
    assert (len(none), none.dtype) == (0, np.dtype("S32"))


def test_a_micro_batch_is_known_by_its_query_and_its_number() -> None:
    assert micro_batch("q", "7", of_columns=False) == "query q batch 7"


@pytest.mark.parametrize("known", [(None, "7"), ("q", None), (None, None)])
def test_a_micro_batch_that_is_not_known_has_no_ids_but_those_of_columns(known: tuple[str | None, str | None]) -> None:
    """All batches would have been the rows of 'query None batch None', with the same ids."""
    with pytest.raises(OptionError) as raised:
        micro_batch(*known, of_columns=False)
    assert str(raised.value) == (
        "[ROCKETMQ_MESSAGE_ID_UNAVAILABLE] Cannot generate message IDs of a micro-batch: Spark provided no query "
        f"ID or batch ID (query {known[0]}, batch {known[1]}). Set 'messageIdColumns' to columns that identify a row."
    )
    assert micro_batch(*known, of_columns=True) == f"query {known[0]} batch {known[1]}"


def test_an_id_begins_with_the_hash_of_its_row_in_upper_case() -> None:
    """So a later version gives the same ones: the task, the lengths as 32 bits, then the values."""
    key = hashlib.blake2b(b"job\x003", digest_size=20).digest()
    contents = [b"\2\0\0\0\1\0\0\0abc", b"\xff\xff\xff\xff\0\0\0\0"]
    digits = [hashlib.blake2b(key + one).hexdigest()[:20].upper().encode() for one in contents]
    columns = [pa.array([b"ab", None], pa.binary()), pa.array([b"c", b""], pa.binary())]
    assert row_ids(task_key("job", 3), 7, columns).tolist() == [digits[0] + b"%012X" % 7, digits[1] + b"%012X" % 8]
