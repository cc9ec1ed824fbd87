"""What Apache RocketMQ 5.5.0 really said (``tools/capture_vectors.py``), and what we make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connector_tests.support.message_rows import expected_rows, rows
from rocketmq_spark.model import MessageExt, MessageQueue
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.body.groups import decode_lock_ok
from rocketmq_spark.wire.body.routes import decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.body.topics import decode_topic_stats
from rocketmq_spark.wire.message.stored_message import decode_messages
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.headers import PullMessageResponse

FRAMES: dict[str, bytes] = {
    name: bytes.fromhex(frame)
    for name, frame in json.loads(Path(__file__).with_name("frames.json").read_text(encoding="utf-8"))["frames"].items()
}
QUEUE = MessageQueue("vectors", "broker-a", 0)


def response(name: str) -> RemotingCommand:
    buffer = FrameBuffer("captured")
    buffer.feed(FRAMES[name])
    frame = buffer.next_frame()
    assert frame is not None
    assert buffer.next_frame() is None
    return decode(frame)


def messages(name: str) -> list[MessageExt]:
    return decode_messages(response(name).body, broker_name=QUEUE.broker_name)


@pytest.mark.parametrize("name", FRAMES)
def test_every_captured_frame_responds_to_our_request(name: str) -> None:
    command = response(name)
    assert (command.is_response, command.opaque, command.version) == (True, 1, CLIENT_VERSION)


def test_a_route_names_queues_and_the_masters_address() -> None:
    route = decode_topic_route("vectors", response("route").body)
    assert route.read_queues() == (QUEUE, MessageQueue("vectors", "broker-a", 1))
    address = route.master_address("broker-a")
    assert address is not None
    assert address.server.startswith("127.0.0.1:")


def test_cluster_info_has_broker_ids_that_are_no_json() -> None:
    body = bytes(response("cluster").body)
    assert b'{0:"' in body
    assert set(decode_cluster_info(body).brokers) == {"broker-a"}


def test_topic_stats_have_objects_as_keys() -> None:
    body = bytes(response("topic stats").body)
    assert b"{{" in body
    bounds = decode_topic_stats(body)
    assert (bounds[QUEUE].min_offset, bounds[QUEUE].max_offset) == (0, 3)
    assert bounds[QUEUE].last_store_timestamp_ms == messages("pull found")[-1].store_timestamp_ms


def test_a_lock_is_granted_by_queue() -> None:
    assert decode_lock_ok(response("locks").body) == {QUEUE}


def test_a_pull_gives_messages_as_they_were_sent() -> None:
    pulled = messages("pull found")
    assert [message.queue_offset for message in pulled] == [0, 1, 2]
    assert [message.body for message in pulled] == [b"body-0", b"body-1", b"body-2"]
    assert [(message.tags, message.keys) for message in pulled] == [
        ("TagA", "key-0"),
        ("TagB", "key-1"),
        ("TagA", "key-2"),
    ]
    assert pulled[0].properties["shop"] == "Köln"
    assert pulled[2].msg_id == f"{2:032X}"


def test_a_pull_by_tag_skips_to_the_end_and_omits_the_others() -> None:
    assert [message.queue_offset for message in messages("pull by tag")] == [1]
    assert PullMessageResponse.from_fields(response("pull by tag").fields).next_begin_offset == 3


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("pull at the end", ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
        ("pull beyond the end", ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
    ],
)
def test_a_pull_without_messages_reports_why_and_where_to_resume(name: str, code: ResponseCode, reason: str) -> None:
    command = response(name)
    header = PullMessageResponse.from_fields(command.fields)
    assert (command.code, command.remark, header.next_begin_offset, header.max_offset) == (code, reason, 3, 3)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no such topic", ResponseCode.TOPIC_NOT_EXIST),
        ("no offset", ResponseCode.QUERY_NOT_FOUND),
        ("members of nobody", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_there_is_not_has_a_code(name: str, code: ResponseCode) -> None:
    assert response(name).code == code


@pytest.mark.parametrize("name", ["pull found", "pull by tag"])
def test_the_columns_of_a_pull_are_what_its_messages_contain(name: str, column_decoder: type[ColumnDecoder]) -> None:
    decoder = column_decoder(tuple(COLUMNS), broker_name=QUEUE.broker_name, tags=None)
    assert rows(decoder.decode([response(name).body], 0, 2**62)) == expected_rows(messages(name), list(COLUMNS))
