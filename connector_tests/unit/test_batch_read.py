"""Options of batch reads."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import TOOLS_GROUP
from rocketmq_spark.options import BatchReadOptions, ReadOptions
from rocketmq_spark.options.batch_read import BATCH_READ_DEPENDENCIES
from rocketmq_spark.source.datasource import RocketMQDataSource

REQUIRED = {"namesrvAddr": "a:9876", "subscribe": "orders"}
CREDENTIALS = {"accessKey": "me", "secretKey": "s"}


def parse(**more: str) -> BatchReadOptions:
    return BatchReadOptions.parse(REQUIRED | more)


def test_batch_read_needs_servers_and_topics_only() -> None:
    options = parse()
    assert (options.topics, options.consumer_group) == (("orders",), TOOLS_GROUP)
    assert not options.replays_batches


def test_group_names_permissions_with_credentials() -> None:
    assert parse(consumerGroup="g", **CREDENTIALS).consumer_group == "g"
    assert parse(**CREDENTIALS).consumer_group == TOOLS_GROUP


def test_group_without_credentials_is_refused() -> None:
    with pytest.raises(OptionError) as raised:
        parse(consumerGroup="g")
    reason = BATCH_READ_DEPENDENCIES[-1].explanation
    assert raised.value.condition == "OPTION_REQUIRES_OPTION"
    assert raised.value.context == {"option": "consumerGroup", "needed": "accessKey", "reason": reason}


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
    assert (options.retry_topic, options.expression_of("%RETRY%g")) == (None, "a")
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
