"""Options of batch reads."""

from __future__ import annotations

import traceback

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import TOOLS_GROUP
from rocketmq_spark.options import BatchReadOptions, ReadOptions
from rocketmq_spark.options.batch_read import BATCH_READ_DEPENDENCIES
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.schema import default_schema

REQUIRED = {"namesrvAddr": "a:9876", "subscribe": "orders"}
CREDENTIALS = {"accessKey": "me", "secretKey": "s"}


def parse(**more: str) -> BatchReadOptions:
    return BatchReadOptions.parse(REQUIRED | more)


def test_batch_read_needs_servers_and_topics_only() -> None:
    options = parse()
    assert (options.topics, options.consumer_group) == (("orders",), TOOLS_GROUP)
    assert not options.replays_batches


@pytest.mark.parametrize(
    ("given", "listed", "shown"),
    [
        ({"topic": "orders,payments"}, ("orders", "payments"), "orders,payments"),
        ({"subscribePattern": "orders-.*"}, (), "orders-.*"),
        ({"assign": '{"orders":{"a":[1,0],"b":[0]},"bills":{"a":[0]}}'}, ("bills", "orders"), "bills,orders"),
    ],
)
def test_one_of_three_options_names_what_is_read(given: dict[str, str], listed: tuple[str, ...], shown: str) -> None:
    options = BatchReadOptions.parse({"namesrvAddr": "a:9876"} | given)
    assert (options.listed_topics, options.shown_topics) == (listed, shown)


def test_none_of_three_options_is_an_error_that_names_them() -> None:
    with pytest.raises(OptionError) as raised:
        BatchReadOptions.parse({"namesrvAddr": "a:9876"})
    assert str(raised.value) == (
        "[ROCKETMQ_MISSING_OPTION] Required option 'subscribe' is not set. Set it to topic names separated by commas "
        "(letters, digits and %|_-, at most 255 characters each), or set 'subscribePattern' or 'assign' instead."
    )


@pytest.mark.parametrize(
    ("first", "second"), [("subscribe", "subscribePattern"), ("subscribe", "assign"), ("subscribePattern", "assign")]
)
def test_two_of_three_options_exclude_each_other(first: str, second: str) -> None:
    values = {"subscribe": "orders", "subscribePattern": "orders", "assign": '{"orders":{"a":[0]}}'}
    with pytest.raises(OptionError) as raised:
        BatchReadOptions.parse({"namesrvAddr": "a:9876", first: values[first], second: values[second]})
    reason = "Only one of them can select what is read."
    assert raised.value.condition == "INCOMPATIBLE_OPTIONS"
    assert raised.value.context == {"first": first, "second": second, "reason": reason}


def test_group_names_permissions_with_credentials() -> None:
    assert parse(consumerGroup="g", **CREDENTIALS).consumer_group == "g"
    assert parse(**CREDENTIALS).consumer_group == TOOLS_GROUP


def test_group_without_credentials_is_refused() -> None:
    with pytest.raises(OptionError) as raised:
        parse(consumerGroup="g")
    reason = BATCH_READ_DEPENDENCIES[-1].explanation
    assert raised.value.condition == "OPTION_REQUIRES_OPTION"
    assert raised.value.context == {"option": "consumerGroup", "needed": "accessKey", "reason": reason}


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_groups_offsets_need_a_group_that_is_only_read(name: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**{name: '{"orders":"group:latest"}'})
    assert raised.value.context["option"] == name
    assert raised.value.context["needed"] == "consumerGroup"
    options = parse(consumerGroup="g", **{name: "group"})
    assert (options.given_group, options.consumer_group) == ("g", TOOLS_GROUP)
    assert parse(consumerGroup="g", **CREDENTIALS, **{name: "group"}).consumer_group == "g"


def test_dead_letters_are_refused() -> None:
    with pytest.raises(OptionError) as raised:
        parse(badMessages="deadLetter")
    assert raised.value.context["expected"] == "'fail' or 'null'"


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "endpoints", "loadBalance", "retryTopic"])
def test_options_of_streams_are_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**{name: "x"})
    suggestion = f"'{name}' is an option of spark.readStream, and not of this call."
    assert raised.value.context == {"option": name, "suggestion": suggestion}


def test_retry_topic_is_read_as_any_other() -> None:
    options = parse(subscribe="%RETRY%g", subExpression="a", missingQueuesTimeoutMs="7")
    assert (options.retry_topic, options.filter_of("%RETRY%g").expression) == (None, "a")
    assert options.missing_queues_limit_ms == 7


@pytest.mark.parametrize(
    ("options", "is_stream"),
    [
        (REQUIRED, False),
        (REQUIRED | {"consumerGroup": "g"}, True),
        (REQUIRED | {"maxOffsetsPerTrigger": "5"}, True),
    ],
)
def test_schema_checks_the_read_that_accepts_more_names(options: dict[str, str], is_stream: bool) -> None:
    given = {"includeproperties": "x"} | options
    with pytest.raises(OptionError) as raised:
        (ReadOptions if is_stream else BatchReadOptions).parse(given)
    with pytest.raises(OptionError) as shown:
        RocketMQDataSource(given).schema()
    assert str(shown.value) == str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        CREDENTIALS | {"consumerGroup": "g", "startingOffsets": '{"orders":"earliest"}'},
        {"consumerGroup": "g", "startingOffsets": "latest"},
        {"startingOffsets": '{"orders":"earliest"}'},
    ],
)
def test_schema_accepts_what_either_read_accepts(options: dict[str, str]) -> None:
    assert RocketMQDataSource(REQUIRED | options).schema() == default_schema()


@pytest.mark.parametrize("option", [("startingOffsets", "latest"), ("maxOffsetsPerTrigger", "5")])
def test_schema_leaves_a_missing_group_to_the_read(option: tuple[str, str]) -> None:
    """A stream needs the group, and a batch read does not accept the option: only the read knows which one it is."""
    name, value = option
    source = RocketMQDataSource(REQUIRED | {name: value, "includeProperties": "true"})
    assert "properties" in source.schema().fieldNames()
    with pytest.raises(OptionError) as of_stream:
        source.read_options()
    assert of_stream.value.context["option"] == "consumerGroup"
    with pytest.raises(OptionError) as of_batch:
        source.reader(default_schema())
    assert of_batch.value.context["option"] == name


def test_refused_schema_is_shown_without_the_way_to_it() -> None:
    with pytest.raises(OptionError) as raised:
        RocketMQDataSource(REQUIRED | {"endingOffsets": "earliest"}).schema()
    assert "_any_read_options" not in "".join(traceback.format_exception(raised.value))
