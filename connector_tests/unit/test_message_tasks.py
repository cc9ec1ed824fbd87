"""How messages travel with their tasks, and what an executor makes of them."""

from __future__ import annotations

from typing import Final

import pytest

from connector_tests.support.message_bytes import COMPRESSED, Record
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import CheckPoint, Handle, Received
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import PART_BYTES, TASK_BYTES, TASK_MESSAGES, tasks_of
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.message.stored_message import decode_messages

MIB = 1024 * 1024
REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}


def received(number: int, broker_name: str = "broker-a", size_bytes: int = 1) -> Received:
    handle = Handle(CheckPoint("T", 0, 1, 1, 0, "0", broker_name, 0), number)
    return Received(handle, memoryview(Record(body=b"x" * size_bytes, queue_offset=number).encode()))


def offsets(messages: list[Received], max_records: int | None = None) -> list[list[tuple[str, int]]]:
    """Of each task, (broker, queue offset)."""
    return [
        [
            (part.broker_name, message.queue_offset)
            for part in parts
            for message in decode_messages(part.body, broker_name=part.broker_name)
        ]
        for parts in tasks_of(messages, max_records)
    ]


def test_no_messages_need_no_task() -> None:
    assert tasks_of([], None) == []


def test_a_task_has_as_many_messages_as_the_options_say() -> None:
    messages = [received(number) for number in range(5)]
    assert offsets(messages, 2) == [[("broker-a", 0), ("broker-a", 1)], [("broker-a", 2), ("broker-a", 3)],
                                    [("broker-a", 4)]]  # fmt: skip


def test_a_task_has_a_bounded_number_of_messages_by_itself() -> None:
    assert [len(task) for task in offsets([received(0)] * (TASK_MESSAGES + 1))] == [TASK_MESSAGES, 1]


def test_messages_of_several_brokers_share_a_task() -> None:
    messages = [received(0), received(1, "broker-b"), received(2)]
    assert offsets(messages) == [[("broker-a", 0), ("broker-a", 2), ("broker-b", 1)]]


def test_tasks_and_parts_have_a_bounded_size_and_nothing_is_left_out() -> None:
    messages = [received(number, size_bytes=MIB) for number in range(20)]
    tasks = tasks_of(messages, None)
    assert max(sum(len(part.body) for part in task) for task in tasks) <= TASK_BYTES
    assert max(len(part.body) for task in tasks for part in task) <= PART_BYTES
    assert [offset for task in offsets(messages) for _, offset in task] == list(range(20))


def test_tasks_and_parts_may_be_as_large_as_they_may_be() -> None:
    record = received(0, size_bytes=MIB - len(received(0, size_bytes=0).record))
    tasks = tasks_of([record] * 24, None)
    assert [[len(part.body) for part in task] for task in tasks] == [[PART_BYTES, PART_BYTES]] * 3


def rows(*records: Record, **options: str) -> list[dict[str, object]]:
    handle = Handle(CheckPoint("T", 0, 1, 1, 0, "0", "broker-a", 0), 0)
    (task,) = tasks_of([Received(handle, memoryview(record.encode())) for record in records], None)
    read = read_parts(task, ReadOptions.parse(REQUIRED | options), default_schema())
    return [row for batch in read for row in batch.to_pylist()]


BAD: Final = Record(body=b"no zlib", queue_offset=5, sys_flag=COMPRESSED)


def test_an_executor_makes_rows_of_them_whatever_their_order() -> None:
    found = rows(Record(body=b"b", queue_offset=9, queue_id=3), Record(body=b"a", queue_offset=2, reconsume_times=1))
    assert [(row["topic"], row["brokerName"], row["queueId"], row["queueOffset"]) for row in found] == [
        ("T", "broker-a", 3, 9),
        ("T", "broker-a", 0, 2),
    ]
    assert [(row["body"], row["reconsumeTimes"]) for row in found] == [(b"b", 0), (b"a", 1)]


def test_tags_whose_hashes_are_the_same_are_told_apart() -> None:
    found = rows(Record(properties={"TAGS": "AaAa"}), Record(properties={"TAGS": "BBBB"}), subExpression="AaAa")
    assert [row["tags"] for row in found] == ["AaAa"]


def test_a_bad_message_ends_the_query_or_has_no_body() -> None:
    with pytest.raises(RemoteProtocolError, match=r"BAD_MESSAGE.*offset 5 of T@broker-a:0"):
        rows(BAD)
    assert [(row["queueOffset"], row["body"]) for row in rows(BAD, badMessages="null")] == [(5, None)]
