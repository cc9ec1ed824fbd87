from __future__ import annotations

import json

import pytest

from connector_tests.support.queues import queue
from rocketmq_spark.consumer.consume_from_where import ConsumeFromWhere, StartingPoint, starting_point
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.kinds import LOCAL_TIME
from rocketmq_spark.options.queue_positions import QueuePositions
from rocketmq_spark.options.table import Option, Section

LOCAL = "20260103100000"
LOCAL_MS = str(Option("consumeTimestamp", LOCAL_TIME, "doc", Section.START).parse(LOCAL))
LISTED = '{"orders":{"broker-a":{"0":23}}}'

FIRST = StartingPoint(ConsumeFromWhere.FIRST_OFFSET)
LAST = StartingPoint(ConsumeFromWhere.LAST_OFFSET)
SINCE = StartingPoint(ConsumeFromWhere.TIMESTAMP, int(LOCAL_MS))


def meaning_of(**given: str) -> StartingPoint:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    return starting_point(ReadOptions.parse({**required, **given}))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, LAST),
        ({"startingOffsets": "latest"}, LAST),
        ({"startingOffsets": "EARLIEST"}, FIRST),
        ({"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}, LAST),
        ({"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}, FIRST),
        ({"startingTimestamp": LOCAL_MS}, SINCE),
        ({"consumeTimestamp": LOCAL}, SINCE),
        ({"consumeFromWhere": "CONSUME_FROM_TIMESTAMP", "consumeTimestamp": LOCAL}, SINCE),
        ({"consumeFromWhere": "CONSUME_FROM_TIMESTAMP", "startingTimestamp": LOCAL_MS}, SINCE),
        ({"startingTimestamp": "0"}, StartingPoint(ConsumeFromWhere.TIMESTAMP, 0)),
        ({"startingOffsets": LISTED}, StartingPoint(ConsumeFromWhere.FIRST_OFFSET, offsets=((queue(0), 23),))),
        (
            {"startingOffsets": '{"orders":"group"}'},
            StartingPoint(ConsumeFromWhere.FIRST_OFFSET, topics=(("orders", -3),)),
        ),
        (
            {"startingOffsetsByTimestamp": '{"orders":5}'},
            StartingPoint(ConsumeFromWhere.TIMESTAMP, times=QueuePositions(topics=(("orders", 5),))),
        ),
        ({"startingOffsets": "group:earliest"}, FIRST),
        ({"startingOffsets": "group:latest"}, LAST),
        ({"startingOffsets": "group"}, StartingPoint(ConsumeFromWhere.LAST_OFFSET, requires_group=True)),
    ],
)
def test_each_spelling_has_one_meaning(given: dict[str, str], meant: StartingPoint) -> None:
    assert meaning_of(**given) == meant


def test_several_options_may_have_the_same_value() -> None:
    assert meaning_of(startingOffsets="earliest", consumeFromWhere="consume_from_first_offset") == FIRST
    assert meaning_of(startingTimestamp=LOCAL_MS, consumeTimestamp=LOCAL) == SINCE


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "earliest", "startingTimestamp": "5"},
        {"startingOffsets": "latest", "consumeTimestamp": LOCAL},
        {"startingOffsets": "latest", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"},
        {"startingOffsets": LISTED, "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"},
        {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"orders":5}'},
        {"startingOffsets": "group", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"},
        {"startingTimestamp": "5", "consumeTimestamp": LOCAL},
        {"startingTimestamp": "5", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"},
        {"consumeTimestamp": LOCAL, "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"},
    ],
)
def test_options_that_contradict_are_both_named(given: dict[str, str]) -> None:
    with pytest.raises(OptionError) as raised:
        meaning_of(**given)
    assert raised.value.condition == "INCOMPATIBLE_OPTIONS"
    assert {raised.value.context["first"], raised.value.context["second"]} == given.keys()
    assert raised.value.context["reason"] == "They set different start positions."


def test_offsets_of_topics_that_are_not_subscribed_are_all_named() -> None:
    elsewhere = '{"zebras":{"broker-a":{"0":1}},"apples":"latest"}'
    with pytest.raises(OptionError) as raised:
        meaning_of(startingOffsets=elsewhere)
    assert raised.value.context == {
        "first": "startingOffsets",
        "second": "subscribe",
        "reason": "'startingOffsets' has topics that are not subscribed: apples, zebras.",
    }


def test_times_of_topics_that_are_not_subscribed_are_all_named() -> None:
    with pytest.raises(OptionError, match=r"'startingOffsetsByTimestamp' has topics .* not subscribed: a, b\."):
        meaning_of(startingOffsetsByTimestamp='{"b":1,"a":2,"orders":3}')


def test_times_are_of_all_queues_or_of_those_that_are_listed() -> None:
    first, second = queue(0), queue(1)
    assert SINCE.timestamps_ms([first, second]) == dict.fromkeys([first, second], int(LOCAL_MS))
    by_queue = meaning_of(startingOffsetsByTimestamp='{"orders":{"broker-a":{"1":7}}}')
    assert by_queue.timestamps_ms([first, second]) == {second: 7}
    assert FIRST.timestamps_ms([first]) == {}


def test_consume_from_timestamp_needs_a_time() -> None:
    expected = r"OPTION_REQUIRES_OPTION.*'consumeFromWhere' requires option 'consumeTimestamp'\. CONSUME_FROM_TIMESTAMP"
    with pytest.raises(OptionError, match=expected):
        meaning_of(consumeFromWhere="CONSUME_FROM_TIMESTAMP")


def test_no_offset_can_be_given_for_a_topic_that_is_not_subscribed() -> None:
    with pytest.raises(OptionError, match=r"'startingOffsets' and 'subscribe'.*payments"):
        meaning_of(startingOffsets='{"payments":{"broker-a":{"0":1}}}')


@pytest.mark.parametrize("name", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_positions_are_of_topics_with_assigned_queues(name: str) -> None:
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "assign": '{"orders":{"broker-a":[0]}}'}
    assert starting_point(ReadOptions.parse({**given, name: '{"orders":5}'}))
    with pytest.raises(OptionError, match=rf"'{name}' and 'assign'.*topics that are not assigned: payments\."):
        starting_point(ReadOptions.parse({**given, name: '{"orders":5,"payments":5}'}))


def test_an_error_names_the_first_of_many_topics_that_are_not_subscribed() -> None:
    offsets = {f"T{number}": {"broker-a": {"0": 1}} for number in range(50_000)}
    with pytest.raises(OptionError, match=r"not subscribed: T0, T1, T10, .*\.\.\. \(\d{6} characters\)") as raised:
        meaning_of(startingOffsets=json.dumps(offsets))
    assert len(str(raised.value)) < 1_000
