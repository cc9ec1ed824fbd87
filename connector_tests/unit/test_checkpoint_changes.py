from __future__ import annotations

import json
from dataclasses import replace

import pytest

from connector_tests.support.queues import queue
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.checkpoint_changes import CHANGES, Outcome, planned_with, warnings_of
from rocketmq_spark.source.stream.offsets import PlannedWith, QueueProgress, SourceOffset

NAME = "6f1e8d0c2b5a4f73"
BEFORE = PlannedWith("g", "CLUSTERING", "*", "orders,payments", "false", NAME)
QUEUES = {queue(0): QueueProgress(0, 5), queue(0, topic="payments"): QueueProgress(0, 7)}
CHECKPOINT = SourceOffset(QUEUES, BEFORE)
NOTHING_YET = (
    "No data is lost yet. The checkpoint keeps the topic's offsets, and the query resumes from them when you subscribe "
    "to it again. Messages that brokers delete until then are lost."
)
OMITTED = f"subscribe changed from 'orders,payments' to 'orders' since this checkpoint was written. {NOTHING_YET}"


def options(**given: str) -> ReadOptions:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders,payments"}
    return ReadOptions.parse(required | given)


def test_an_offset_has_the_options_that_count() -> None:
    assert planned_with(options(subExpression="TagA"), NAME) == replace_filter("TagA")
    sql = {"subExpression": "a > 1", "expressionType": "SQL92"}
    assert planned_with(options(**sql), NAME) == replace_filter("SQL92: a > 1")
    given = {"subscribe": "payments,orders", "retryTopic": "true"}
    assert planned_with(options(**given), NAME) == BEFORE._replace(retry_topic="true")


PATTERN = "orders|payments"
OF_PATTERN = BEFORE._replace(subscribe="", topic_pattern=PATTERN)


def options_with(pattern: str) -> ReadOptions:
    return ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribePattern": pattern})


def test_an_offset_has_the_pattern() -> None:
    assert planned_with(options_with(PATTERN), NAME) == OF_PATTERN


@pytest.mark.parametrize("before", [BEFORE, OF_PATTERN, None])
def test_a_pattern_that_matches_all_topics_of_the_checkpoint_loses_nothing(before: PlannedWith | None) -> None:
    assert warnings_of(SourceOffset(QUEUES, before), options_with("orders|pay.*|returns")) == []


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        (BEFORE, options_with("orders.*"), "from 'orders,payments' to 'subscribePattern=orders.*'"),
        (
            OF_PATTERN,
            options_with("orders.*"),
            "from 'subscribePattern=orders|payments' to 'subscribePattern=orders.*'",
        ),
        (OF_PATTERN, options(subscribe="orders"), "from 'subscribePattern=orders|payments' to 'orders'"),
        (BEFORE._replace(topic_pattern="("), options(subscribe="orders"), "from 'subscribePattern=(' to 'orders'"),
    ],
)
def test_a_topic_that_a_pattern_omits_is_a_warning(before: PlannedWith, now: ReadOptions, shown: str) -> None:
    assert warnings_of(SourceOffset(QUEUES, before), now) == [
        f"subscribe changed {shown} since this checkpoint was written. {NOTHING_YET}"
    ]


def test_a_topic_that_an_earlier_pattern_omitted_is_no_warning_again() -> None:
    before = OF_PATTERN._replace(topic_pattern="orders.*")
    assert warnings_of(SourceOffset(QUEUES, before), options_with("orders")) == []


def replace_filter(text: str) -> PlannedWith:
    return BEFORE._replace(sub_expression=text)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"subscribe": "payments,orders"},
        {"subscribe": "orders,payments,refunds"},
        {"retryTopic": "true"},
        {
            "instanceName": "another",
            "consumeOrderly": "true",
            "maxOffsetsPerTrigger": "5",
            "startingOffsets": "earliest",
        },
    ],
)
def test_what_loses_nothing_is_no_word_worth(given: dict[str, str]) -> None:
    assert warnings_of(CHECKPOINT, options(**given)) == []


def test_a_topic_that_is_omitted_is_a_warning() -> None:
    assert warnings_of(CHECKPOINT, options(subscribe="orders")) == [OMITTED]


def test_a_topic_that_was_omitted_before_is_no_change() -> None:
    """It was said at each start, of a checkpoint that had been written with the same topics as these."""
    since = replace(CHECKPOINT, planned_with=planned_with(options(subscribe="orders"), NAME))
    assert warnings_of(since, options(subscribe="orders")) == []
    assert warnings_of(since, options(subscribe="orders,payments")) == []


def test_of_a_topic_in_which_the_query_has_never_been_there_is_nothing_to_keep() -> None:
    nowhere = replace(CHECKPOINT, queues={queue(0): QueueProgress(0, 5)})
    assert warnings_of(nowhere, options(subscribe="orders")) == []


def test_a_retry_topic_that_is_not_read_any_more_is_one_too() -> None:
    """It was said to have been in 'subscribe'."""
    retries = BEFORE._replace(retry_topic="true")
    with_retries = SourceOffset({**QUEUES, queue(0, topic="%RETRY%g"): QueueProgress(0, 5)}, retries)
    (line,) = warnings_of(with_retries, options())
    assert line == (
        "retryTopic changed from 'true' to 'false' since this checkpoint was written. No data is lost yet. The "
        "checkpoint keeps the retry topic's offsets. Messages sent back for retry stay in it until it is read again, "
        "as long as its brokers retain them."
    )
    assert warnings_of(with_retries, options(retryTopic="true")) == []
    assert warnings_of(replace(with_retries, queues=QUEUES), options()) == []


@pytest.mark.parametrize("before", [None, PlannedWith("g", "CLUSTERING", "*")])
def test_a_checkpoint_of_before_reports_a_retry_topic_by_its_positions(before: PlannedWith | None) -> None:
    old = SourceOffset({**QUEUES, queue(0, topic="%RETRY%g"): QueueProgress(0, 5)}, before)
    (line,) = warnings_of(old, options())
    assert line.startswith(
        "This checkpoint has offsets of '%RETRY%g', but retryTopic is 'false'. No data is lost yet. "
    )


def test_another_filter_is_a_warning() -> None:
    (line,) = warnings_of(CHECKPOINT, options(subExpression="TagA"))
    assert line.startswith(
        "subExpression changed from '*' to 'TagA' since this checkpoint was written. No later message that matches "
    )


def test_a_query_that_reads_by_itself_from_now_on_is_a_warning() -> None:
    (line,) = warnings_of(CHECKPOINT, options(messageModel="BROADCASTING", instanceName="me"))
    assert line.startswith(
        "messageModel changed from 'CLUSTERING' to 'BROADCASTING' since this checkpoint was written. No data loss. "
    )


def test_several_changes_are_all_reported() -> None:
    assert len(warnings_of(CHECKPOINT, options(subscribe="orders", subExpression="TagA"))) == 2


def test_another_group_is_an_error_that_reports_what_would_be_lost() -> None:
    with pytest.raises(OptionError) as raised:
        warnings_of(CHECKPOINT, options(consumerGroup="h"))
    assert str(raised.value) == (
        "[ROCKETMQ_CHECKPOINT_OPTION_CHANGED] The checkpoint was written with consumerGroup='g'; the query now "
        "has consumerGroup='h'. Its offsets do not apply to the new value: resuming could skip or repeat "
        "messages. Restore the old value, or use a new checkpoint location (for a file sink also a new path). "
        "With a new one, the query resumes from the group's committed offsets. If it has loadBalance=queue, set "
        "'groupOffsets' to 'ignore' to start from 'startingOffsets' instead. If it has loadBalance=message, brokers "
        "redeliver the messages of an incomplete batch."
    )


def test_a_query_that_read_by_itself_cannot_share_from_now_on() -> None:
    alone = replace(CHECKPOINT, planned_with=BEFORE._replace(message_model="BROADCASTING"))
    with pytest.raises(
        OptionError, match=r"with messageModel='BROADCASTING'; the query now has messageModel='CLUSTERING'\."
    ):
        warnings_of(alone, options())


def test_a_checkpoint_of_before_reports_topics_only() -> None:
    old = SourceOffset(QUEUES)
    assert warnings_of(old, options(consumerGroup="h", subExpression="TagA")) == []
    assert warnings_of(old, options(consumerGroup="h", subscribe="orders")) == [
        f"This checkpoint has offsets of 'payments', but subscribe is 'orders'. {NOTHING_YET}"
    ]
    assert warnings_of(old, options(subscribe="refunds")) == [
        f"This checkpoint has offsets of 'orders,payments', but subscribe is 'refunds'. {NOTHING_YET}"
    ]
    noting = replace(old, planned_with=PlannedWith("g", "CLUSTERING", "*"))
    assert warnings_of(noting, options(subscribe="orders")) == warnings_of(old, options(subscribe="orders"))


def test_a_new_checkpoint_has_nothing_to_report() -> None:
    assert warnings_of(SourceOffset(), options(consumerGroup="h", subExpression="TagA")) == []


def test_errors_are_found_before_anything_is_logged() -> None:
    outcomes = [change.outcome for change in CHANGES]
    assert outcomes == sorted(outcomes, key=[Outcome.ERROR, Outcome.WARNING].index)


def test_queues_that_are_not_assigned_any_more_are_a_warning() -> None:
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "assign": '{"orders":{"b":[9]},"payments":{"b":[9]}}'}
    (warning,) = warnings_of(CHECKPOINT, ReadOptions.parse(given))
    assert warning.startswith("This checkpoint has offsets of 'orders@")
    assert "but assign is 'orders@b:9,payments@b:9'. No data is lost yet." in warning
    all_of_them = {one.topic: {one.broker_name: [one.queue_id]} for one in CHECKPOINT.queues}
    assert warnings_of(CHECKPOINT, ReadOptions.parse(given | {"assign": json.dumps(all_of_them)})) == []
