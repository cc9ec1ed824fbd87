from __future__ import annotations

import pyarrow as pa
import pytest

from rocketmq_spark.sink.outgoing_rows import cut_by_bytes, cuts, outgoing_rows

POSITIONS = {"keys": 0, "body": 1, "topic": 2, "tags": 3}


def batch(keys: pa.Array, body: pa.Array) -> pa.RecordBatch:
    count = len(body)
    columns = [keys, body, pa.array(["own"] * count), pa.array(["t"] * count)]
    return pa.record_batch(columns, names=["a", "b", "c", "d"])


def test_a_part_of_a_message_comes_from_where_its_column_stands() -> None:
    rows = outgoing_rows(batch(pa.array(["k", None]), pa.array(["ä", "b"])), POSITIONS, None, 7)
    assert rows.bodies.to_pylist() == ["ä".encode(), b"b"]
    assert rows.topics.to_pylist() == ["own", "own"]
    assert {name: values.to_pylist() for name, values in rows.texts.items()} == {
        "TAGS": [b"t", b"t"],
        "KEYS": [b"k", None],
    }
    assert (rows.first_row, rows.properties, len(rows)) == (7, None, 2)


def test_the_topic_of_the_options_wins_over_the_column() -> None:
    rows = outgoing_rows(batch(pa.array(["k"]), pa.array([b"b"])), POSITIONS, "given", 0)
    assert rows.topics.to_pylist() == ["given"]


def test_several_keys_are_one_text_and_nulls_among_them_are_left_out() -> None:
    keys = pa.array([["a", "b"], None, [], ["a", None, "c"], [None]], pa.list_(pa.string()))
    rows = outgoing_rows(batch(keys, pa.array([b"b"] * 5)), POSITIONS, None, 0)
    assert rows.texts["KEYS"].to_pylist() == [b"a b", None, None, b"a c", None]
    whole = outgoing_rows(batch(keys[:3], pa.array([b"b"] * 3)), POSITIONS, None, 0)
    assert whole.texts["KEYS"].to_pylist() == [b"a b", None, None]


@pytest.mark.parametrize(
    ("sizes", "ranges"),
    [
        ([], []),
        ([3, 3, 4], [(0, 3)]),
        ([3, 3, 5], [(0, 2), (2, 3)]),
        ([11, 1, 25, 10], [(0, 1), (1, 2), (2, 3), (3, 4)]),
    ],
)
def test_neighbours_are_together_up_to_the_limit(sizes: list[int], ranges: list[tuple[int, int]]) -> None:
    assert list(cuts(pa.array(sizes, pa.int32()).to_numpy(), 10)) == ranges


def test_an_arrow_batch_is_cut_by_the_bytes_of_its_bodies() -> None:
    whole = batch(pa.array(["a", "b", "c"]), pa.array(["12345678", None, "123"]))
    assert [piece.column(0).to_pylist() for piece in cut_by_bytes(whole, 1, 10)] == [["a", "b"], ["c"]]
