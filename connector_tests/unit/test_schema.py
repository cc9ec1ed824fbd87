"""Which columns a reader gets, and what a schema of the user's own may state."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.schema import arrow_schema, canonical_names, check_schema, default_schema
from rocketmq_spark.wire.arrow.column_table import DEFAULT_COLUMNS

REQUIRED = {"namesrvAddr": "127.0.0.1:1", "consumerGroup": "g", "subscribe": "T"}
REGION = default_schema(property_columns=("REGION",))["REGION"]
schema_class, field_class = type(default_schema()), type(REGION)


def schema_of(**options: str) -> Any:
    return RocketMQDataSource(REQUIRED | options).schema()


def test_the_map_of_properties_comes_where_it_is_requested_and_in_its_place() -> None:
    assert schema_of().fieldNames() == list(DEFAULT_COLUMNS)
    with_map = schema_of(includeProperties="true")
    assert with_map.fieldNames()[7:10] == ["body", "properties", "bornTimestamp"]
    assert with_map["properties"].dataType.simpleString() == "map<string,string>"
    assert [name for name in with_map.fieldNames() if name != "properties"] == list(DEFAULT_COLUMNS)


def test_properties_that_are_named_come_after_the_other_columns() -> None:
    named = schema_of(propertyColumns="region, order.id ,region")
    assert named.fieldNames() == [*DEFAULT_COLUMNS, "region", "order.id"]
    assert named["order.id"].dataType.simpleString() == "string"


def test_a_schema_of_the_users_own_names_properties_in_any_case_and_order() -> None:
    schema = schema_class([REGION, default_schema()["body"], default_schema(include_properties=True)["properties"]])
    check_schema(schema, ("region", "other"))
    assert canonical_names(schema, ("region", "other")) == ("region", "body", "properties")
    assert arrow_schema(schema).names == ["REGION", "body", "properties"]
    assert arrow_schema(schema).types == [pa.string(), pa.binary(), pa.map_(pa.string(), pa.string())]


def test_a_property_that_is_not_named_is_no_column() -> None:
    with pytest.raises(OptionError, match=r"UNKNOWN_COLUMN.*REGION.*bodyCRC INT, other STRING"):
        check_schema(schema_class([REGION]), ("other",))


def test_a_property_is_text() -> None:
    with pytest.raises(OptionError, match=r"UNSUPPORTED_COLUMN_TYPE.*region.*INT.*STRING"):
        check_schema(schema_class([field_class("region", default_schema()["queueId"].dataType)]), ("region",))


@pytest.mark.parametrize("name", ["tags", "TAGS", "Properties", "bodycrc"])
def test_a_property_called_as_a_column_is_an_error_that_lists_these(name: str) -> None:
    listed = "names other than those of the source's columns.*topic, brokerName"
    expected = rf"INVALID_OPTION_VALUE.*{name}.*propertyColumns.*{listed}"
    with pytest.raises(OptionError, match=expected):
        schema_of(propertyColumns=f"region,{name}")
    with pytest.raises(OptionError, match=expected):
        check_schema(default_schema(), (name,))


@pytest.mark.parametrize("names", ["a,A", "a\x01b", "a\x02"])
def test_names_that_spark_or_rocketmq_cannot_distinguish_are_an_error(names: str) -> None:
    with pytest.raises(OptionError, match=r"INVALID_OPTION_VALUE.*propertyColumns"):
        schema_of(propertyColumns=names)


def test_a_column_that_is_declared_not_null_is_refused() -> None:
    """Spark ended the query with a bare NullPointerException at the first null."""
    tags = field_class("Tags", default_schema()["tags"].dataType, False)
    with pytest.raises(OptionError) as raised:
        check_schema(schema_class([default_schema()["body"], tags]))
    assert str(raised.value) == (
        "[ROCKETMQ_NON_NULLABLE_COLUMN] Column 'Tags' is declared NOT NULL, but columns of the RocketMQ source "
        "can be null. Declare it without NOT NULL, and filter rows with 'Tags IS NOT NULL'."
    )


def test_a_schema_without_columns_is_refused() -> None:
    """It read no row, and the group's offsets moved on."""
    with pytest.raises(
        OptionError, match=r"EMPTY_SCHEMA.*Omit the schema, or name at least one of these columns: topic STRING"
    ):
        check_schema(schema_class([]))


def test_a_map_may_have_values_that_are_never_null() -> None:
    """It was to be declared as MAP<STRING,STRING>, which it is."""
    text = default_schema()["tags"].dataType
    map_class: Any = type(default_schema(include_properties=True)["properties"].dataType)
    schema = schema_class([field_class("properties", map_class(text, text, False))])
    check_schema(schema)
    (arrow_field,) = arrow_schema(schema)
    assert not arrow_field.type.item_field.nullable
    values = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    assert pa.RecordBatch.from_arrays([values], schema=arrow_schema(schema)).schema == arrow_schema(schema)
