from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rocketmq_spark.model import QueueData, TopicRoute
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, outgoing_rows
from rocketmq_spark.sink.topic_lookup import (
    TopicRequirement,
    lost_without_keys,
    no_such_broker,
    no_such_queue,
    requirements_of,
)

TYPES = {
    "body": pa.binary(),
    "topic": pa.string(),
    "keys": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int32(),
}
ROUTE = TopicRoute("T", (), (QueueData("b", 1, 1, 6), QueueData("a", 4, 4, 6), QueueData("read only", 1, 0, 4)))


def rows_of(*rows: dict[str, Any], without: tuple[str, ...] = ()) -> OutgoingRows:
    names = [name for name in TYPES if name not in without]
    columns = [pa.array([{"body": b"b", "topic": "T", **row}.get(name) for row in rows], TYPES[name]) for name in names]
    batch = pa.record_batch(columns, names=names)
    return outgoing_rows(batch, {name: position for position, name in enumerate(names)}, None, 0)


def test_rows_want_each_topic_queue_and_whether_they_have_keys_once() -> None:
    rows = rows_of(
        {"keys": "k"},
        {},
        {"keys": "other"},
        {"topic": None},
        {"topic": "U", "keys": "k", "brokerName": "a", "queueId": 7},
        {"topic": "U", "keys": "k", "brokerName": "a", "queueId": 7},
    )
    row_requirements = requirements_of(rows, excluded=[3])
    queue = TopicRequirement("U", "a", 7, has_keys=True)
    assert set(row_requirements.requirements) == {TopicRequirement("T", has_keys=True), TopicRequirement("T"), queue}
    assert row_requirements.problems({}) == {}
    assert row_requirements.problems({queue: "no queue"}) == {4: "no queue", 5: "no queue"}
    assert row_requirements.problems({TopicRequirement("T"): "no keys", queue: "no queue"}) == {
        1: "no keys",
        4: "no queue",
        5: "no queue",
    }


def test_rows_without_these_columns_want_a_topic_for_rows_without_keys() -> None:
    row_requirements = requirements_of(rows_of({}, {}, without=("keys", "brokerName", "queueId")), excluded=[])
    assert row_requirements.requirements == (TopicRequirement("T"),)
    assert row_requirements.problems({TopicRequirement("T"): "x"}) == {0: "x", 1: "x"}


def test_keys_that_java_regards_as_blank_are_none() -> None:
    """``Character.isWhitespace`` excludes the no-break spaces."""
    blank = [" ", "  \t\n", "\x1c\x1f", "\u1680\u2000\u2006\u2008\u200a\u2028\u2029\u205f\u3000 "]
    other = ["k", " k ", "\u00a0", "\u2007", "\u202f", "\u200b"]
    requirements = requirements_of(rows_of(*({"keys": text} for text in [*blank, *other])), excluded=[])
    problems = requirements.problems({TopicRequirement("T"): "no keys"})
    assert list(problems) == list(range(len(blank)))


def test_where_all_rows_have_problems_nothing_is_required() -> None:
    assert requirements_of(rows_of({}, {}), excluded=[0, 1]).requirements == ()


@pytest.mark.parametrize(
    ("broker", "queue_id", "problem"),
    [
        (None, None, None),
        ("a", 3, None),
        ("b", 0, None),
        ("a", 4, "its topic 'T' has no queue 4 at 'a' (there are: 0 to 3)"),
        ("b", 1, "its topic 'T' has no queue 1 at 'b' (there are: 0 to 0)"),
        ("read only", 0, "its topic 'T' has no queue 0 at 'read only' (there is none)"),
        ("away", 0, None),
    ],
)
def test_a_queue_that_a_topic_does_not_have_is_reported_with_those_that_it_has(
    broker: str | None, queue_id: int | None, problem: str | None
) -> None:
    assert no_such_queue(TopicRequirement("T", broker, queue_id), ROUTE) == problem


def test_a_broker_that_has_nothing_of_a_topic_is_reported_with_those_that_have() -> None:
    problem = "no broker 'c' serves its topic 'T' (there are: a, b, read only)"
    assert no_such_broker(TopicRequirement("T", "c", 0), ROUTE) == problem


def test_what_a_compacted_topic_loses_is_reported_with_why() -> None:
    assert lost_without_keys("T") == (
        "it has no keys, and its topic 'T' keeps the last message of each key and no other (COMPACTION)"
    )
