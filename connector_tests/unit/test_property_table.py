"""Properties of many rows at once; ``properties/test_columns_equal_scalar`` compares with the scalar decoder."""

from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record, pull_body
from rocketmq_spark.wire.arrow.property_table import MixedTable, PropertyTable, UniformTable, read_properties
from rocketmq_spark.wire.arrow.record_index import frame_records, index_records

Rows = list[dict[str, str]]


def table_of(*properties: bytes) -> PropertyTable:
    body = pull_body(*(Record(properties=text) for text in properties))
    return read_properties(index_records(frame_records([body])))


def rows_of(table: PropertyTable) -> Rows:
    return [dict(row) for row in table.as_map().to_pylist()]


UNIFORM = [
    pytest.param([b"a\x01b\x02"], [{"a": "b"}], id="one row"),
    pytest.param(
        [b"KEYS\x01k1 k2\x02TAGS\x01x\x02", b"KEYS\x01\xc3\xa4\x02TAGS\x01longer\x02"],
        [{"KEYS": "k1 k2", "TAGS": "x"}, {"KEYS": "ä", "TAGS": "longer"}],
        id="values differ",
    ),
    pytest.param([b"a\x01b", b"a\x01c\x02"], [{"a": "b"}, {"a": "c"}], id="the last end is left out"),
    pytest.param([b"a\x01b\x02KEYS\x01c\x02"] * 2, [{"a": "b", "KEYS": "c"}] * 2, id="names of two lengths"),
    pytest.param([b"\xc3\xa4\x01b\x02"] * 2, [{"ä": "b"}] * 2, id="a name beyond ASCII"),
]
MIXED = [
    pytest.param([b"", b""], [{}, {}], id="none"),
    pytest.param([b"a\x01b\x02", b""], [{"a": "b"}, {}], id="a row without"),
    pytest.param([b"aa\x01b\x02", b"cc\x01d\x02"], [{"aa": "b"}, {"cc": "d"}], id="names of one length"),
    pytest.param([b"a\x01b\x02", b"aa\x01b\x02"], [{"a": "b"}, {"aa": "b"}], id="names of other lengths"),
    pytest.param(
        [b"a\x01b\x02c\x01d\x02", b"c\x01d\x02a\x01b\x02"],
        [{"a": "b", "c": "d"}, {"c": "d", "a": "b"}],
        id="another order",
    ),
    pytest.param([b"a\x01b\x02a\x01c\x02"] * 2, [{"a": "c"}] * 2, id="a name twice: the last counts"),
    pytest.param(
        [b"a\x01b\x02", b"a\x01b\x02c\x01d\x02e\x01f\x02"],
        [{"a": "b"}, {"a": "b", "c": "d", "e": "f"}],
        id="as many in all as if each had two",
    ),
    pytest.param(
        [b"a\x01b\x02", b"c\x01d\x02a\x01e\x02c\x01f\x02"],
        [{"a": "b"}, {"c": "f", "a": "e"}],
        id="the same names in turn, but the rows end elsewhere",
    ),
]


@pytest.mark.parametrize(("properties", "rows"), UNIFORM)
def test_rows_with_the_same_names_in_the_same_order_are_uniform(properties: list[bytes], rows: Rows) -> None:
    table = table_of(*properties)
    assert isinstance(table, UniformTable)
    assert rows_of(table) == rows


@pytest.mark.parametrize(("properties", "rows"), MIXED)
def test_other_rows_are_mixed(properties: list[bytes], rows: Rows) -> None:
    table = table_of(*properties)
    assert isinstance(table, MixedTable)
    assert rows_of(table) == rows


@pytest.mark.parametrize("more", [b"", b"c\x01d\x02"], ids=["uniform", "mixed"])
def test_more_than_one_piece_is_searched(more: bytes) -> None:
    """Marks are looked for in pieces of 128 KiB; here are three, of which two end within a value."""
    values = [letter * 30_000 for letter in "abcdefghij"]
    table = table_of(*(b"name\x01%b\x02" % value.encode() for value in values), more or b"name\x01z\x02")
    assert table.value_of("name").to_pylist() == [*values, None if more else "z"]
    assert rows_of(table) == [*({"name": value} for value in values), {"c": "d"} if more else {"name": "z"}]


@pytest.mark.parametrize(("properties", "rows"), UNIFORM + MIXED)
def test_a_value_is_found_where_it_is(properties: list[bytes], rows: Rows) -> None:
    table = table_of(*properties)
    for name in ("a", "c", "KEYS", "TAGS", "ä", "absent"):
        assert table.value_of(name).to_pylist() == [row.get(name) for row in rows]
