"""Popped: messages by what a broker answers to a pop, and what it is told of them."""

from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record, pull_body
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.pop import pop_responses
from rocketmq_spark.pop.pop_responses import batch_acks_of, decode_pop_response
from rocketmq_spark.pop.receipt_handles import BrokerHandle, PopCheckPoint, ReceiptHandle
from rocketmq_spark.wire.body.batch_ack import BatchAck
from rocketmq_spark.wire.message.stored_message import as_stored
from rocketmq_spark.wire.remoting.headers import PopMessageResponse

TIME_MS = 1_795_445_135_749
CHECK_POINT = PopCheckPoint("T", 100, TIME_MS, 60_000, 3, "0", "broker-a", 7)


def response(starts: str | None, offsets: str | None) -> PopMessageResponse:
    times = {"pop_time_ms": TIME_MS, "invisible_ms": 60_000, "revive_queue_id": 3}
    return PopMessageResponse(**times, start_offsets=starts, message_offsets=offsets)


def received(starts: str | None, offsets: str | None, *records: Record) -> list[ReceiptHandle]:
    body = memoryview(pull_body(*records))
    return [one.handle for one in decode_pop_response("T", "broker-a", response(starts, offsets), body)]


def test_messages_of_the_topic_itself_have_the_handles_of_their_queues() -> None:
    records = [Record(queue_id=7, queue_offset=100), Record(queue_id=7, queue_offset=102), Record(queue_id=8)]
    assert received("0 7 100;0 8 0", "0 7 100,102;0 8 0", *records) == [
        BrokerHandle(CHECK_POINT, 100),
        BrokerHandle(CHECK_POINT, 102),
        BrokerHandle(CHECK_POINT._replace(start_offset=0, queue_id=8), 0),
    ]


def test_messages_behind_one_that_no_one_gets_have_handles() -> None:
    """It once ended the query at every start: a producer's message marked as of an IPv6 host moves those behind it."""
    records = [Record(queue_id=7, queue_offset=100), Record(queue_id=7, queue_offset=102)]
    assert received("0 7 100", "0 7 100,101", *records) == [
        BrokerHandle(CHECK_POINT, 100),
        BrokerHandle(CHECK_POINT, 101),
    ]


def test_a_record_is_as_it_is_stored() -> None:
    first, second = Record(queue_id=7, queue_offset=100), Record(body=b"other", queue_id=7, queue_offset=101)
    body = memoryview(pull_body(first, second))
    found = decode_pop_response("T", "broker-a", response("0 7 100", "0 7 100,101"), body)
    assert [bytes(one.record) for one in found] == [first.encode(), second.encode()]


def test_a_response_without_messages_has_none_to_report() -> None:
    assert received(None, None) == []


AGAIN_POINT = CHECK_POINT._replace(start_offset=3, retry="1")
TRUE = f"3 {TIME_MS} 60000 3 1 broker-a 7 3"
FORGED = ["", "no handle", TRUE, "3 1 60000 3 0 broker-z 7 3", f"9 {TIME_MS} 60000 3 2 broker-a 7 3", "3 1 1 3 9 b 7 3"]


def again(spelled: str, offset: int = 3) -> Record:
    """A redelivered message: its queue has the number of one of the topic itself."""
    return Record(queue_id=7, queue_offset=offset, properties={"POP_CK": spelled})


def ordinary(offset: int) -> Record:
    return Record(queue_id=7, queue_offset=offset)


@pytest.mark.parametrize("spelled", FORGED)
def test_handles_of_a_response_are_independent_of_producer_properties(spelled: str) -> None:
    """A broker keeps a ``POP_CK`` that a producer has written, also where it would write its own."""
    first = Record(queue_id=7, queue_offset=100, properties={"POP_CK": spelled})
    handles = received("1 7 3;0 7 100", "1 7 3;0 7 100", again(spelled), first)
    assert handles == [BrokerHandle(AGAIN_POINT, 3), BrokerHandle(CHECK_POINT, 100)]
    assert [handle.real_topic("g") for handle in handles if isinstance(handle, BrokerHandle)] == ["%RETRY%g_T", "T"]


def test_redelivered_messages_without_the_property_have_handles() -> None:
    """With ``popResponseReturnActualRetryTopic``, and of RocketMQ 5.0, they come as they are stored."""
    stored = Record(topic="%RETRY%g_T", queue_id=7, queue_offset=3)
    assert received("1 7 3", "1 7 3", stored) == [BrokerHandle(AGAIN_POINT, 3)]


def test_a_message_that_a_broker_could_not_rewrite_is_skipped() -> None:
    """It leaves such messages out of the body only."""
    assert received("1 7 3;0 7 100", "1 7 3,5;0 7 100", again("x", 5), Record(queue_id=7, queue_offset=100)) == [
        BrokerHandle(AGAIN_POINT, 5),
        BrokerHandle(CHECK_POINT, 100),
    ]


def test_a_message_is_skipped_beside_a_moved_queue() -> None:
    """It ended the query: the stored offset of a message behind one that no one gets was mistaken for its place."""
    moved = [Record(queue_id=7, queue_offset=100), Record(queue_id=7, queue_offset=102)]
    for starts, offsets, records in (
        ("1 7 3;0 7 100", "1 7 3,5;0 7 100,101", [again("x", 5), *moved]),
        ("0 7 100;1 7 3", "0 7 100,101;1 7 3,5", [*moved, again("x", 5)]),
    ):
        handles = received(starts, offsets, *records)
        assert sorted(map(str, handles)) == sorted(
            map(str, [BrokerHandle(AGAIN_POINT, 5), BrokerHandle(CHECK_POINT, 100), BrokerHandle(CHECK_POINT, 101)])
        )


def test_a_skipped_message_keeps_its_handle_from_one_of_its_id() -> None:
    """Both have the number 3 in a queue 7."""
    handles = received("1 7 3;0 7 3", "1 7 3;0 7 3", Record(queue_id=7, queue_offset=3))
    assert handles == [BrokerHandle(CHECK_POINT._replace(start_offset=3), 3)]


@pytest.mark.parametrize(
    ("starts", "offsets", "records"),
    [
        ("1 7 100;0 7 100", "1 7 100;0 7 100,101,102", [again("x", 100), ordinary(101), ordinary(102)]),
        ("1 7 100;0 7 100", "1 7 100;0 7 100,101,102", [again("x", 100), ordinary(102), ordinary(105)]),
        ("1 7 102;0 7 100", "1 7 102;0 7 100,101,102", [again("x", 102), ordinary(103), ordinary(104)]),
        ("0 7 100;1 7 103", "0 7 100,101,102;1 7 103,104", [ordinary(101), again("x", 103), ordinary(104)]),
    ],
)
def test_a_skipped_handle_shifts_no_others(starts: str, offsets: str, records: list[Record]) -> None:
    """The first message of the topic itself, which has a producer's ``POP_CK``, was mistaken for the skipped one, and
    each behind it for the one before it: acknowledged for one another."""
    assert received(starts, offsets, *records) == [BrokerHandle(CHECK_POINT, offset) for offset in (100, 101, 102)]


def test_of_two_redelivered_messages_the_skipped_one_is_known_by_its_place() -> None:
    records = [again("x", 5), again("x", 100), ordinary(101)]
    assert received("1 7 3;0 7 100", "1 7 3,5,100;0 7 100", *records) == [
        BrokerHandle(AGAIN_POINT, 5),
        BrokerHandle(AGAIN_POINT, 100),
        BrokerHandle(CHECK_POINT, 100),
    ]


def test_messages_of_the_topic_itself_are_not_skipped() -> None:
    """A broker that did that would leave open which handle is whose."""
    reported = "2 messages came, 7 100, 7 102, that are not those of msgOffsetInfo 0 7 100;0 7 101;0 7 102"
    with pytest.raises(RemoteProtocolError, match=reported):
        received("0 7 100", "0 7 100,101,102", ordinary(100), ordinary(102))


@pytest.mark.parametrize(
    ("starts", "offsets"),
    [
        (None, None),
        ("", ""),
        ("0 8 1", "0 8 1"),
        ("0 7", "0 7 100"),
        ("x", "x"),
        ("1 7 100", None),
        ("0  7 100", "0 7 100"),
        ("0 7 100", "0 7 101"),
        ("0 7 100", "0 7 100x"),
        ("0 7 100", "0 8 100"),
        ("9 7 100", "9 7 100"),
    ],
)
def test_a_message_without_a_handle_is_an_error(starts: str | None, offsets: str | None) -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"MALFORMED_RESPONSE\.HEADER.*header of a PopMessageResponse: .*OffsetInfo"
    ):
        received(starts, offsets, Record(queue_id=7, queue_offset=100))


def test_messages_that_came_together_are_acknowledged_together() -> None:
    other = CHECK_POINT._replace(retry="1", queue_id=8)
    assert batch_acks_of(
        "g", [BrokerHandle(CHECK_POINT, 100), BrokerHandle(other, 100), BrokerHandle(CHECK_POINT, 131)]
    ) == [
        BatchAck("g", "T", "0", 100, 7, 3, TIME_MS, 60_000, [100, 131]),
        BatchAck("g", "T", "1", 100, 8, 3, TIME_MS, 60_000, [100]),
    ]


@pytest.mark.parametrize("count", [1_000_000, 900])
def test_an_error_quotes_the_beginning_of_a_long_header(count: int) -> None:
    """It took minutes where a broker announced a million messages, and the error had 6 MB."""
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.HEADER") as refused:
        received("0 7 100", f"0 7 {','.join(['100'] * count)}", *[Record(queue_id=7, queue_offset=100)] * 2)
    assert len(str(refused.value)) < 1_000


def test_each_record_is_decoded_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an omitted one each was decoded for each handle: 30 MB took minutes."""
    decoded: list[memoryview] = []

    def counting(record: memoryview, broker_name: str) -> MessageExt:
        decoded.append(record)
        return as_stored(record, broker_name)

    monkeypatch.setattr(pop_responses, "as_stored", counting)
    starts, offsets = "1 7 3", "1 7 " + ",".join(["3"] * 30)
    assert len(received(starts, offsets, *[again("x")] * 29)) == 29
    assert len(decoded) <= 29


def test_more_messages_than_handles_are_not_compared_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was compared with each handle: 256 MB took minutes."""
    monkeypatch.delattr(pop_responses, "_match_handles")
    with pytest.raises(RemoteProtocolError, match=r"3 messages came, and msgOffsetInfo is '0 7 5,6'"):
        received("0 7 5", "0 7 5,6", *map(ordinary, (5, 6, 7)))
