from __future__ import annotations

import pyarrow as pa
import pytest

from rocketmq_spark.sink.dead_letters import NO_BODY, dead_letters
from rocketmq_spark.sink.outgoing_rows import outgoing_rows

BODIES = pa.array([b"good", b"", b"much too long", None], pa.binary())
TOPICS = pa.array(["T", "bad\x01 name", "T", None])
POSITIONS = {"body": 0, "topic": 1, "tags": 2}
PROBLEMS = {1: "its body\x02 is empty", 2: "x" * 300, 3: "its body is empty"}


def test_a_row_that_cannot_be_sent_becomes_a_message_that_says_what_it_was() -> None:
    batch = pa.record_batch([BODIES, TOPICS, pa.array([""] * 4)], names=["b", "t", "g"])
    rows = outgoing_rows(batch, POSITIONS, None, 10)
    letters = dead_letters(rows, PROBLEMS, "partition 3 of query q batch 1", "DEAD", max_body_bytes=8)
    assert letters.numbers.tolist() == [11, 12, 13]
    assert letters.topics.to_pylist() == ["DEAD"] * 3
    assert letters.bodies.to_pylist() == [NO_BODY[:8], b"much too", NO_BODY[:8]]
    assert letters.properties is None
    assert {name: values.to_pylist() for name, values in letters.texts.items()} == {
        "UNSENDABLE_PROBLEM": [b"its body  is empty", b"x" * 200, b"its body is empty"],
        "UNSENDABLE_ROW": [b"row %d of partition 3 of query q batch 1" % row for row in (11, 12, 13)],
        "UNSENDABLE_TOPIC": [b"bad  name", b"T", None],
    }


def test_a_topic_that_is_no_text_is_told_as_java_would_read_it() -> None:
    topics = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xff"], pa.binary()).buffers())
    batch = pa.record_batch([pa.array([b"body"]), topics, pa.array(["t"])], names=["b", "t", "g"])
    letters = dead_letters(outgoing_rows(batch, POSITIONS, None, 0), {0: "why"}, "a", "DEAD", max_body_bytes=8)
    assert letters.texts["UNSENDABLE_TOPIC"].to_pylist() == ["a\ufffd".encode()]


@pytest.mark.parametrize("problems", [{}, {3: "it has no topic"}])
def test_whatever_is_missing_the_messages_have_the_types_of_others(problems: dict[int, str]) -> None:
    batch = pa.record_batch([BODIES, TOPICS, pa.array([""] * 4)], names=["b", "t", "g"])
    letters = dead_letters(outgoing_rows(batch, POSITIONS, None, 10), problems, "a", "DEAD", max_body_bytes=8)
    assert len(letters) == len(problems)
    assert {values.type for values in (letters.bodies, *letters.texts.values())} == {pa.binary()}
