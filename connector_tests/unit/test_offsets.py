from __future__ import annotations

import json
from typing import Any

import pytest

from connector_tests.support.queues import queue
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import QueueRange
from rocketmq_spark.source.stream.offsets import OffsetReader, PlannedWith, QueueProgress, SourceOffset

SPELLED: dict[str, Any] = {
    "v": 1,
    "queues": {"orders": {"broker-a": {"0": [120, 180, 1763712000000], "1": [7, 7, 1763712000123]}}},
}
OFFSET = SourceOffset({queue(1): QueueProgress(7, 7, 1763712000123), queue(0): QueueProgress(120, 180, 1763712000000)})

PLANNED_WITH = PlannedWith("g", "CLUSTERING", "TagA || TagB")
OPTIONS = PLANNED_WITH.to_json()
PLANNED_WITH_TOPICS = PLANNED_WITH._replace(subscribe="orders,payments", retry_topic="true")
ALL_OPTIONS = PLANNED_WITH_TOPICS.to_json()


def test_it_is_written_as_the_module_defines() -> None:
    assert json.dumps(OFFSET.to_json()) == json.dumps(SPELLED)


def test_checkpoints_of_this_version_stay_readable() -> None:
    """The text below is in checkpoints of users. It may be added to, never changed."""
    text = '{"v": 1, "queues": {"orders": {"broker-a": {"0": [120, 180, 1763712000000], "1": [7, 7, 1763712000123]}}}}'
    assert SourceOffset.from_json(json.loads(text)) == OFFSET


def test_checkpoints_of_version_2_stay_readable() -> None:
    """As the text above."""
    text = (
        '{"v": 2, "queues": {"orders": {"broker-a": {"0": [120, 180, 1763712000000], "1": [7, 7, 1763712000123]}}}, '
        '"options": {"consumerGroup": "g", "messageModel": "CLUSTERING", "subExpression": "TagA || TagB"}}'
    )
    offset = SourceOffset.from_json(json.loads(text))
    assert (offset, offset.planned_with) == (OFFSET, PLANNED_WITH)
    assert json.dumps(offset.to_json()) == text


def test_checkpoints_of_version_3_stay_readable() -> None:
    """As the text above."""
    text = (
        '{"v": 3, "queues": {"orders": {"broker-a": {"0": [120, 180, 1763712000000], "1": [7, 7, 1763712000123]}}}, '
        '"options": {"consumerGroup": "g", "messageModel": "CLUSTERING", "subExpression": "TagA || TagB", '
        '"subscribe": "orders,payments", "retryTopic": "true"}}'
    )
    offset = SourceOffset.from_json(json.loads(text))
    assert (offset, offset.planned_with) == (OFFSET, PLANNED_WITH_TOPICS)
    assert json.dumps(offset.to_json()) == text


def test_checkpoints_of_version_4_stay_readable() -> None:
    """As the text above."""
    text = (
        '{"v": 4, "queues": {"orders": {"broker-a": {"0": [120, 180, 1763712000000], "1": [7, 7, 1763712000123]}}}, '
        '"options": {"consumerGroup": "g", "messageModel": "CLUSTERING", "subExpression": "TagA || TagB", '
        '"subscribe": "orders,payments", "retryTopic": "true"}, "checkpoint": "6f1e8d0c"}'
    )
    offset = SourceOffset.from_json(json.loads(text))
    assert (offset, offset.planned_with) == (OFFSET, PLANNED_WITH_TOPICS._replace(checkpoint_id="6f1e8d0c"))
    assert json.dumps(offset.to_json()) == text


def test_with_which_options_a_batch_was_planned_is_no_part_of_the_place() -> None:
    assert SourceOffset(OFFSET.queues, PLANNED_WITH) == OFFSET


def test_the_order_in_which_json_is_read_does_not_matter() -> None:
    turned_round = {"queues": {"orders": {"broker-a": dict(reversed(SPELLED["queues"]["orders"]["broker-a"].items()))}}}
    assert SourceOffset.from_json({**turned_round, "v": 1}) == OFFSET


def test_offset_zero_is_a_real_offset() -> None:
    offset = SourceOffset({queue(0): QueueProgress(0, 0, 0), queue(1): QueueProgress(0, 1, 0)})
    assert SourceOffset.from_json(offset.to_json()) == offset


def test_the_initial_offset_has_no_queues() -> None:
    assert SourceOffset().to_json() == {"v": 1, "queues": {}}
    assert SourceOffset.from_json({"v": 1, "queues": {}}) == SourceOffset()


def test_queue_ids_are_ordered_as_numbers() -> None:
    offset = SourceOffset({queue(number): QueueProgress(0, 1) for number in (10, 9, 1)})
    assert list(offset.to_json()["queues"]["orders"]["broker-a"]) == ["1", "9", "10"]


def test_the_end_offset_alone_defines_what_its_batch_reads() -> None:
    assert list(OFFSET.ranges()) == [QueueRange(queue(0), 120, 180)]


def test_what_the_next_batch_does_not_read_rests_at_its_end() -> None:
    planned = {queue(1): QueueProgress(7, 9, 5), queue(2): QueueProgress(0, 3, 6)}
    assert OFFSET.advanced(planned).queues == {
        queue(0): QueueProgress(180, 180, 1763712000000),
        queue(1): QueueProgress(7, 9, 5),
        queue(2): QueueProgress(0, 3, 6),
    }


def with_numbers(*numbers: object, queue_id: str = "0") -> dict[str, Any]:
    return {"v": 1, "queues": {"orders": {"broker-a": {queue_id: list(numbers)}}}}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"v": 5, "queues": {}}, id="a later version"),
        pytest.param({"v": 4, "queues": {}, "options": ALL_OPTIONS}, id="version 4 without a name"),
        pytest.param({"v": 4, "queues": {}, "options": ALL_OPTIONS, "checkpoint": 1}, id="a name that is no text"),
        pytest.param({"v": 3, "queues": {}, "options": ALL_OPTIONS, "checkpoint": "x"}, id="version 3 with a name"),
        pytest.param({"v": 3, "queues": {}, "options": OPTIONS}, id="version 3 without topics"),
        pytest.param({"v": 2, "queues": {}, "options": ALL_OPTIONS}, id="version 2 with topics"),
        pytest.param({"v": 3, "queues": {}, "options": {**ALL_OPTIONS, "retryTopic": True}}, id="no text"),
        pytest.param({"v": 2, "queues": {}}, id="version 2 without options"),
        pytest.param({"v": 1, "queues": {}, "options": OPTIONS}, id="version 1 with options"),
        pytest.param({"v": 2, "queues": {}, "options": {**OPTIONS, "more": "x"}}, id="an option that is not known"),
        pytest.param(
            {"v": 2, "queues": {}, "options": {**OPTIONS, "consumerGroup": 1}}, id="an option that is no text"
        ),
        pytest.param({"v": 2, "queues": {}, "options": {"consumerGroup": "g"}}, id="options that are missing"),
        pytest.param({"v": 2, "queues": {}, "options": None}, id="no options"),
        pytest.param({"v": 0, "queues": {}}, id="an earlier version"),
        pytest.param({"v": "1", "queues": {}}, id="a version as text"),
        pytest.param({"v": True, "queues": {}}, id="a version that only equals 1"),
        pytest.param({"v": 1.0, "queues": {}}, id="a version that is no integer"),
        pytest.param({"queues": {}}, id="no version"),
        pytest.param({"v": 1}, id="no queues"),
        pytest.param({"v": 1, "queues": {}, "more": 1}, id="something that this version does not know"),
        pytest.param({"v": 1, "queues": []}, id="queues that are no table"),
        pytest.param({"v": 1, "queues": {"orders": {}}}, id="a topic without queues"),
        pytest.param({"v": 1, "queues": {"orders": None}}, id="a topic that is null"),
        pytest.param(with_numbers(1, 2), id="no store time"),
        pytest.param(with_numbers(1, 2, 3, 4), id="a number too many"),
        pytest.param(with_numbers(2, 1, 0), id="an end before the begin"),
        pytest.param(with_numbers(-1, 1, 0), id="a negative offset"),
        pytest.param(with_numbers(1.0, 2.0, 3.0), id="floats"),
        pytest.param(with_numbers(False, True, 0), id="booleans"),
        pytest.param(with_numbers("1", "2", "3"), id="numbers as text"),
        pytest.param(with_numbers(1, 2, 3, queue_id="00"), id="a queue id with a leading zero"),
        pytest.param(with_numbers(1, 2, 3, queue_id=" 0"), id="a queue id with a space"),
        pytest.param(with_numbers(1, 2, 3, queue_id="٠"), id="a queue id in other digits"),
        pytest.param(with_numbers(1, 2, 3, queue_id="first"), id="a queue id that is no number"),
        pytest.param(None, id="null"),
        pytest.param([1], id="a list"),
        pytest.param("offset", id="text"),
        pytest.param(1, id="a number"),
    ],
)
def test_whatever_this_version_does_not_write_is_refused(value: object) -> None:
    with pytest.raises(OptionError) as raised:
        SourceOffset.from_json(value)
    assert raised.value.condition == "INCOMPATIBLE_CHECKPOINT"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (with_numbers(1, 2, 3, queue_id="00"), "another spelling"),
        (with_numbers(1, 2, "3"), "not integers: [1, 2, '3']"),
        (with_numbers(2, 1, 0), "not a range: [2, 1, 0]"),
        (with_numbers(1, 2, 3, queue_id="-1"), "queue ID in a checkpoint: -1, at most 2147483647 are accepted"),
        (
            {"v": 2, "queues": {}, "options": {"consumerGroup": "g", "messageModel": 1, "subExpression": "*"}},
            "not texts: ['g', 1, '*']",
        ),
    ],
)
def test_a_refusal_reports_why_and_of_what(value: object, problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        SourceOffset.from_json(value)
    assert raised.value.context == {"problem": f"{problem} in {value}"}


def test_a_reader_refuses_what_is_no_offset_at_its_first_call_too() -> None:
    reader = OffsetReader()
    values: list[object] = [None, "", {}]
    for value in values:
        with pytest.raises(OptionError, match="INCOMPATIBLE_CHECKPOINT"):
            reader.read(value)
    assert reader.read({"v": 1, "queues": {}}) == SourceOffset()


def test_a_reader_gives_the_same_offset_for_an_equal_value() -> None:
    reader = OffsetReader()
    first = reader.read(SPELLED)
    assert first == OFFSET
    assert reader.read(json.loads(json.dumps(SPELLED))) is first
    written = SourceOffset({queue(0): QueueProgress(1, 2, 3)})
    assert reader.read(reader.write(written)) is written


def test_a_batchs_ranges_are_in_javas_order_of_names() -> None:
    """By UTF-16: a character beyond the first 65,536 is a pair of surrogates, and those come before U+E000 and on."""
    beyond, private = queue(0, broker_name="\U00010000"), queue(0, broker_name="\ue000")
    offset = SourceOffset({private: QueueProgress(0, 1), beyond: QueueProgress(0, 1)})
    assert [one.queue for one in offset.ranges()] == [beyond, private]


def test_checkpoints_of_version_5_stay_readable() -> None:
    """That of a query with a pattern, as the text above. Without a queue it records that the query has begun."""
    text = (
        '{"v": 5, "queues": {}, "options": {"consumerGroup": "g", "messageModel": "CLUSTERING", "subExpression": "*", '
        '"subscribe": "", "retryTopic": "false", "subscribePattern": "orders-.*"}, "checkpoint": "6f1e"}'
    )
    offset = SourceOffset.from_json(json.loads(text))
    assert offset.planned_with == PlannedWith("g", "CLUSTERING", "*", "", "false", "6f1e", "orders-.*")
    assert json.dumps(offset.to_json()) == text
    assert offset.has_begun
    assert not SourceOffset().has_begun


def test_a_refusal_shows_the_versions() -> None:
    with pytest.raises(OptionError, match=r"version 6, not 1 to 5, in \{'v': 6"):
        SourceOffset.from_json({"v": 6, "queues": {"orders": {}}})


def test_a_refusal_of_a_huge_value_stays_short() -> None:
    with pytest.raises(OptionError) as raised:
        SourceOffset.from_json(["x" * 100_000])
    assert str(raised.value.context["problem"]).endswith(" in ['" + "x" * 198)
