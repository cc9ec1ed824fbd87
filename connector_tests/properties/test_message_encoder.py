"""What is encoded for many rows at once is what the codec of single messages writes, byte for byte."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.model import Message
from rocketmq_spark.sink.message_ids import id_prefix, row_ids
from rocketmq_spark.wire.arrow.message_encoder import (
    encode_messages,
    lengths_of,
    properties_of,
    property_bytes,
    property_of,
)
from rocketmq_spark.wire.message.batch import decode_batch, encode_batch
from rocketmq_spark.wire.message.properties import encode_properties

TEXT = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=20)
ROWS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=60),
        st.none() | TEXT,
        st.none() | st.dictionaries(TEXT.filter(lambda name: name not in ("TAGS", "UNIQ_KEY")), TEXT, max_size=3),
    ),
    max_size=12,
)


@given(ROWS, st.integers(0, 2**40), st.integers(0, 3), st.integers(0, 3))
def test_rows_are_encoded_as_messages_are(
    rows: list[tuple[bytes, str | None, dict[str, str] | None]], first_row: int, before: int, after: int
) -> None:
    """Also where Spark's columns are slices of larger ones."""
    padded = [(b"left", "out", {"left": "out"})] * before + rows + [(b"left", "out", {"left": "out"})] * after
    bodies, tags, maps = (list(column) for column in zip(*padded, strict=True)) if padded else ([], [], [])
    span = slice(before, before + len(rows))
    map_column = pa.array(
        [None if one is None else list(one.items()) for one in maps], pa.map_(pa.string(), pa.string())
    )
    ids = row_ids(id_prefix("job", 3), first_row, len(rows))
    properties = [property_of("TAGS", pa.array(tags, pa.binary())[span]), properties_of(map_column[span])]

    encoded = encode_messages(pa.array(bodies, pa.binary())[span], ids, properties)

    texts = [one.decode() for one in ids.tolist()]
    messages = [
        Message("T", body, properties={"UNIQ_KEY": text} | ({"TAGS": tag} if tag is not None else {}) | (more or {}))
        for text, (body, tag, more) in zip(texts, rows, strict=True)
    ]
    assert b"".join(encoded.to_pylist()) == encode_batch(messages)
    assert lengths_of(encoded).tolist() == [len(encode_batch([one])) for one in messages]
    assert property_bytes(properties, len(rows)).tolist() == [
        len(encode_properties(one.properties)) for one in messages
    ]
    if rows:
        inner = decode_batch(b"".join(encoded.to_pylist()))
        assert [(one.body, one.properties) for one in inner] == [(one.body, one.properties) for one in messages]


def test_what_is_null_has_no_bytes() -> None:
    assert lengths_of(pa.array([b"ab", None, b""], pa.binary())).tolist() == [2, 0, 0]
    assert property_of("TAGS", pa.array([b"a", None], pa.binary())).to_pylist() == [b"TAGS\x01a\x02", b""]


@given(st.integers(0, 2**48 - 100), st.integers(1, 50))
def test_ids_count_rows_in_their_last_twelve_digits(first_row: int, row_count: int) -> None:
    prefix = id_prefix("job", 0)
    assert row_ids(prefix, first_row, row_count).tolist() == [
        prefix + f"{row:012X}".encode() for row in range(first_row, first_row + row_count)
    ]


@given(st.tuples(st.text(max_size=5), st.integers(0, 99)), st.tuples(st.text(max_size=5), st.integers(0, 99)))
def test_two_tasks_share_no_id(one: tuple[str, int], other: tuple[str, int]) -> None:
    assert (id_prefix(*one) == id_prefix(*other)) == (one == other)
    assert len(id_prefix(*one)) == 20
