from __future__ import annotations

from connector_tests.support.message_bytes import COMPRESSED, Record
from rocketmq_spark.model import Message, MessageQueue
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.wire.arrow.bad_messages import BadMessage
from rocketmq_spark.wire.message.properties import encode_properties
from rocketmq_spark.wire.message.stored_message import as_stored

QUEUE = MessageQueue("orders", "broker-a", 3)
SAID = {
    "RETRY_TOPIC": "orders",
    "ORIGIN_MESSAGE_ID": "0A00000200002A9F0000000000000ABC",
    "BAD_MESSAGE_PROBLEM": "it is  damaged ",
    "BAD_MESSAGE_QUEUE": "orders@broker-a:3",
    "BAD_MESSAGE_OFFSET": "7",
    "BAD_MESSAGE_SYS_FLAG": "1",
}


def letter_of(body: bytes = b"no stream", **properties: str) -> Message:
    record = Record(
        topic="orders",
        body=body,
        properties=properties,
        queue_offset=7,
        commit_log_offset=0xABC,
        sys_flag=COMPRESSED,
        flag=5,
    )
    return dead_letter(BadMessage(as_stored(memoryview(record.encode()), "broker-a"), "it is \x01damaged\x02"), QUEUE)


def test_it_has_the_body_as_stored_and_says_what_it_was() -> None:
    assert letter_of(TAGS="a", KEYS="k", UNIQ_KEY="U", own="x") == Message(
        "orders", b"no stream", properties={"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U", "own": "x", **SAID}, flag=5
    )


def test_nothing_delays_it() -> None:
    assert letter_of(DELAY="3", TIMER_DELAY_SEC="60", TIMER_DELIVER_MS="1", REAL_TOPIC="x").properties == SAID


def test_how_it_was_handed_out_is_not_said_of_it() -> None:
    assert letter_of(POP_CK="3 1763712000000 60000 3 1 broker-a 7 3").properties == SAID


def test_a_dead_letter_has_no_count_of_a_batch() -> None:
    """RocketMQ 5 refuses it: MESSAGE_ILLEGAL, and the query ended."""
    assert letter_of(INNER_NUM="3", INNER_BASE="7").properties == SAID


def test_a_dead_letter_without_body_has_a_blank() -> None:
    """A broker fails at an empty one, which a batch may have: the query waited for it and ended."""
    assert letter_of(b"").body == b" "


def test_of_what_was_sent_back_the_first_place_is_said() -> None:
    properties = letter_of(RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="M").properties
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("first", "M")


def test_properties_that_leave_no_room_stay_behind_but_for_the_producers_id() -> None:
    properties = letter_of(UNIQ_KEY="U", own="x" * 32_700).properties
    assert properties == {"UNIQ_KEY": "U", **SAID}
    assert encode_properties(properties)
    assert "own" in letter_of(own="x" * 32_000).properties
