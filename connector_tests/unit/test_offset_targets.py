"""Where ``rocketmq-spark offsets`` sets a group to."""

from __future__ import annotations

import json

import pytest

from rocketmq_spark.cli.offset_targets import (
    OffsetTarget,
    check_available,
    checkpoint_offsets,
    last_committed,
    offsets_of,
    parse_target,
    selected,
)
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options.kinds import ANY_POSITIONS
from rocketmq_spark.options.queue_positions import EARLIEST, LATEST, QueuePositions
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

A0, A1, B0 = (MessageQueue("orders", *place) for place in (("a", 0), ("a", 1), ("b", 0)))
BOUNDS = {A0: QueueBounds(2, 9), A1: QueueBounds(0, 0), B0: QueueBounds(5, 7)}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", OffsetTarget(EARLIEST)),
        ("latest", OffsetTarget(LATEST)),
        ("0", OffsetTarget(0)),
        ("17", OffsetTarget(17)),
        ("1970-01-01T00:00:01Z", OffsetTarget(timestamp_ms=1_000)),
        ("1970-01-01T01:00:00.5+01:00", OffsetTarget(timestamp_ms=500)),
        ("1970-01-01T00:00:00.0005Z", OffsetTarget(timestamp_ms=1)),
    ],
)
def test_target_is_a_word_an_offset_or_a_time(text: str, target: OffsetTarget) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text", ["", "first", "-1", "1.5", "\u0663", "1969-12-31T00Z", "2026-01-05T14:05", "2026-01-05"]
)
def test_other_text_is_no_target(text: str) -> None:
    with pytest.raises(ValueError):
        parse_target(text)


def test_queues_are_selected_by_broker_and_id() -> None:
    assert selected(BOUNDS, None, None) == BOUNDS
    assert selected(BOUNDS, "a", None).keys() == {A0, A1}
    assert selected(BOUNDS, None, 0).keys() == {A0, B0}
    assert selected(BOUNDS, "b", 0).keys() == {B0}


@pytest.mark.parametrize(
    ("broker_name", "queue_id", "place"), [("c", None, "broker c, queue any"), (None, 7, "broker any, queue 7")]
)
def test_selection_without_a_queue_is_an_error(broker_name: str | None, queue_id: int | None, place: str) -> None:
    with pytest.raises(OptionError) as raised:
        selected(BOUNDS, broker_name, queue_id)
    assert raised.value.context == {"count": 1, "offsets": f"{place} [no such queue]"}
    assert "OFFSETS_NOT_IN_QUEUES" in str(raised.value)


def test_words_are_the_ends_of_each_queue() -> None:
    assert offsets_of(QueuePositions(EARLIEST), BOUNDS) == {A0: 2, A1: 0, B0: 5}
    assert offsets_of(QueuePositions(LATEST), BOUNDS) == {A0: 9, A1: 0, B0: 7}
    listed = ANY_POSITIONS.parse('{"orders":{"a":{"0":-1,"1":0},"b":{"0":"earliest"}}}')
    assert offsets_of(listed, BOUNDS) == {A0: 9, A1: 0, B0: 5}
    assert offsets_of(ANY_POSITIONS.parse('{"orders":"latest"}'), BOUNDS) == {A0: 9, A1: 0, B0: 7}


def test_queues_that_are_not_listed_have_no_offset() -> None:
    assert offsets_of(QueuePositions(queues=((A0, 4),)), BOUNDS) == {A0: 4}


def test_offsets_outside_of_their_queues_are_listed_together() -> None:
    missing = MessageQueue("orders", "a", 7)
    check_available({A0: 2, B0: 7}, BOUNDS)
    with pytest.raises(OptionError) as raised:
        offsets_of(QueuePositions(queues=((A0, 10), (B0, 4), (A1, 0), (missing, 0))), BOUNDS)
    assert raised.value.condition == "OFFSETS_NOT_IN_QUEUES"
    offsets = "orders@a:0: 10 [2, 9], orders@a:7: 0 [no such queue], orders@b:0: 4 [5, 7]"
    assert raised.value.context == {"count": 3, "offsets": offsets}


def offset_log(*sources: object) -> str:
    return "\n".join(["v1", '{"batchWatermarkMs":0}', *(json.dumps(source) for source in sources)])


def offset(**queues: int) -> dict[str, object]:
    ends = {MessageQueue("orders", name, 0): QueueProgress(0, end) for name, end in queues.items()}
    return SourceOffset(ends).to_json()


def test_offsets_of_a_checkpoint_are_the_ends_of_its_batch() -> None:
    assert checkpoint_offsets(offset_log(offset(a=5, b=0)), "dir") == {A0: 5, B0: 0}
    with_others = offset_log(offset(a=5), {"partition": 7}, offset(b=6)) + "\n-\n"
    assert checkpoint_offsets(with_others, "dir") == {A0: 5, B0: 6}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "its offset log has another version than v1"),
        ("v2\n{}\n{}", "its offset log has another version than v1"),
        (offset_log(), "its query reads no RocketMQ topic by queue"),
        (offset_log({"partition": 7}), "its query reads no RocketMQ topic by queue"),
        (offset_log(offset(a=5), offset(a=6)), "its sources have different offsets of orders@a:0"),
    ],
)
def test_checkpoint_without_usable_offsets_is_named(text: str, problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        checkpoint_offsets(text, "dir")
    assert raised.value.condition == "CHECKPOINT_UNREADABLE"
    assert raised.value.context == {"path": "dir", "problem": problem}


def test_last_batch_is_the_largest_number() -> None:
    assert last_committed(["9", "10", "\u0661\u0662", "metadata", ".10.crc"]) == "10"
    assert last_committed([".0.crc"]) is None
