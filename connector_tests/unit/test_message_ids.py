"""Ids that a replay repeats: whoever reads knows a row by them, over restarts and versions."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from rocketmq_spark.sink.message_ids import column_ids, id_prefix


def id_made_of(text: bytes) -> bytes:
    digits = hashlib.blake2b(text, digest_size=12).hexdigest().upper()
    return f"{digits[:20]}00000000{digits[20:]}".encode()


def test_an_id_of_columns_is_made_of_the_length_and_text_of_each_value_and_nothing_else() -> None:
    columns = [pa.array(["ab", None, "a", None]), pa.array([7, 12, None, None], pa.int64())]
    texts = [b"2:ab1:7", b"-2:12", b"1:a-", b"--"]
    assert column_ids(columns).tolist() == [id_made_of(text) for text in texts]


def test_no_row_has_no_id() -> None:
    none = column_ids([pa.array([], pa.string())])
    assert (len(none), none.dtype) == (0, np.dtype("S32"))


def test_ids_of_a_task_begin_with_digits_in_upper_case() -> None:
    digits = hashlib.blake2b(b"job\x003", digest_size=10).hexdigest().upper()
    assert id_prefix("job", 3) == digits.encode()
