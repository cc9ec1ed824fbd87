from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.sink.outgoing_rows import DELAYS, distinct_rows, outgoing_rows, split_by_bytes, split_ranges

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
    assert (rows.numbers.tolist(), rows.properties, len(rows)) == ([7, 8], None, 2)


def test_the_topic_of_the_options_wins_over_the_column() -> None:
    rows = outgoing_rows(batch(pa.array(["k"]), pa.array([b"b"])), POSITIONS, "given", 0)
    assert rows.topics.to_pylist() == ["given"]


def test_several_keys_are_one_text_and_nulls_among_them_are_omitted() -> None:
    keys = pa.array([["a", "b"], None, [], ["a", None, "c"], [None]], pa.list_(pa.string()))
    rows = outgoing_rows(batch(keys, pa.array([b"b"] * 5)), POSITIONS, None, 0)
    assert rows.texts["KEYS"].to_pylist() == [b"a b", None, None, b"a c", None]
    whole = outgoing_rows(batch(keys[:3], pa.array([b"b"] * 3)), POSITIONS, None, 0)
    assert whole.texts["KEYS"].to_pylist() == [b"a b", None, None]
    only_null = outgoing_rows(batch(keys[4:], pa.array([b"b"])), POSITIONS, None, 0)
    assert only_null.texts["KEYS"].to_pylist() == [None]


def test_keys_are_odd_that_would_be_none_or_two_in_the_text_of_all() -> None:
    keys = pa.array([["x"], ["a", "b c"], None, [], ["", None], ["d"], ["e", " "]], pa.list_(pa.string()))[1:]
    rows = outgoing_rows(batch(keys, pa.array([b"b"] * 6)), POSITIONS, None, 0)
    assert rows.have_invalid_keys is not None
    assert rows.have_invalid_keys.tolist() == [True, False, False, True, False, True]
    some = rows.take(np.array([1, 3]))
    assert some.have_invalid_keys is not None
    assert some.have_invalid_keys.tolist() == [False, True]
    for even in (keys[1:2], pa.array(["a b"])):
        assert outgoing_rows(batch(even, pa.array([b"b"])), POSITIONS, None, 0).have_invalid_keys is None


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_several_keys_may_be_large_strings_and_no_text(text: pa.DataType) -> None:
    """With spark.sql.execution.arrow.useLargeVarTypes they could not be joined."""
    large = text == pa.large_string()
    values = pa.array([b"out", b"a", b"\xff", b"c", None], pa.large_binary() if large else pa.binary())
    keys = pa.ListArray.from_arrays([0, 1, 3, 4], pa.Array.from_buffers(text, 4, values.buffers()))[1:]
    rows = outgoing_rows(batch(keys, pa.array([b"b"] * 2)), POSITIONS, None, 0)
    assert rows.texts["KEYS"].to_pylist() == [b"a \xff", b"c"]
    with_null = pa.ListArray.from_arrays([0, 3, 5], pa.Array.from_buffers(text, 5, values.buffers()))
    rows = outgoing_rows(batch(with_null, pa.array([b"b"] * 2)), POSITIONS, None, 0)
    assert rows.texts["KEYS"].to_pylist() == [b"out a \xff", b"c"]


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
    assert list(split_ranges(pa.array(sizes, pa.int32()).to_numpy(), 10)) == ranges


def test_an_arrow_batch_is_cut_by_the_bytes_of_its_bodies() -> None:
    whole = batch(pa.array(["a", "b", "c"]), pa.array(["12345678", None, "123"]))
    assert [piece.column(0).to_pylist() for piece in split_by_bytes(whole, 1, 10)] == [["a", "b"], ["c"]]
    assert [piece.column(0).to_pylist() for piece in split_by_bytes(whole, 1, 2)] == [["a"], ["b"], ["c"]]


def test_when_a_message_is_delivered_is_encoded_in_digits() -> None:
    columns = {
        "body": pa.array([b"a", b"b", b"c", b"d"]),
        "delayLevel": pa.array([3, None, None, None], pa.int32()),
        "delaySeconds": pa.array([None, 90, None, None], pa.int64()),
        "deliverTimestamp": pa.array([None, None, 1_700_000_000_123_456, None], pa.timestamp("us", tz="UTC")),
    }
    positions = {name: position for position, name in enumerate(columns)}
    rows = outgoing_rows(pa.record_batch(columns), positions, "T", 0)
    assert {name: values.to_pylist() for name, values in rows.texts.items()} == {
        "DELAY": [b"3", None, None, None],
        "TIMER_DELAY_SEC": [None, b"90", None, None],
        "TIMER_DELIVER_MS": [None, None, b"1700000000123", None],
    }
    assert rows.are_single.tolist() == [True, True, True, False]


def test_columns_that_are_null_in_every_row_are_those_of_no_row() -> None:
    names = ["topic", "tags", "keys", "properties", "shardingKey", "brokerName", "queueId", *DELAYS]
    batch = pa.record_batch({"body": pa.array([b"a", b"b"]), **{name: pa.nulls(2) for name in names}})
    rows = outgoing_rows(batch, {name: position for position, name in enumerate(batch.schema.names)}, "T", 0)
    assert rows.topics.to_pylist() == ["T", "T"]
    assert {name: values.to_pylist() for name, values in rows.texts.items()} == {
        name: [None, None] for name in ("TAGS", "KEYS", "__SHARDINGKEY", *DELAYS.values())
    }
    assert rows.properties is None
    assert rows.broker_names is not None
    assert rows.queue_ids is not None
    assert (rows.broker_names.to_pylist(), rows.queue_ids.to_pylist()) == ([None, None], [None, None])
    assert not rows.are_single.any()


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_numbers_of_any_width_are_the_same_numbers(type_: pa.DataType) -> None:
    numbers = pa.array([3, None], type_)
    names = ["queueId", "delayLevel", "delaySeconds"]
    batch = pa.record_batch({"body": pa.array([b"a", b"b"]), **dict.fromkeys(names, numbers)})
    rows = outgoing_rows(batch, {name: position for position, name in enumerate(batch.schema.names)}, "T", 0)
    assert rows.queue_ids is not None
    assert rows.queue_ids.equals(pa.array([3, None], pa.int64()))
    assert rows.texts["DELAY"].to_pylist() == rows.texts["TIMER_DELAY_SEC"].to_pylist() == [b"3", None]


def test_some_of_the_rows_keep_all_that_they_are() -> None:
    columns = {
        "body": pa.array([b"a", b"b", b"c"]),
        "tags": pa.array(["1", None, "3"]),
        "properties": pa.array([[("a", "b")], None, [("c", "d")]], pa.map_(pa.string(), pa.string())),
        "brokerName": pa.array(["x", None, "z"]),
        "queueId": pa.array([1, None, 3], pa.int32()),
    }
    positions = {name: position for position, name in enumerate(columns)}
    rows = outgoing_rows(pa.record_batch(columns), positions, "T", 10).take(np.array([2, 0]))
    assert (rows.numbers.tolist(), rows.bodies.to_pylist(), rows.topics.to_pylist()) == (
        [12, 10],
        [b"c", b"a"],
        ["T", "T"],
    )
    assert rows.texts["TAGS"].to_pylist() == [b"3", b"1"]
    assert rows.properties is not None
    assert rows.broker_names is not None
    assert rows.queue_ids is not None
    assert rows.properties.to_pylist() == [[("c", "d")], [("a", "b")]]
    assert (rows.broker_names.to_pylist(), rows.queue_ids.to_pylist()) == (["z", "x"], [3, 1])


@pytest.mark.parametrize(
    ("columns", "codes", "firsts"),
    [
        ([], [0, 0, 0, 0], [0]),
        ([["a", "a", "a", "a"]], [0, 0, 0, 0], [0]),
        ([["b", "a", "b", None]], [0, 1, 0, 2], [0, 1, 3]),
        ([["a", "a", "b", "b"], [1, 2, 1, 1]], [0, 1, 2, 2], [0, 1, 2]),
        ([["a", "b", "a", "b"], [True, True, False, True]], [0, 1, 2, 1], [0, 1, 2]),
    ],
)
def test_rows_that_are_equal_share_a_code(columns: list[list[object]], codes: list[int], firsts: list[int]) -> None:
    found = distinct_rows([pa.array(values) for values in columns], 4)
    renumbered = {code: number for number, code in enumerate(dict.fromkeys(found.codes.tolist()))}
    assert [renumbered[code] for code in found.codes.tolist()] == codes
    assert sorted(found.firsts.tolist()) == firsts
    assert [int(found.codes[first]) for first in found.firsts.tolist()] == list(range(len(firsts)))


def test_of_no_rows_there_is_no_first() -> None:
    codes, firsts = distinct_rows([pa.array([], pa.string())], 0)
    assert (len(codes), len(firsts)) == (0, 0)
