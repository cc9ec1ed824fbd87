from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.sink.invalid_rows import NO_BODY, OWN_PROPERTIES_LIMIT_BYTES, dead_letters, problems_of
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, outgoing_rows
from rocketmq_spark.wire.arrow.message_encoder import ID_PROPERTY_BYTES, properties_of, property_of

SCHEMA = {
    "body": pa.binary(),
    "topic": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "shardingKey": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int64(),
    "delayLevel": pa.int64(),
    "delaySeconds": pa.int64(),
}
NAMES, TYPES = tuple(SCHEMA), tuple(SCHEMA.values())
GOOD = {"body": b"12345", "topic": "T-1_%|", "tags": "t", "keys": "k", "properties": [("a", "b\x01")]}
NO_OTHER_PROPERTIES = {"tags": None, "keys": None}
LIMIT = OWN_PROPERTIES_LIMIT_BYTES
NO_TOPIC = "is no topic's name (letters, digits and %|_-, at most 127)"
SPACE_FOR_A = OWN_PROPERTIES_LIMIT_BYTES - ID_PROPERTY_BYTES - len("a\x01\x02")


def test_an_array_s_key_that_would_be_another_is_found_in_its_row() -> None:
    rows = rows_of({}, {})
    assert problems(replace(rows, have_invalid_keys=np.array([False, True]))) == {
        1: "one of its keys is empty or has a blank, and would be none or two"
    }


def rows_of(*rows: dict[str, Any]) -> OutgoingRows:
    columns = [
        pa.array([{**GOOD, **row}.get(name) for row in rows], type_) for name, type_ in zip(NAMES, TYPES, strict=True)
    ]
    batch = pa.record_batch(columns, names=list(NAMES))
    return outgoing_rows(batch, {name: position for position, name in enumerate(NAMES)}, None, 0)


def problems(rows: OutgoingRows) -> dict[int, str]:
    own = [property_of(name, values) for name, values in rows.texts.items()]
    if rows.properties is not None:
        own.append(properties_of(rows.properties))
    return problems_of(rows, own, max_body_bytes=5)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"body": b""}, "its body is empty, and brokers reject it"),
        ({"body": None}, "its body is null"),
        ({"body": b"123456"}, "its body has 6 bytes, and 5 is the most"),
        ({"topic": None}, "its topic is null"),
        ({"topic": "a b"}, f"'a b' {NO_TOPIC}"),
        ({"topic": "a" * 128}, f"{'a' * 128!r} {NO_TOPIC}"),
        ({"topic": "a\n"}, f"'a\\n' {NO_TOPIC}"),
        ({"tags": ""}, "its tags is empty, and RocketMQ would drop it"),
        ({"tags": "a\x02b"}, "its tags contains a separator (0x02)"),
        ({"keys": ""}, "its keys is empty, and RocketMQ would drop it"),
        ({"keys": "\x02"}, "its keys contains a separator (0x02)"),
        ({"shardingKey": ""}, "its shardingKey is empty, and RocketMQ would drop it"),
        ({"shardingKey": "\x02"}, "its shardingKey contains a separator (0x02)"),
        ({"brokerName": "b", "queueId": -1}, "its queueId is below 0"),
        ({"brokerName": "b", "queueId": 2**31}, "its queueId is above 2147483647"),
        ({"delayLevel": 2**31}, "its delayLevel is above 2147483647"),
        ({"queueId": 1}, "it has one of brokerName and queueId without the other"),
        ({"brokerName": "b"}, "it has one of brokerName and queueId without the other"),
        ({"delayLevel": 0}, "its delayLevel is not above 0"),
        ({"delaySeconds": -5}, "its delaySeconds is not above 0"),
        ({"delaySeconds": 1_000_000_000}, "its delaySeconds is above 999999999"),
        ({"delayLevel": 1, "delaySeconds": 1}, "it has more than one delivery time"),
        ({"properties": [("TAGS", "x")]}, "its property 'TAGS' is RocketMQ's own"),
        ({"properties": [("a", "b"), ("", "x")]}, "its property '' has no name"),
        ({"properties": [("a\x01", "x")]}, "its property 'a\\x01' has a separator in its name"),
        ({"properties": [("a\x02", "x")]}, "its property 'a\\x02' has a separator in its name"),
        ({"properties": [("a", "")]}, "its property 'a' is empty or null, and RocketMQ would drop it"),
        ({"properties": [("a", None)]}, "its property 'a' is empty or null, and RocketMQ would drop it"),
        ({"properties": [("a", "\x02")]}, "its property 'a' contains a separator (0x02)"),
        (
            {**NO_OTHER_PROPERTIES, "properties": [("a", "x" * (SPACE_FOR_A + 1))]},
            f"its properties have {LIMIT + 1} bytes, and {LIMIT} is the most",
        ),
    ],
)
def test_what_no_broker_takes_is_found_in_the_row_that_has_it(row: dict[str, Any], problem: str) -> None:
    found = problems(rows_of({}, {"properties": None}, row, {"properties": [("a", "b"), ("c", "d")]}))
    assert found == {2: problem}


@pytest.mark.parametrize("row", [{"topic": "a b" * 100_000}, {"properties": [("x" * 300_000 + "\x02", "y")]}])
def test_long_name_in_a_row_is_cut(row: dict[str, Any]) -> None:
    """All of it was in the error, its log line and its Spark event."""
    (problem,) = problems(rows_of(row)).values()
    assert "... (300" in problem
    assert len(problem) < 500


def test_what_a_broker_takes_is_no_problem() -> None:
    full = {**NO_OTHER_PROPERTIES, "properties": [("a", "x" * SPACE_FOR_A)]}
    without = {"tags": None, "keys": None, "properties": None, "topic": "a" * 127}
    placed = {"brokerName": "b", "queueId": 0, "shardingKey": "k", "delayLevel": 18}
    largest = {"brokerName": "b", "queueId": 2**31 - 1, "delayLevel": 2**31 - 1}
    odd = {"tags": "\x01", "keys": " "}
    assert problems(rows_of({}, full, without, odd, placed, largest, {"delaySeconds": 1})) == {}


def unchecked(values: list[bytes | None]) -> pa.StringArray:
    """Text as Spark hands it over: what is cast to a string is not looked at."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


MALFORMED = [b"ok", b"a\xff\x02", None, "é".encode()]


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("topic", "'a\ufffd\\x02' " + NO_TOPIC),
        ("tags", "its tags is not in UTF-8"),
        ("keys", "its keys is not in UTF-8"),
        ("shardingKey", "its shardingKey is not in UTF-8"),
        ("brokerName", "its brokerName is not in UTF-8"),
    ],
)
def test_text_that_is_none_is_found_in_its_row(column: str, problem: str) -> None:
    """It travelled as it was, or was an error of Python's that named no row."""
    columns = {name: pa.array([GOOD.get(name)] * 4, type_) for name, type_ in SCHEMA.items()}
    columns["queueId"] = pa.array([0] * 4 if column == "brokerName" else [None] * 4, pa.int32())
    columns[column] = unchecked(MALFORMED)
    rows = outgoing_rows(pa.record_batch(columns), {name: position for position, name in enumerate(columns)}, None, 0)
    assert problems(rows)[1] == problem


@pytest.mark.parametrize(
    ("names", "values", "problem"),
    [
        (MALFORMED[:2], MALFORMED[::3], "its property 'a\ufffd\\x02' is not in UTF-8"),
        (MALFORMED[::3], MALFORMED[:2], "its property 'é' is not in UTF-8"),
    ],
    ids=["name", "value"],
)
def test_a_property_that_is_no_text_is_found_in_its_row(
    names: list[bytes | None], values: list[bytes | None], problem: str
) -> None:
    columns = {"body": pa.array([b"a", b"b"]), "topic": pa.array(["T", "T"])}
    columns["properties"] = pa.MapArray.from_arrays([0, 1, 2], unchecked(names), unchecked(values))
    rows = outgoing_rows(pa.record_batch(columns), {name: position for position, name in enumerate(columns)}, None, 0)
    assert problems(rows) == {1: problem}


def test_null_list_of_keys_that_covers_values_moves_no_problem_to_another_row() -> None:
    """Arrow allows values below a null list."""
    keys = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "hidden", "x y"]), mask=pa.array([False, True, False])
    )
    columns = {"body": pa.array([b"a", b"b", b"c"]), "topic": pa.array(["T"] * 3), "keys": keys}
    rows = outgoing_rows(pa.record_batch(columns), {name: position for position, name in enumerate(columns)}, None, 0)
    assert list(problems(rows)) == [2]


def test_of_a_slice_the_rows_are_counted_from_its_beginning() -> None:
    names = {name: position for position, name in enumerate(NAMES)}
    columns = {name: pa.array([GOOD.get(name)] * 3, type_) for name, type_ in SCHEMA.items()}
    maps = [[("a", "")], [("a", "b"), ("c", "d")], [("e", "")]]
    columns["properties"] = pa.array(maps, SCHEMA["properties"])
    batch = pa.record_batch(columns)
    assert list(problems(outgoing_rows(batch.slice(1), names, None, 1))) == [1]
    assert list(problems(outgoing_rows(batch.slice(0, 2), names, None, 0))) == [0]


def test_the_first_problem_of_each_row_is_reported_in_the_order_of_the_rows() -> None:
    found = problems(rows_of({"tags": ""}, {}, {"tags": "", "body": b""}))
    assert {row: problem.split(",")[0] for row, problem in found.items()} == {
        0: "its tags is empty",
        2: "its body is empty",
    }


BODIES = pa.array([b"good", b"", b"much too long", None], pa.binary())
TOPICS = pa.array(["T", "bad\x01 name", "T", None])
POSITIONS = {"body": 0, "topic": 1, "tags": 2}
PROBLEMS = {1: "its body\x02 is empty", 2: "x" * 300, 3: "its body is empty"}


def test_a_row_that_cannot_be_sent_becomes_a_message_that_reports_what_it_was() -> None:
    batch = pa.record_batch([BODIES, TOPICS, pa.array([""] * 4)], names=["b", "t", "g"])
    rows = outgoing_rows(batch, POSITIONS, None, 10)
    letters = dead_letters(rows, PROBLEMS, "partition 3 of query q batch 1", "DEAD", max_body_bytes=8)
    assert letters.numbers.tolist() == [11, 12, 13]
    assert letters.topics.to_pylist() == ["DEAD"] * 3
    assert letters.bodies.to_pylist() == [NO_BODY[:8], b"much too", NO_BODY[:8]]
    assert letters.properties is None
    assert {name: values.to_pylist() for name, values in letters.texts.items()} == {
        "INVALID_ROW_PROBLEM": [b"its body  is empty", b"x" * 200, b"its body is empty"],
        "INVALID_ROW_POSITION": [b"row %d of partition 3 of query q batch 1" % row for row in (11, 12, 13)],
        "INVALID_ROW_TOPIC": [b"bad  name", b"T", None],
    }


def test_a_topic_that_is_no_text_is_reported_as_java_would_read_it() -> None:
    topics = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xff"], pa.binary()).buffers())
    batch = pa.record_batch([pa.array([b"body"]), topics, pa.array(["t"])], names=["b", "t", "g"])
    letters = dead_letters(outgoing_rows(batch, POSITIONS, None, 0), {0: "why"}, "a", "DEAD", max_body_bytes=8)
    assert letters.texts["INVALID_ROW_TOPIC"].to_pylist() == ["a\ufffd".encode()]


@pytest.mark.parametrize("problems", [{}, {3: "it has no topic"}])
def test_whatever_is_missing_the_messages_have_the_types_of_others(problems: dict[int, str]) -> None:
    batch = pa.record_batch([BODIES, TOPICS, pa.array([""] * 4)], names=["b", "t", "g"])
    letters = dead_letters(outgoing_rows(batch, POSITIONS, None, 10), problems, "a", "DEAD", max_body_bytes=8)
    assert len(letters) == len(problems)
    assert {values.type for values in (letters.bodies, *letters.texts.values())} == {pa.binary()}
