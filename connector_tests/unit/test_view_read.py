"""Options of views."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ViewOptions
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.schema import view_schema

SERVERS = {"namesrvAddr": "a:9876"}


def parse(view: str, **more: str) -> ViewOptions:
    return ViewOptions.parse(SERVERS | {"view": view} | more)


def test_view_needs_servers_only_and_shows_everything() -> None:
    options = parse("Groups")
    assert (options.view, options.groups, options.topics) == ("groups", (), ())


def test_view_is_restricted_to_a_group_and_topics() -> None:
    options = parse("groups", consumerGroup="g", subscribe="orders, payments")
    assert (options.groups, options.topics) == (("g",), ("orders", "payments"))


@pytest.mark.parametrize(
    ("view", "option", "reason"),
    [
        ("topics", "consumerGroup", "Topics and queues belong to no group."),
        ("queues", "consumerGroup", "Topics and queues belong to no group."),
        ("members", "subscribe", "Members belong to a group, not to a topic."),
    ],
)
def test_option_without_an_effect_is_refused(view: str, option: str, reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(view, **{option: "x"})
    assert raised.value.condition == "INCOMPATIBLE_OPTIONS"
    assert raised.value.context == {"first": "view", "second": option, "reason": reason}
    assert parse("groups", **{option: "x"})


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"view": "lag"}, "INVALID_OPTION_VALUE"),
        ({"view": "topics", "startingOffsets": "earliest"}, "UNKNOWN_OPTION"),
        ({"view": "topics", "endpoints": "p:8081"}, "UNKNOWN_OPTION"),
        ({"view": "topics", "accessKey": "me"}, "OPTION_REQUIRES_OPTION"),
    ],
)
def test_invalid_options_are_errors_at_load(options: dict[str, str], condition: str) -> None:
    with pytest.raises(OptionError) as raised:
        RocketMQDataSource(SERVERS | options).schema()
    assert raised.value.condition == condition


def test_view_needs_name_servers() -> None:
    with pytest.raises(OptionError, match=r"MISSING_OPTION.*namesrvAddr"):
        RocketMQDataSource({"view": "topics"}).schema()


def test_source_with_a_view_has_its_columns() -> None:
    assert RocketMQDataSource({**SERVERS, "VIEW": "queues"}).schema() == view_schema("queues")


def test_stream_refuses_a_view() -> None:
    reader = RocketMQDataSource({**SERVERS, "view": "queues"}).streamReader(view_schema("queues"))
    with pytest.raises(OptionError, match=r"'view' is an option of spark\.read with view, and not of this call"):
        reader.initialOffset()
