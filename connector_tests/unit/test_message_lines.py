"""Messages as ``rocketmq-spark tail`` and ``dlq`` print and repeat them."""

from __future__ import annotations

import json

from rocketmq_spark.cli.message_lines import json_line, text_line
from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage


def message(body: bytes = b"a book", store_timestamp_ms: int = 0, **properties: str) -> MessageExt:
    return MessageExt(
        topic="orders",
        broker_name="broker-a",
        queue_id=3,
        queue_offset=41,
        msg_id="ID1",
        offset_msg_id="OFFSET1",
        body=body,
        properties=properties,
        born_timestamp_ms=0,
        store_timestamp_ms=store_timestamp_ms,
        born_host="1.2.3.4:5",
        store_host="1.2.3.4:6",
        reconsume_times=2,
        commit_log_offset=7,
        sys_flag=0,
        flag=9,
        body_crc=0,
        prepared_transaction_offset=0,
    )


def test_line_has_time_place_id_and_content() -> None:
    assert text_line(message(TAGS="books", KEYS="k1 k2")) == (
        "1970-01-01T00:00:00.000+00:00 orders@broker-a:3 offset 41 ID1 tags=books keys=k1 k2 body=a book"
    )
    assert text_line(message()).endswith(" ID1 body=a book")


def test_text_of_a_producer_forges_no_line_and_long_bodies_are_cut() -> None:
    assert text_line(message(b"a\n\x1b[2Jb")).endswith(r"body=a\n\x1b[2Jb")
    assert text_line(message(b"x" * 1_000)).endswith(f"body={'x' * 200}... (1000 characters)")


def test_binary_body_is_in_base64() -> None:
    assert text_line(message(b"\xff\x00")).endswith("base64=/wA=")
    assert json.loads(json_line(message(b"\xff\x00")))["bodyBase64"] == "/wA="


def test_json_has_all_of_a_message() -> None:
    assert json.loads(json_line(message(TAGS="books", region="eu"))) == {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": 41,
        "msgId": "ID1",
        "storeTimestamp": "1970-01-01T00:00:00.000+00:00",
        "tags": "books",
        "keys": None,
        "properties": {"TAGS": "books", "region": "eu"},
        "body": "a book",
    }


def test_undecodable_message_has_its_place_and_the_problem_and_no_body() -> None:
    undecodable = UndecodableMessage(message(b"plain", TAGS="books"), "its body\nis damaged")
    assert text_line(undecodable).endswith(
        r"orders@broker-a:3 offset 41 ID1 tags=books undecodable=its body\nis damaged"
    )
    listed = json.loads(json_line(undecodable))
    assert (listed["queueOffset"], listed["problem"]) == (41, "its body\nis damaged")
    assert listed["storedBodyBase64"] == "cGxhaW4="
    assert not {"body", "bodyBase64"} & listed.keys()


def test_target_precedes_all_other_text_of_producers() -> None:
    assert " offset 41 target=orders ID1 tags=target=forged body=" in text_line(message(TAGS="target=forged"), "orders")


def test_dead_letter_of_an_undecodable_message_has_its_problem() -> None:
    assert text_line(message(BAD_MESSAGE_PROBLEM="it is\ndamaged")).endswith(
        r" ID1 badMessage=it is\ndamaged body=a book"
    )


def test_time_that_no_date_has_is_a_number() -> None:
    assert text_line(message(store_timestamp_ms=2**62)).startswith(f"{2**62} orders@")
