"""What is encoded for many rows at once is what the codec of single messages writes, byte for byte."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.model import Message
from rocketmq_spark.sink.message_ids import row_ids, task_key
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
    ids = row_ids(task_key("job", 3), first_row, [pa.array(bodies, pa.binary())[span]])
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


_CONTENTS = st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=6)


def ids_of(first_row: int, *columns: list[bytes | None], key: bytes = task_key("job", 0)) -> list[bytes]:
    ids: list[bytes] = row_ids(key, first_row, [pa.array(column, pa.binary()) for column in columns]).tolist()
    return ids


@given(st.integers(0, 2**48 - 100), _CONTENTS)
def test_ids_have_the_number_of_the_row_last(first_row: int, contents: list[bytes | None]) -> None:
    ids = ids_of(first_row, contents)
    assert [one[20:] for one in ids] == [f"{first_row + row:012X}".encode() for row in range(len(ids))]


@given(st.lists(_CONTENTS, min_size=4, max_size=4))
def test_rows_of_other_contents_share_no_id(columns: list[list[bytes | None]]) -> None:
    """A null is not an empty value, and a value is of one column."""
    first, second, third, fourth = columns
    rows = min(map(len, columns))
    ids, others = ids_of(7, first[:rows], second[:rows]), ids_of(7, third[:rows], fourth[:rows])
    for row in range(rows):
        is_equal = (first[row], second[row]) == (third[row], fourth[row])
        assert (ids[row] == others[row]) == is_equal


@given(st.integers(0, 9), _CONTENTS, st.integers(0, 6))
def test_the_id_of_a_row_does_not_depend_on_its_neighbours(
    first_row: int, contents: list[bytes | None], cut: int
) -> None:
    whole = ids_of(first_row, contents)
    assert ids_of(first_row, contents[:cut]) + ids_of(first_row + len(contents[:cut]), contents[cut:]) == whole


@given(st.tuples(st.text(max_size=5), st.integers(0, 99)), st.tuples(st.text(max_size=5), st.integers(0, 99)))
def test_two_tasks_share_no_id(one: tuple[str, int], other: tuple[str, int]) -> None:
    ids, others = (ids_of(0, [b"same"], key=task_key(*task)) for task in (one, other))
    assert (ids == others) == (one == other)
