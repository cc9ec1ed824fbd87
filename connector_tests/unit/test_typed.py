"""Typed access to parsed bodies: the value itself, or the name of what is missing or of another type."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketmq_spark.wire.remoting.typed import INT64_MAX, INT64_MIN, Object, array, flag, int64, objects, table, texts
from rocketmq_spark.wire.remoting.typed import text as text_of

ENTRY: Object = {
    "text": "a",
    "number": 7,
    "flag": True,
    "table": {"b": 1},
    "key": (("b", 1),),
    "texts": ["a", "b"],
    "objects": [{"b": 1}, {}],
}


@pytest.mark.parametrize(
    ("read", "name", "value"),
    [
        (text_of, "text", "a"),
        (int64, "number", 7),
        (flag, "flag", True),
        (table, "table", {"b": 1}),
        (table, "key", {"b": 1}),
        (array, "texts", ["a", "b"]),
        (texts, "texts", ["a", "b"]),
        (objects, "objects", [{"b": 1}, {}]),
    ],
)
def test_a_field_of_its_type_is_its_value(read: Callable[[Object, str], object], name: str, value: object) -> None:
    assert read(ENTRY, name) == value


@pytest.mark.parametrize("read", [text_of, int64, flag, table, array, texts, objects])
def test_a_field_that_is_missing_is_named(read: Callable[[Object, str], object]) -> None:
    with pytest.raises(ValueError, match=r"^nowhere is None, not of type (str|int|bool|dict|list)$"):
        read(ENTRY, "nowhere")


@pytest.mark.parametrize(
    ("read", "name"),
    [(text_of, "number"), (int64, "text"), (flag, "number"), (int64, "flag"), (table, "texts"), (texts, "objects")],
)
def test_a_field_of_another_type_is_named_also_where_python_would_take_it(
    read: Callable[[Object, str], object], name: str
) -> None:
    """True is an int to Python, and no number to a broker."""
    with pytest.raises(ValueError, match=f"^{name} is .*not of type"):
        read(ENTRY, name)


@pytest.mark.parametrize("read", [texts, objects])
def test_an_entry_of_another_type_is_reported_by_the_name_of_its_array(read: Callable[[Object, str], object]) -> None:
    with pytest.raises(ValueError, match=r"^mixed is 7, not of type"):
        read({"mixed": [7]}, "mixed")


def test_a_long_value_is_shown_shortened() -> None:
    with pytest.raises(ValueError, match=r"^n is 'x{12}\.\.\.x{13}', not of type int$"):
        int64({"n": "x" * 100}, "n")
    with pytest.raises(ValueError, match=r"^n is \[{7}\.\.\.\]{7}, not of type int$"):
        int64({"n": json.loads("[" * 500 + "]" * 500)}, "n")


@pytest.mark.parametrize("number", [INT64_MIN, INT64_MAX])
def test_the_widest_numbers_of_64_bits_are_read(number: int) -> None:
    assert int64({"n": number}, "n") == number


@pytest.mark.parametrize("number", [INT64_MIN - 1, INT64_MAX + 1])
def test_wider_ones_are_not(number: int) -> None:
    with pytest.raises(ValueError, match="n has more than 64 bits"):
        int64({"n": number}, "n")
