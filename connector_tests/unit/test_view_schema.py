"""Spark schemas of views."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.inspection.views import VIEWS
from rocketmq_spark.source.schema import check_view_schema, view_columns, view_schema

GROUPS = view_schema("groups")
schema_class, field_class = type(GROUPS), type(GROUPS["lag"])


@pytest.mark.parametrize("view", VIEWS)
def test_schema_of_a_view_has_all_columns_and_is_valid(view: str) -> None:
    schema = view_schema(view)
    assert schema.fieldNames() == list(VIEWS[view])
    check_view_schema(schema, view)
    assert view_columns(schema, view) == list(VIEWS[view].values())


def test_types_are_sparks() -> None:
    types = {name: GROUPS[name].dataType.simpleString() for name in ("topic", "queueId", "lag", "oldestStoreTimestamp")}
    assert list(types.values()) == ["string", "int", "bigint", "timestamp"]
    assert view_schema("members")["subscriptions"].dataType.simpleString() == "map<string,string>"


def test_user_selects_and_orders_columns_in_any_case() -> None:
    schema = schema_class([field_class("LAG", GROUPS["lag"].dataType), GROUPS["topic"]])
    check_view_schema(schema, "groups")
    assert [column.field for column in view_columns(schema, "groups")] == ["lag", "topic"]


def test_other_columns_are_refused() -> None:
    text, number = GROUPS["topic"].dataType, GROUPS["lag"].dataType
    refused = {
        "UNKNOWN_COLUMN": field_class("body", text),
        "UNSUPPORTED_COLUMN_TYPE": field_class("lag", text),
        "NON_NULLABLE_COLUMN": field_class("lag", number, nullable=False),
    }
    for condition, field in refused.items():
        with pytest.raises(OptionError) as raised:
            check_view_schema(schema_class([field]), "groups")
        assert raised.value.condition == condition
