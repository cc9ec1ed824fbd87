from __future__ import annotations

from itertools import product

import pytest

from connector_tests.support.message_bytes import COMPRESSED, Record
from rocketmq_spark.model import RESERVED_PROPERTIES, Message, MessageQueue
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.message.properties import (
    PROPERTIES_LIMIT_BYTES,
    PROPERTIES_RESERVE_BYTES,
    encode_properties,
)
from rocketmq_spark.wire.message.stored_message import as_stored

QUEUE = MessageQueue("orders", "broker-a", 3)
REPORTED = {
    "RETRY_TOPIC": "orders",
    "ORIGIN_MESSAGE_ID": "0A00000200002A9F0000000000000ABC",
    "BAD_MESSAGE_PROBLEM": "it is  damaged ",
    "BAD_MESSAGE_QUEUE": "orders@broker-a:3",
    "BAD_MESSAGE_OFFSET": "7",
    "BAD_MESSAGE_SYS_FLAG": "1",
}


RETRIED = MessageQueue("%RETRY%readers", "broker-a", 0)


def letter_of(body: bytes = b"no stream", queue: MessageQueue = QUEUE, /, **properties: str) -> Message:
    record = Record(
        topic="orders",
        body=body,
        properties=properties,
        queue_offset=7,
        commit_log_offset=0xABC,
        sys_flag=COMPRESSED,
        flag=5,
    )
    return dead_letter(
        UndecodableMessage(as_stored(memoryview(record.encode()), "broker-a"), "it is \x01damaged\x02"), queue
    )


def test_it_has_the_body_as_stored_and_reports_what_it_was() -> None:
    assert letter_of(TAGS="a", KEYS="k", UNIQ_KEY="U", own="x") == Message(
        "orders", b"no stream", properties={"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U", "own": "x", **REPORTED}, flag=5
    )


QUOTED = frozenset({"TAGS", "KEYS", "UNIQ_KEY", *REPORTED})
"""What RocketMQ has taken, and a dead letter has all the same."""


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES - QUOTED))
def test_a_dead_letter_has_no_property_by_which_servers_act(name: str) -> None:
    """With TRAN_MSG a broker stored it as a half message, which nobody commits; others it delivered later or elsewhere,
    or refused: MESSAGE_ILLEGAL."""
    assert letter_of(b"no stream", QUEUE, **{name: "true"}).properties == REPORTED


def test_a_dead_letter_without_body_has_a_blank() -> None:
    """A broker fails at an empty one, which a batch may have: the query waited for it and ended."""
    assert letter_of(b"").body == b" "


@pytest.mark.parametrize("topic", ["%RETRY%readers", "%DLQ%others"])
def test_of_what_was_sent_back_the_first_place_is_logged(topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    properties = letter_of(b"no stream", queue, RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="M").properties
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("first", "M")


def test_place_that_a_producer_wrote_is_not_the_dead_letters() -> None:
    """With another message's ID, who deduplicates dropped that one's dead letter, or this one."""
    properties = letter_of(RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="M").properties
    assert properties == REPORTED


def test_what_is_quoted_is_cut() -> None:
    properties = letter_of(b"no stream", RETRIED, RETRY_TOPIC="t" * 32_500, ORIGIN_MESSAGE_ID="M" * 100).properties
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("t" * 255, "M" * 64)


def test_properties_that_leave_no_space_stay_behind_but_for_the_producers_id() -> None:
    properties = letter_of(UNIQ_KEY="U", own="x" * 32_200).properties
    assert properties == {"UNIQ_KEY": "U", **REPORTED}
    assert "own" in letter_of(own="x" * 31_900).properties


@pytest.mark.parametrize("name", ["UNIQ_KEY", "KEYS", "TAGS", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "own"])
@pytest.mark.parametrize("count", [31_500, 32_000, 32_500])
def test_a_dead_letter_leaves_space_for_what_brokers_add(name: str, count: int) -> None:
    """It was refused at each attempt: MESSAGE_ILLEGAL, INVALID_MESSAGE."""
    for properties, queue in product(({name: "x" * count}, {name: "\ufffd" * (count // 3)}), (QUEUE, RETRIED)):
        letter = letter_of(b"no stream", queue, **properties)
        assert len(encode_properties(letter.properties)) <= PROPERTIES_LIMIT_BYTES - PROPERTIES_RESERVE_BYTES


def test_a_producers_id_that_leaves_no_space_is_cut() -> None:
    """Each of its bytes is no text, and becomes three."""
    record = Record(topic="orders", body=b"no", properties=b"UNIQ_KEY\x01" + b"\xff" * 11_000 + b"\x02")
    letter = dead_letter(UndecodableMessage(as_stored(memoryview(record.encode()), "broker-a"), "it is damaged"), QUEUE)
    assert letter.properties["UNIQ_KEY"] == "\ufffd" * 64
