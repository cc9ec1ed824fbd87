"""Messages of a proxy as columns."""

from __future__ import annotations

import gzip
import time
import zlib
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from connector_tests.support.scripted_proxy import received
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.arrow.arrow_types import arrow_type
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.grpc import message_columns
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.message_columns import VALUES, UndecodableReceived, decode_received
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

BODY = b"a body, a body, a body"
BORN_MS, STORED_MS = 1_795_445_135_749, 1_795_445_136_001
NOT_IN_THE_PROTOCOL = {"offsetMsgId", "commitLogOffset", "sysFlag", "flag", "bodyCRC"}


def response(body: bytes = BODY, topic: str = "T", **system: Any) -> pb.ReceiveMessageResponse:
    one = received("h", body, **system)
    one.message.topic.name = topic
    return one


def decoded(
    *responses: pb.ReceiveMessageResponse, columns: tuple[str, ...] = tuple(COLUMNS), tags: frozenset[str] | None = None
) -> tuple[list[dict[str, Any]], list[UndecodableReceived]]:
    joined = b"".join(one.SerializeToString() for one in responses)
    ((batch, unreadable),) = decode_received(joined, columns, broker_name="broker-a", tags=tags)
    types = [arrow_type(COLUMNS[name]) if name in COLUMNS else pa.string() for name in columns]
    assert batch.schema == pa.schema(list(zip(columns, types, strict=True)))
    return batch.to_pylist(), unreadable


def test_all_that_a_message_has_is_in_its_row() -> None:
    one = response(
        tag="TagA",
        keys=["k1", "k2"],
        message_id="01AB",
        body_encoding=pb.Encoding.IDENTITY,
        born_host="10.0.0.1",
        store_host="10.0.0.2:10911",
        queue_id=3,
        queue_offset=42,
        delivery_attempt=3,
        message_group="customer-7",
    )
    one.message.user_properties["colour"] = "red"
    one.message.system_properties.born_timestamp.FromNanoseconds(BORN_MS * 1_000_000 + 999)
    one.message.system_properties.store_timestamp.FromMilliseconds(STORED_MS)
    (row,), unreadable = decoded(one)
    assert row == {
        "topic": "T",
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": 42,
        "msgId": "01AB",
        "keys": "k1 k2",
        "tags": "TagA",
        "body": BODY,
        "properties": [
            ("colour", "red"),
            ("KEYS", "k1 k2"),
            ("TAGS", "TagA"),
            ("UNIQ_KEY", "01AB"),
            ("__SHARDINGKEY", "customer-7"),
        ],
        "bornTimestamp": datetime.fromtimestamp(BORN_MS / 1000, UTC),
        "storeTimestamp": datetime.fromtimestamp(STORED_MS / 1000, UTC),
        "reconsumeTimes": 2,
        "bornHost": "10.0.0.1",
        "storeHost": "10.0.0.2:10911",
        **dict.fromkeys(NOT_IN_THE_PROTOCOL),
    }
    assert unreadable == []


def test_what_a_message_has_not_is_null() -> None:
    (row,), _ = decoded(response(message_id="01AB", delivery_attempt=1))
    assert (row["keys"], row["tags"], row["properties"]) == (None, None, [("UNIQ_KEY", "01AB")])


def test_a_column_has_a_value_or_is_not_in_the_protocol() -> None:
    assert {*VALUES, "brokerName", "body", *NOT_IN_THE_PROTOCOL} == set(COLUMNS)


def test_a_property_is_a_column_also_where_the_protocol_has_it_apart() -> None:
    one = response(message_id="01AB", message_group="customer-7")
    one.message.user_properties["colour"] = "red"
    both, _ = decoded(one, response(), columns=("colour", "__SHARDINGKEY"))
    assert [tuple(row.values()) for row in both] == [("red", "customer-7"), (None, None)]


def test_a_message_has_its_handle() -> None:
    one, none = response(), response()
    one.message.system_properties.receipt_handle = "its own"
    none.message.system_properties.ClearField("receipt_handle")
    both, _ = decoded(one, none, columns=("receiptHandle",))
    assert both == [{"receiptHandle": "its own"}, {"receiptHandle": None}]


def test_a_topic_of_a_namespace_shows_it() -> None:
    one = response()
    one.message.topic.resource_namespace = "shop"
    (row,), _ = decoded(one, columns=("topic",))
    assert row == {"topic": "shop%T"}


def test_messages_come_in_their_order_and_only_those_of_the_tags() -> None:
    tags = ("TagA", "TagB", None, "TagA")
    responses = [response(queue_offset=number, tag=tag) for number, tag in enumerate(tags)]
    rows, _ = decoded(*responses, columns=("queueOffset",), tags=frozenset({"TagA"}))
    assert [row["queueOffset"] for row in rows] == [0, 3]
    assert len(decoded(*responses, columns=("queueOffset",))[0]) == 4


def test_no_messages_are_no_rows() -> None:
    assert decoded() == ([], [])


@pytest.mark.parametrize(
    "compressed",
    [
        zlib.compress(BODY),
        gzip.compress(BODY),
        compress(BODY, MessageSysFlag.LZ4),
        compress(BODY, MessageSysFlag.ZSTD),
    ],
    ids=["ZLIB", "GZIP", "LZ4", "ZSTD"],
)
def test_a_compressed_body_is_what_its_bytes_contain(compressed: bytes) -> None:
    (row,), _ = decoded(response(compressed, body_encoding=pb.Encoding.GZIP), columns=("body",))
    assert row == {"body": BODY}
    (row,), _ = decoded(response(compressed, body_encoding=pb.Encoding.IDENTITY), columns=("body",))
    assert row == {"body": compressed}


def test_an_empty_body_is_not_decompressed() -> None:
    (row,), _ = decoded(response(b"", body_encoding=pb.Encoding.GZIP), columns=("body",))
    assert row == {"body": b""}


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"no stream", "its ZLIB body is damaged"),
        (gzip.compress(BODY)[:-9], "its GZIP body is damaged: it ends early"),
        (b"\x1f\x8bno stream", "its GZIP body is damaged: Error -3"),
    ],
    ids=["no stream", "it ends early", "no GZIP"],
)
def test_a_body_that_cannot_be_read_is_reported_and_its_row_has_none(damaged: bytes, problem: str) -> None:
    undecodable = response(damaged, body_encoding=pb.Encoding.GZIP, queue_id=2, queue_offset=5)
    rows, (unreadable,) = decoded(response(), undecodable, columns=("queueOffset", "body"))
    assert [row["body"] for row in rows] == [BODY, None]
    assert (unreadable.queue, unreadable.offset) == (MessageQueue("T", "broker-a", 2), 5)
    assert unreadable.problem.startswith(problem)
    assert decoded(undecodable, columns=("queueOffset",)) == ([{"queueOffset": 5}], [])


@pytest.mark.parametrize("squeeze", [zlib.compress, gzip.compress])
def test_what_comes_out_of_a_body_is_bounded(squeeze: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_columns, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    fits, too_large = (response(squeeze(bytes(size)), body_encoding=pb.Encoding.GZIP) for size in (1_000, 1_001))
    assert decoded(fits, columns=("body",)) == ([{"body": bytes(1_000)}], [])
    rows, unreadable = decoded(fits, too_large, columns=("body",))
    assert ([row["body"] for row in rows], len(unreadable)) == ([bytes(1_000), None], 1)


@pytest.mark.parametrize("behind", [b"", b"xx", b"\x1f\x8b\x08", bytes(40)], ids=["nothing", "text", "magic", "zeros"])
def test_all_members_of_a_gzip_body_are_read_and_what_follows_is_not(behind: bytes) -> None:
    """As Java's GZIPInputStream does; only the first one was read."""
    members = [gzip.compress(part) for part in (b"one", b"", b"two" * 30_000, b"")]
    whole = response(b"".join(members) + behind, body_encoding=pb.Encoding.GZIP)
    assert decoded(whole, columns=("body",)) == ([{"body": b"one" + b"two" * 30_000}], [])


def test_a_later_gzip_member_is_bounded_and_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_columns, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    first, second = gzip.compress(bytes(600)), gzip.compress(bytes(401))
    damaged = gzip.compress(b"x" * 100)[:-9] + bytes(9)
    bodies = (first + second, first + gzip.compress(bytes(400)), first + second[:-1], first + damaged)
    rows, unreadable = decoded(*(response(one, body_encoding=pb.Encoding.GZIP) for one in bodies), columns=("body",))
    assert [row["body"] for row in rows] == [None, bytes(1_000), None, None]
    assert [one.problem.partition(":")[0] for one in unreadable] == [
        "its body has more than the 1000 bytes allowed when decompressed",
        "its body has more than the 1000 bytes allowed when decompressed",
        "its GZIP body is damaged",
    ]


def test_many_empty_gzip_members_take_no_longer_each() -> None:
    body = gzip.compress(b"") * 50_000 + gzip.compress(b"last")
    begin = time.process_time()
    assert decoded(response(body, body_encoding=pb.Encoding.GZIP), columns=("body",)) == ([{"body": b"last"}], [])
    assert time.process_time() - begin < 10 * TIMEOUT_FACTOR


@pytest.mark.parametrize("squeeze", [zlib.compress, gzip.compress])
def test_a_body_larger_than_any_row_may_be_is_unreadable(squeeze: Any) -> None:
    large = response(squeeze(bytes(33 * 1024 * 1024)), body_encoding=pb.Encoding.GZIP)
    rows, (unreadable,) = decoded(large, columns=("body",))
    assert rows == [{"body": None}]
    assert unreadable.problem == "its body has more than the 33554432 bytes allowed when decompressed"


def test_bodies_that_are_too_large_together_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_columns, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    sizes = (500, 500, 1, 1_001, 999, 1)
    responses = [
        response(zlib.compress(bytes(size)), body_encoding=pb.Encoding.GZIP, queue_offset=number)
        for number, size in enumerate(sizes)
    ]
    joined = b"".join(one.SerializeToString() for one in responses)
    columns = ("queueOffset", "body")
    found = list(decode_received(joined, columns, broker_name="broker-a", tags=None))
    assert [batch["queueOffset"].to_pylist() for batch, _ in found] == [[0, 1], [2, 3, 4], [5]]
    bodies = [body for batch, _ in found for body in batch["body"].to_pylist()]
    assert [None if body is None else len(body) for body in bodies] == [500, 500, 1, None, 999, 1]
    assert [[one.offset for one in unreadable] for _, unreadable in found] == [[], [3], []]
    (only,) = decode_received(joined, ("queueOffset",), broker_name="broker-a", tags=None)
    assert len(only[0]) == len(sizes), "nothing is decompressed"


def test_what_is_no_response_is_an_error() -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.* ReceiveMessageResponse.*: Error parsing message"
    ):
        list(decode_received(b"\xff\xff", ("body",), broker_name="broker-a", tags=None))


@pytest.mark.parametrize("seconds", [-(2**63), -59_011_459_201, 250_246_627_200, 2**63 - 1])
def test_a_time_that_sessions_cannot_show_is_null(seconds: int) -> None:
    """As where brokers store it. ``collect`` failed for all rows, and beyond 64 bits the task did."""
    one = response(message_id="01AB")
    one.message.system_properties.born_timestamp.seconds = seconds
    one.message.system_properties.store_timestamp.seconds = seconds
    (row,), _ = decoded(one)
    assert (row["bornTimestamp"], row["storeTimestamp"]) == (None, None)


@pytest.mark.parametrize("times", [-100, -(2**31), 2**31 - 1])
def test_any_number_of_times_of_a_producer_is_its_column(times: int) -> None:
    """As over ``namesrvAddr``. A proxy adds one with 32 bits, where the largest becomes the lowest."""
    attempt = (times + 1 + 2**31) % 2**32 - 2**31
    (row,), _ = decoded(response(message_id="01AB", delivery_attempt=attempt))
    assert row["reconsumeTimes"] == times
