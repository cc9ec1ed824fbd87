"""Hints for option names of Spark's Kafka connector and of the former rocketmq-spark connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import USES, ReadOptions, ViewOptions, WriteOptions
from rocketmq_spark.options.foreign_names import BY_PREFIX, HINTS, REPLACED_BY, hint_for
from rocketmq_spark.options.table import rows

READ = {"namesrvAddr": "a:9876", "consumerGroup": "g", "subscribe": "orders"}
WRITE = {"namesrvAddr": "a:9876", "topic": "orders"}
NO_HINT = "No option has a similar name."

KAFKA = [
    ("kafka.bootstrap.servers", "Use 'namesrvAddr'."),
    ("kafka.group.id", "Use 'consumerGroup'."),
    ("groupIdPrefix", "Use 'consumerGroup'."),
    ("kafkaConsumer.pollTimeoutMs", "Use 'brokerTimeoutMs'."),
    ("fetchOffset.numRetries", "Use 'clusterTimeoutMs'."),
    ("includeHeaders", "Use 'includeProperties'."),
    ("kafka.security.protocol", "Use 'useTLS'."),
    ("kafka.ssl.truststore.location", "Use 'useTLS' and 'tlsTrustCertPath'."),
    ("kafka.sasl.jaas.config", "Use 'accessKey' and 'secretKey'."),
    ("kafka.max.poll.records", "Kafka client settings do not apply to RocketMQ."),
]
ROCKETMQ_SPARK = [
    ("group", "Use 'consumerGroup'."),
    ("nameserver.addr", "Use 'namesrvAddr'."),
    ("nameserver.address", "Use 'namesrvAddr'."),
    ("consumer.group", "Use 'consumerGroup'."),
    ("consumer.topic", "Use 'subscribe'."),
    ("consumer.tag", "Use 'subExpression'."),
    ("consumer.offset.reset.to", "Use 'startingOffsets'."),
    ("consumer.messages.orderly", "Use 'consumeOrderly'."),
    ("pullTimeout", "Use 'brokerTimeoutMs'."),
    ("pullTimeoutMs", "Use 'brokerTimeoutMs'."),
    ("pull.timeout.ms", "Use 'brokerTimeoutMs'."),
    ("pullBatchSize", "Use 'maxOffsetsPerTrigger'."),
]


def suggestion(parse: Callable[[Mapping[str, str]], object], given: Mapping[str, str]) -> object:
    with pytest.raises(OptionError) as raised:
        parse(given)
    assert raised.value.condition == "UNKNOWN_OPTION"
    return raised.value.context["suggestion"]


@pytest.mark.parametrize(("name", "hint"), [*KAFKA, *ROCKETMQ_SPARK])
@pytest.mark.parametrize("spelling", [str, str.lower])
def test_a_foreign_name_gets_the_hint_of_a_reader(name: str, hint: str, spelling: Callable[[str], str]) -> None:
    assert suggestion(ReadOptions.parse, READ | {spelling(name): "x"}) == hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("group", "Use 'producerGroup'."),
        ("kafka.bootstrap.servers", "Use 'namesrvAddr'."),
        ("kafka.max.request.size", "Use 'maxMessageBytes'."),
        ("kafka.compression.type", "Use 'compression'."),
        ("consumer.tag", "'subExpression' replaces it, and is an option of spark.readStream and spark.read."),
        ("includeHeaders", "'includeProperties' replaces it, and is an option of spark.readStream and spark.read."),
    ],
)
def test_a_foreign_name_gets_the_hint_of_a_writer(name: str, hint: str) -> None:
    assert suggestion(WriteOptions.parse, WRITE | {name: "x"}) == hint


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_an_end_of_reading_gets_the_trigger_as_hint(name: str) -> None:
    """'endingOffsets' got the hint 'startingOffsets'."""
    assert suggestion(ReadOptions.parse, READ | {name: "latest"}) == (
        "A stream has no end position. Use spark.read, or trigger(availableNow=True) to read up to the current end."
    )


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_an_end_of_reading_is_an_option_of_another_call_for_a_view_and_a_write(name: str) -> None:
    """A view is read by spark.read, and a batch write is no stream."""
    expected = f"{name!r} is an option of spark.read, and not of this call."
    assert suggestion(ViewOptions.parse, {"namesrvAddr": "a:9876", "view": "topics", name: "latest"}) == expected
    assert suggestion(WriteOptions.parse, WRITE | {name: "latest"}) == expected


@pytest.mark.parametrize("name", ["topicsToRead", "offsets", "timeoutMs", "owner", "maxBytes"])
def test_a_name_of_low_similarity_gets_no_hint(name: str) -> None:
    assert suggestion(ReadOptions.parse, READ | {name: "x"}) == NO_HINT


def test_each_replacement_is_an_option() -> None:
    names = {row.name for table in USES.values() for _, row in rows(table)}
    assert {name for replacements in REPLACED_BY.values() for name in replacements} <= names
    assert {name for _, replacements in BY_PREFIX for name in replacements} <= names


def test_no_foreign_name_is_an_option_of_each_call() -> None:
    spellings = {spelling.lower() for _, row in rows(ReadOptions) for spelling in row.spellings}
    assert not spellings & {*REPLACED_BY, *HINTS}


def test_an_own_name_gets_no_hint() -> None:
    assert hint_for("subscribe", {"subscribe": "subscribe"}, {}) is None
