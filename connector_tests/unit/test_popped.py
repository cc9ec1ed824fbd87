"""Popped: messages by what a broker answers to a pop, and what it is told of them."""

from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record, pull_body
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.pop.handles import AnyHandle, CheckPoint, Handle
from rocketmq_spark.pop.popped import acks_of, received_of
from rocketmq_spark.wire.body.batch_ack import BatchAck
from rocketmq_spark.wire.remoting.headers import PopMessageResponse

TIME_MS = 1_795_445_135_749
CHECK_POINT = CheckPoint("T", 100, TIME_MS, 60_000, 3, "0", "broker-a", 7)


def answer(start_offsets: str | None) -> PopMessageResponse:
    return PopMessageResponse(pop_time_ms=TIME_MS, invisible_ms=60_000, revive_queue_id=3, start_offsets=start_offsets)


def received(start_offsets: str | None, *records: Record) -> list[AnyHandle]:
    return [one.handle for one in received_of("T", "broker-a", answer(start_offsets), memoryview(pull_body(*records)))]


def test_messages_of_the_topic_itself_have_the_handles_of_their_queues() -> None:
    records = [Record(queue_id=7, queue_offset=100), Record(queue_id=7, queue_offset=102), Record(queue_id=8)]
    assert received("0 7 100;0 8 0", *records) == [
        Handle(CHECK_POINT, 100),
        Handle(CHECK_POINT, 102),
        Handle(CHECK_POINT._replace(start_offset=0, queue_id=8), 0),
    ]


def test_a_record_is_as_it_is_stored() -> None:
    first, second = Record(queue_id=7, queue_offset=100), Record(body=b"other", queue_id=7, queue_offset=101)
    body = memoryview(pull_body(first, second))
    records = [bytes(one.record) for one in received_of("T", "broker-a", answer("0 7 100"), body)]
    assert records == [first.encode(), second.encode()]
    records = [bytes(one.record) for one in received_of("T", "broker-a", answer("1 7 3;0 7 100"), body)]
    assert records == [first.encode(), second.encode()], "beside those of a retry topic"


def test_an_answer_without_messages_has_none_to_tell_of() -> None:
    assert received(None) == []


def test_a_message_that_comes_again_brings_its_handle_and_others_beside_it_do_not() -> None:
    """The queue that it comes from has the number of one of the topic itself."""
    again = Record(queue_id=7, queue_offset=3, properties={"POP_CK": f"3 {TIME_MS} 60000 3 1 broker-a 7 3"})
    first = Record(queue_id=7, queue_offset=100, body=b"POP_CK\x01")
    handles = received("1 7 3;0 7 100", again, first)
    assert handles == [Handle(CHECK_POINT._replace(start_offset=3, retry="1"), 3), Handle(CHECK_POINT, 100)]
    assert [handle.real_topic("g") for handle in handles if isinstance(handle, Handle)] == ["%RETRY%g_T", "T"]


@pytest.mark.parametrize("start_offsets", [None, "", "0 8 1", "0 7", "x", "1 7 100", "0  7 100"])
def test_a_message_without_a_handle_is_an_error(start_offsets: str | None) -> None:
    with pytest.raises(RemoteProtocolError, match=r"BAD_HEADER.*PopMessageResponse cannot be read: .*startOffsetInfo"):
        received(start_offsets, Record(queue_id=7, queue_offset=100))


@pytest.mark.parametrize(
    ("spelled", "problem"),
    [
        ("3 1 60000 3 9 broker-a 7 3", "retry flag '9'"),
        ("3 1 60000 3 1 broker-a 7", "not enough values"),
        ("3  1 60000 3 1 broker-a 7 3", "too many values"),
        ("a b c d 1 f g h", "invalid literal"),
    ],
)
def test_a_handle_that_cannot_be_read_is_an_error(spelled: str, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"BAD_HEADER.*cannot be told: {problem}"):
        received("1 7 3", Record(queue_id=7, queue_offset=3, properties={"POP_CK": spelled}))


def test_messages_that_came_together_are_acknowledged_together() -> None:
    other = CHECK_POINT._replace(retry="1", queue_id=8)
    assert acks_of("g", [Handle(CHECK_POINT, 100), Handle(other, 100), Handle(CHECK_POINT, 131)]) == [
        BatchAck("g", "T", "0", 100, 7, 3, TIME_MS, 60_000, [100, 131]),
        BatchAck("g", "T", "1", 100, 8, 3, TIME_MS, 60_000, [100]),
    ]
