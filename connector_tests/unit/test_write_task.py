from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink import write_task as tasks
from rocketmq_spark.sink.message_ids import row_ids, task_key
from rocketmq_spark.sink.send_batches import RowTarget, SendBatch, named_queue
from rocketmq_spark.sink.topic_lookup import TopicRequirement
from rocketmq_spark.sink.write_task import KINDS, NONE, Columns, WriteTask, compressed, write_rows
from rocketmq_spark.wire.message.batch import InnerMessage, decode_batch
from rocketmq_spark.wire.message.compression import decompress
from rocketmq_spark.wire.message.properties import decode_properties
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

LIMIT_BYTES = 2_000
TOO_LARGE = bytes(LIMIT_BYTES + 1)
OPTIONS = WriteOptions.parse({"namesrvAddr": "n:9876", "topic": "T", "maxMessageBytes": str(LIMIT_BYTES)})
COLUMNS = Columns({"body": 0, "tags": 1, "properties": 2})
TASK = WriteTask("query q batch 1", 3)


class Sent:
    """A sender that stores at once."""

    def __init__(self) -> None:
        self.batches: list[SendBatch] = []
        self.is_finished = False
        self.topics_requested: list[list[str]] = []

    @property
    def topics(self) -> Sent:
        return self

    def find_problems(
        self, requirements: Collection[TopicRequirement], *, first_only: bool
    ) -> dict[TopicRequirement, str]:
        self.topics_requested.append(sorted(one.topic for one in requirements))
        return {one: "nobody serves it" for one in requirements if one.topic == "missing"}

    def resolve_queue(self, target: RowTarget) -> MessageQueue | None:
        return named_queue(target)

    def send(self, batch: SendBatch) -> None:
        self.batches.append(batch)

    def finish(self) -> None:
        self.is_finished = True

    def messages(self) -> list[InnerMessage]:
        return [message for batch in self.batches for message in decode_batch(bytes(batch.body))]


def arrow(*bodies: Any) -> pa.RecordBatch:
    tags = pa.array([f"t{index}" if index % 2 else None for index in range(len(bodies))], pa.string())
    maps = pa.array([[("a", "b")] for _ in bodies], pa.map_(pa.string(), pa.string()))
    return pa.record_batch([pa.array(bodies, pa.binary()), tags, maps], names=["body", "tags", "properties"])


def written(
    *batches: pa.RecordBatch, task: WriteTask = TASK, columns: Columns = COLUMNS, options: WriteOptions = OPTIONS
) -> list[InnerMessage]:
    sent = Sent()
    assert write_rows(batches, columns, task, options, sent) == sum(map(len, batches))
    assert sent.is_finished
    return sent.messages()


def test_all_rows_are_sent_with_what_their_columns_contain() -> None:
    messages = written(arrow(b"a", b"b"), arrow(b"c"))
    assert [message.body for message in messages] == [b"a", b"b", b"c"]
    without_id = [{name: value for name, value in one.properties.items() if name != "UNIQ_KEY"} for one in messages]
    assert without_id == [{"a": "b"}, {"TAGS": "t1", "a": "b"}, {"a": "b"}]


def test_a_row_has_the_same_id_however_often_its_task_is_run_and_whatever_arrow_batches_it_comes_in() -> None:
    rows = arrow(b"a", b"b", b"c")
    ids = [message.properties["UNIQ_KEY"] for message in written(rows.slice(0, 2), rows.slice(2))]
    assert len(set(ids)) == 3
    assert [message.properties["UNIQ_KEY"] for message in written(rows.slice(0, 1), rows.slice(1))] == ids
    assert [message.properties["UNIQ_KEY"] for message in written(rows)] == ids
    for other in (WriteTask(TASK.job, 4), WriteTask("query q batch 2", 3)):
        others = [message.properties["UNIQ_KEY"] for message in written(rows, task=other)]
        assert set(others).isdisjoint(ids)


@pytest.mark.parametrize("column", ["body", "topic", "tags", "properties", "brokerName", "queueId", "delaySeconds"])
def test_a_row_with_another_value_in_any_column_has_another_id(column: str) -> None:
    """At its place there was another row in an earlier attempt."""
    arrays = {
        "body": pa.array([b"a", b"b"]),
        "topic": pa.array(["T", "T2"]),
        "tags": pa.array(["t", None]),
        "properties": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
        "brokerName": pa.array(["x", "y"]),
        "queueId": pa.array([0, 1]),
        "delaySeconds": pa.array([None, 5], pa.int64()),
    }
    columns, options = Columns({name: at for at, name in enumerate(arrays)}), replace(OPTIONS, topic=None)
    first = {name: values.slice(0, 1) for name, values in arrays.items()}
    one, other = Sent(), Sent()
    write_rows([pa.record_batch(first)], columns, TASK, options, one)
    write_rows([pa.record_batch(first | {column: arrays[column].slice(1)})], columns, TASK, options, other)
    assert _id_in(one) != _id_in(other)


def _id_in(sent: Sent) -> str:
    (batch,) = sent.batches
    if batch.properties is not None:
        return decode_properties(batch.properties.encode())["UNIQ_KEY"]
    (message,) = sent.messages()
    return message.properties["UNIQ_KEY"]


def test_what_is_encoded_at_once_has_no_part_in_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [message.properties["UNIQ_KEY"] for message in written(arrow(b"aa", b"bb", b"cc"))]
    monkeypatch.setattr(tasks, "ENCODED_BYTES", 4)
    assert [message.properties["UNIQ_KEY"] for message in written(arrow(b"aa", b"bb", b"cc"))] == ids


@pytest.mark.parametrize("column", ["tags", "shardingKey", "topic"])
def test_a_row_with_text_that_is_none_is_named(column: str) -> None:
    """Of a delayed row, a key or a topic it was a UnicodeDecodeError without a row."""
    malformed = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff"], pa.binary()).buffers())
    arrays = {"body": pa.array([b"a", b"b"]), "delayLevel": pa.array([1, 1], pa.int32()), column: malformed}
    columns = Columns({name: position for position, name in enumerate(arrays)})
    options = replace(OPTIONS, topic=None) if column == "topic" else OPTIONS
    sent = Sent()
    with pytest.raises(LocalProtocolError, match=r"^\[ROCKETMQ_INVALID_ROW\] Invalid row 1 in partition 3 "):
        write_rows([pa.record_batch(arrays)], columns, TASK, options, sent)
    assert sent.batches == []
    dead = replace(options, dead_letter_topic="DEAD")
    assert write_rows([pa.record_batch(arrays)], columns, TASK, dead, sent) == 2
    assert [(batch.topic, batch.first_row) for batch in sent.batches] == [
        ("ok" if options.topic is None else "T", 0),
        ("DEAD", 1),
    ]


@pytest.mark.parametrize("encoded_bytes", [tasks.ENCODED_BYTES, 2], ids=["at once", "in pieces"])
def test_rows_for_a_topic_without_brokers_are_named_before_anything_of_their_arrow_batch_is_sent(
    monkeypatch: pytest.MonkeyPatch, encoded_bytes: int
) -> None:
    """Rows for the other topic were stored by then."""
    monkeypatch.setattr(tasks, "ENCODED_BYTES", encoded_bytes)
    batch = pa.record_batch({"body": pa.array([b"a", b"b", b"c", b""]), "topic": pa.array(["T", "T", "missing", "x"])})
    columns, options, sent = Columns({"body": 0, "topic": 1}), replace(OPTIONS, topic=None), Sent()
    with pytest.raises(LocalProtocolError, match=r"Invalid row 3 .*its body is empty"):
        write_rows([batch], columns, TASK, options, sent)
    with pytest.raises(LocalProtocolError) as raised:
        write_rows([batch.slice(0, 3)], columns, TASK, options, sent)
    assert (
        "Invalid row 2 in partition 3 of query q batch 1: nobody serves it. This Arrow batch has 1 invalid row;"
    ) in str(raised.value)
    assert sent.batches == []

    write_rows([batch], columns, TASK, replace(options, dead_letter_topic="DEAD"), sent)
    assert {batch.topic for batch in sent.batches} == {"T", "DEAD"}
    dead = [one.properties for one in sent.messages() if "INVALID_ROW_POSITION" in one.properties]
    assert [(one["INVALID_ROW_TOPIC"], one["INVALID_ROW_PROBLEM"]) for one in dead] == [
        ("missing", "nobody serves it"),
        ("x", "its body is empty, and brokers reject it"),
    ]
    assert sent.topics_requested == [["T", "missing"], ["T", "missing"], ["DEAD"]]


def test_a_dead_letter_topic_that_takes_nothing_is_reported_before_anything_is_sent() -> None:
    batch = pa.record_batch({"body": pa.array([b"a", b""]), "topic": pa.array(["T", "T"])})
    columns, options, sent = Columns({"body": 0, "topic": 1}), replace(OPTIONS, topic=None), Sent()
    with pytest.raises(LocalProtocolError) as raised:
        write_rows([batch], columns, TASK, replace(options, dead_letter_topic="missing"), sent)
    assert (
        "Invalid row 1 in partition 3 of query q batch 1: its body is empty, and brokers reject it; and "
        "'deadLetterTopic' cannot be used: nobody serves it. This Arrow batch has 1 invalid row;"
    ) in str(raised.value)
    assert sent.batches == []


@pytest.mark.parametrize("encoded_bytes", [tasks.ENCODED_BYTES, 4], ids=["at once", "in pieces"])
def test_a_row_that_no_broker_takes_is_named_and_nothing_else_is_sent(
    monkeypatch: pytest.MonkeyPatch, encoded_bytes: int
) -> None:
    """Of 20 large rows and one that was too large, 16 were sent."""
    monkeypatch.setattr(tasks, "ENCODED_BYTES", encoded_bytes)
    sent = Sent()
    with pytest.raises(LocalProtocolError) as raised:
        write_rows([arrow(b"a", b"b"), arrow(b"c", TOO_LARGE, b"")], COLUMNS, TASK, OPTIONS, sent)
    assert str(raised.value).startswith(
        "[ROCKETMQ_INVALID_ROW] Invalid row 3 in partition 3 of query q batch 1: its body has 2001 bytes, and "
        "2000 is the most. This Arrow batch has 2 invalid rows; none of its rows was sent."
    )
    assert [message.body for message in sent.messages()] == [b"a", b"b"]
    assert not sent.is_finished


def test_no_batch_is_larger_than_a_message_may_be() -> None:
    """A broker holds both to its maxMessageSize."""
    sent = Sent()
    write_rows([arrow(*[b"a" * 100] * 50)], COLUMNS, TASK, OPTIONS, sent)
    assert sum(batch.row_count for batch in sent.batches) == 50
    assert max(batch.row_count for batch in sent.batches) > 1
    assert max(len(batch.body) for batch in sent.batches) <= LIMIT_BYTES


def test_ids_of_columns_are_the_same_whatever_task_and_place_a_row_has() -> None:
    of_bodies = replace(COLUMNS, id_positions=(0,))
    forwards = written(arrow(b"a", b"b", b"a"), columns=of_bodies)
    again = written(arrow(b"c"), arrow(b"a", b"b"), columns=of_bodies, task=WriteTask("query r batch 9", 0))
    ids = [message.properties["UNIQ_KEY"] for message in forwards]
    assert ids[0] == ids[2] != ids[1]
    assert [message.properties["UNIQ_KEY"] for message in again[1:]] == ids[:2]
    assert {len(one) for one in ids} == {32}


def test_null_in_an_id_column_makes_a_row_invalid_and_its_dead_letter_has_an_id_of_its_own() -> None:
    """``arrow`` leaves every other tag null."""
    of_tags = replace(COLUMNS, id_positions=(0, 1))
    with pytest.raises(LocalProtocolError, match="a column of 'messageIdColumns' is null") as refused:
        written(arrow(b"a", b"a"), columns=of_tags)
    assert "row 0" in str(refused.value)
    rows = arrow(b"a", b"b", b"a", b"c")
    messages = written(rows, columns=of_tags, options=replace(OPTIONS, dead_letter_topic="DEAD"))
    assert [message.body for message in messages] == [b"b", b"c", b"a", b"a"]
    assert len({message.properties["UNIQ_KEY"] for message in messages}) == 4


def test_large_bodies_are_compressed_by_the_options() -> None:
    options = replace(OPTIONS, compression="zlib", compress_over_bytes=99)
    sent = Sent()
    write_rows([arrow(b"a" * 99, b"a" * 100)], COLUMNS, TASK, options, sent)
    assert [(batch.sys_flag, batch.row_count) for batch in sent.batches] == [(0, 1), (0x301, 1)]
    assert zlib.decompress(sent.messages()[1].body) == b"a" * 100


def id_at(number: int, body: bytes) -> str:
    """Return the ID of a row of ``arrow``, whether or not it can be sent."""
    contents = [b"T", body, b"TAGS\x01t%d\x02" % number if number % 2 else b"", b"a\x01b\x02"]
    columns = [pa.array([value], pa.binary()) for value in contents]
    ids: list[bytes] = row_ids(task_key(TASK.job, TASK.partition_id), number, columns).tolist()
    return ids[0].decode()


def test_rows_that_cannot_be_sent_go_to_the_dead_letter_topic_if_there_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others are sent as they would be without them, with the same ids."""
    sent = Sent()
    options = replace(OPTIONS, dead_letter_topic="DEAD")
    batch = arrow(b"a", b"", b"b", TOO_LARGE)
    assert write_rows([batch], COLUMNS, TASK, options, sent) == 4
    good, without_body, too_large = sent.batches
    assert [batch.topic for batch in sent.batches] == ["T", "DEAD", "DEAD"]
    sent.batches = [good, without_body]
    messages = sent.messages()
    assert [message.body for message in messages] == [b"a", b"b", b"(no body)"]
    ids = [message.properties["UNIQ_KEY"] for message in written(arrow(b"a", b"x", b"b", b"y"))]
    ids[1], ids[3] = (id_at(number, body) for number, body in ((1, b""), (3, TOO_LARGE)))
    assert [message.properties["UNIQ_KEY"] for message in messages] == [ids[0], ids[2], ids[1]]
    assert messages[1].properties == {"UNIQ_KEY": ids[2], "a": "b"}
    assert (too_large.row_count, bytes(too_large.body)) == (1, TOO_LARGE[:LIMIT_BYTES])
    assert too_large.properties is not None
    assert decode_properties(too_large.properties.encode()) == {
        "UNIQ_KEY": ids[3],
        "INVALID_ROW_PROBLEM": "its body has 2001 bytes, and 2000 is the most",
        "INVALID_ROW_POSITION": "row 3 of partition 3 of query q batch 1",
        "INVALID_ROW_TOPIC": "T",
    }
    (record,) = caplog.records
    assert record.getMessage() == (
        "INVALID_ROW: Sending 2 invalid rows of partition 3 of query q batch 1 to dead-letter topic=DEAD; first: "
        "row=1: its body is empty, and brokers reject it"
    )


BODIES = pa.array([b"short", b"x" * 5_000, b"y" * 4_096, b"z" * 4_097], pa.binary())


@pytest.mark.parametrize("compression", KINDS)
def test_large_bodies_are_compressed_and_flagged(compression: str) -> None:
    bodies, flags = compressed(BODIES, compression, 4_096)
    flag = int(MessageSysFlag.COMPRESSED | KINDS[compression])
    assert (flags.tolist(), flags.dtype) == ([0, flag, 0, flag], np.dtype(np.int32))
    values = bodies.to_pylist()
    assert (values[0], values[2]) == (b"short", b"y" * 4_096)
    assert [decompress(values[row], flag) for row in (1, 3)] == [b"x" * 5_000, b"z" * 4_097]
    assert len(values[1]) < 1_000
    assert bodies.type == pa.binary()


def test_without_compression_bodies_stay_as_they_are() -> None:
    bodies, flags = compressed(BODIES, NONE, 0)
    assert bodies is BODIES
    assert not flags.any()


@pytest.mark.parametrize("compression", KINDS)
def test_what_would_become_larger_stays_as_it_is(compression: str) -> None:
    """A body of the largest size that a broker takes was beyond it when it was compressed, and its dead letter too."""
    noise = Random(7).randbytes(10_000)
    bodies, flags = compressed(pa.array([noise, b"x" * 10_000], pa.binary()), compression, 4_096)
    assert bodies[0].as_py() == noise
    assert flags.tolist() == [0, int(MessageSysFlag.COMPRESSED | KINDS[compression])]
