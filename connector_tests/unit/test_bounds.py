"""Each row of the table of bounds: what is as large as it states is read, what is larger ends with its condition."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rocketmq_spark
from connector_tests.support.message_bytes import Record, batch_of, pull_body
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.consumer.broker_identities import find_invalid_bounds
from rocketmq_spark.errors import OptionError, RemoteProtocolError, RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.pop_responses import decode_pop_response
from rocketmq_spark.proxy.failures import check_control_response
from rocketmq_spark.proxy.session import check_message, limit_size
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.wire import bounds
from rocketmq_spark.wire.body.groups import decode_consumer_ids, decode_lock_ok
from rocketmq_spark.wire.body.routes import decode_topic_route
from rocketmq_spark.wire.bounds import BOUNDS, Bound, check_values
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.responses import brokers_of
from rocketmq_spark.wire.message.compression import compress, decompress
from rocketmq_spark.wire.message.stored_message import decode_record
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.command import decode
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.headers import PopMessageResponse

OPTIONS = ReadOptions.parse({"namesrvAddr": "h:1", "subscribe": "T", "consumerGroup": "g", "loadBalance": "message"})


def frame_bytes(claimed: int) -> None:
    buffer = FrameBuffer("h:1")
    buffer.feed(claimed.to_bytes(4, "big"))
    buffer.next_frame()


def header_bytes(claimed: int) -> None:
    """A longer one cannot be announced; what follows the three bytes of its length is of no header then."""
    decode((claimed & 0xFFFFFF).to_bytes(4, "big") + b"{}")


def header_values(count: int) -> None:
    header = b'{"code":0,"opaque":1,"a":[%s0]}' % (b"0," * (count - 5))
    decode(len(header).to_bytes(4, "big") + header)


def body_bytes(count: int) -> None:
    decode_consumer_ids(b'{"consumerIdList":[]}'.ljust(count))


def body_values(count: int) -> None:
    decode_consumer_ids(b'{"consumerIdList":[],"a":[%s0]}' % (b"0," * (count - 5)))


def body_depth(levels: int) -> None:
    parse_fastjson(b"{0:" * levels + b"1" + b"}" * levels, "test")


def route_queues(count: int) -> None:
    queues = [(1, 1), (count - 1, 1)], [(1, 1), (1, count - 1)]
    for counts in queues:
        datas = [
            {"brokerName": str(place), "perm": 6, "readQueueNums": read, "writeQueueNums": write}
            for place, (read, write) in enumerate(counts)
        ]
        decode_topic_route("T", json.dumps({"brokerDatas": [], "queueDatas": datas}).encode())
    brokers_of("T", [proxied_queue("b")] * count)


def proxied_queue(broker_name: str) -> pb.MessageQueue:
    endpoints = pb.Endpoints(addresses=[pb.Address(host="h", port=8081)])
    return pb.MessageQueue(permission=pb.Permission.READ, broker=pb.Broker(name=broker_name, endpoints=endpoints))


def proxied_brokers(count: int) -> None:
    assert len(brokers_of("T", [proxied_queue(str(number)) for number in range(count)])) == count


def ordered_queues(count: int) -> None:
    conf = f"a:1;b:{count - 1}"
    body = json.dumps({"brokerDatas": [], "queueDatas": [], "orderTopicConf": conf}).encode()
    route = decode_topic_route("T", body)
    assert route.read_queues() == ()
    assert len(route.publish_queues()) == count


def queue_id(claimed: int) -> None:
    decode_lock_ok(b'{"lockOKMQSet":[{"brokerName":"b","queueId":%d,"topic":"T"}]}' % claimed)


def queue_offsets(count: int) -> None:
    queue = MessageQueue("T", "b", 0)
    if find_invalid_bounds({queue: QueueBounds(7, 7 + count)}) is not None:
        raise RemoteProtocolError("INVALID_QUEUE_OFFSETS", queue=str(queue), min_offset=7, max_offset=7 + count)


def response_bytes(count: int) -> None:
    responses = (bytes(size) for size in (count - 1, 1))
    assert len(list(limit_size(responses, "p:8081"))) == 2


def control_response_bytes(count: int) -> None:
    check_control_response(bytes(count), "p:8081", "QueryRoute")


def message_bytes_beside_body(count: int) -> None:
    check_message(received_message(count, body=bytes(2 << 20)), "p:8081")


def received_message(beside_bytes: int, body: bytes) -> bytes:
    """A response that has so many bytes more than ``body``; some are of a body that the later one replaces."""
    for filling in range(beside_bytes - 30, beside_bytes):
        message = b"\x22" + varint(filling) + bytes(filling) + b"\x22" + varint(len(body)) + body
        response = b"\x12" + varint(len(message)) + message
        if len(response) == beside_bytes + len(body):
            return response
    raise AssertionError(beside_bytes)


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def pop_offsets(claimed: int) -> None:
    fields = {"popTime": "1", "invisibleTime": "1", "reviveQid": "1", "startOffsetInfo": "0 1 5"}
    fields["msgOffsetInfo"] = f"0 1 {5 + claimed}"
    body = pull_body(Record(queue_id=1, queue_offset=5 + claimed))
    decode_pop_response("T", "b", PopMessageResponse.from_fields(fields), memoryview(body))


def pop_messages(count: int) -> None:
    """In one queue, and in as many."""
    offsets, queues = ",".join(map(str, range(5, 5 + count))), [f"0 {queue_id} 5" for queue_id in range(count)]
    one_queue = [Record(queue_id=1, queue_offset=offset) for offset in range(5, 5 + count)]
    many_queues = [Record(queue_id=queue_id, queue_offset=5) for queue_id in range(count)]
    for starts, found, records in (
        ("0 1 5", f"0 1 {offsets}", one_queue),
        (";".join(queues), ";".join(queues), many_queues),
    ):
        header = PopMessageResponse(
            pop_time_ms=1, invisible_ms=1, revive_queue_id=1, start_offsets=starts, message_offsets=found
        )
        assert len(decode_pop_response("T", "b", header, memoryview(pull_body(*records)))) == count


def inner_messages(count: int) -> None:
    record = pull_body(batch_of(Record(), [(b"", b"")] * count))
    try:
        assert len(decode_record(memoryview(record), "b", bounds.DECOMPRESSED_BYTES.maximum)) == count
    except ValueError as problem:
        raise undecodable_message(problem) from None


def decompressed_body_bytes(count: int) -> None:
    try:
        decompress(compress(bytes(count), MessageSysFlag.ZLIB), MessageSysFlag.ZLIB)
    except ValueError as problem:
        raise undecodable_message(problem) from None


def decompressed_bytes(count: int) -> None:
    """By the limit's share of it: so many take seconds."""
    too_many = count > bounds.DECOMPRESSED_BYTES.maximum
    body = compress(bytes(1_000 + too_many), MessageSysFlag.ZLIB)
    try:
        decompress(body, MessageSysFlag.ZLIB, 1_000)
    except ValueError as problem:
        raise undecodable_message(problem) from None


def undecodable_message(problem: ValueError) -> RemoteProtocolError:
    """What ``badMessages`` decides about."""
    return RemoteProtocolError("UNDECODABLE_MESSAGE_BODY", queue="T@b:0", offset=0, problem=str(problem))


def checkpoint_offset(claimed: int) -> None:
    SourceOffset.from_json({"v": 1, "queues": {"T": {"b": {"0": [claimed - 1, claimed, 1]}}}})


def checkpoint_queue_id(claimed: int) -> None:
    SourceOffset.from_json({"v": 1, "queues": {"T": {"b": {str(claimed): [0, 1, 1]}}}})


def checkpoint_messages(count: int) -> None:
    handles = {"T 0 1 60000 1 0 b 1": f"0-{count - 2}", "T 0 1 60000 1 0 b 2": "0"}
    value = {"loadBalance": "message", "v": 1, "consumerGroup": "g", "epoch": "1f", "n": 1, "handles": handles}
    PopOffset.from_json(value, OPTIONS)


CLAIMS: dict[Bound, Callable[[int], None]] = {
    bounds.FRAME_BYTES: frame_bytes,
    bounds.RESPONSE_BYTES: response_bytes,
    bounds.CONTROL_RESPONSE_BYTES: control_response_bytes,
    bounds.MESSAGE_BYTES_BESIDE_BODY: message_bytes_beside_body,
    bounds.HEADER_VALUES: header_values,
    bounds.BODY_BYTES: body_bytes,
    bounds.BODY_VALUES: body_values,
    bounds.BODY_DEPTH: body_depth,
    bounds.ROUTE_QUEUES: route_queues,
    bounds.PROXIED_BROKERS: proxied_brokers,
    bounds.ORDERED_QUEUES: ordered_queues,
    bounds.QUEUE_ID: queue_id,
    bounds.QUEUE_OFFSETS: queue_offsets,
    bounds.POP_OFFSETS: pop_offsets,
    bounds.POP_MESSAGES: pop_messages,
    bounds.INNER_MESSAGES: inner_messages,
    bounds.DECOMPRESSED_BODY_BYTES: decompressed_body_bytes,
    bounds.DECOMPRESSED_BYTES: decompressed_bytes,
    bounds.CHECKPOINT_OFFSET: checkpoint_offset,
    bounds.CHECKPOINT_QUEUE_ID: checkpoint_queue_id,
    bounds.CHECKPOINT_MESSAGES: checkpoint_messages,
}


@pytest.mark.parametrize("bound", CLAIMS, ids=lambda bound: bound.claim)
def test_a_claim_at_its_bound_is_read_and_beyond_it_refused(bound: Bound) -> None:
    CLAIMS[bound](bound.maximum)
    with pytest.raises((RemoteProtocolError, RouteError, OptionError)) as refused:
        CLAIMS[bound](bound.maximum + 1)
    assert refused.value.condition == bound.condition
    assert len(str(refused.value)) < 1_000


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(
        RemoteProtocolError, match=rf"MALFORMED_RESPONSE\.HEADER.*announces {bounds.HEADER_BYTES.maximum} bytes"
    ):
        header_bytes(bounds.HEADER_BYTES.maximum)


def test_the_table_has_every_bound_and_each_is_shown() -> None:
    rows = {one for one in vars(bounds).values() if isinstance(one, Bound)}
    assert rows == set(BOUNDS)
    assert rows - CLAIMS.keys() == {bounds.HEADER_BYTES}
    assert {bound.condition for bound in BOUNDS} <= CONDITIONS.keys()


def test_every_bound_is_held_by_some_module() -> None:
    package = Path(rocketmq_spark.__file__).parent
    names = {name for name, one in vars(bounds).items() if isinstance(one, Bound)}
    files = [path for path in package.rglob("*.py") if path.name != "bounds.py"]
    used = {node.id for path in files for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert names - used == set()


@pytest.mark.parametrize(
    ("claimed", "words"),
    [(-1, "things: -1, at most 7"), (8, "things: 8, at most 7"), (1 << 20_000, "things: a number of 20001 bits")],
    ids=["negative", "too many", "too long to write"],
)
def test_a_refused_claim_reports_what_and_how_much(claimed: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Bound("things", bounds.Claimant.SERVER, 7, "MALFORMED_RESPONSE.BODY").check(claimed)


@pytest.mark.parametrize("text", ["[0,0,0]", '{"a":0,"b":[]}', "[[[]]]"])
def test_no_text_holds_more_values_than_are_counted(text: str) -> None:
    def count(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + sum(map(count, inner))

    check_values(text, Bound("values", bounds.Claimant.SERVER, len(text), "MALFORMED_RESPONSE.BODY"))
    with pytest.raises(ValueError, match="values"):
        check_values(
            text, Bound("values", bounds.Claimant.SERVER, count(json.loads(text)) - 1, "MALFORMED_RESPONSE.BODY")
        )


def test_a_deep_body_ends_with_our_error() -> None:
    """As deep as Python goes, and deeper."""
    for levels in (*range(800, 1_000, 7), 100_000):
        with pytest.raises(RocketMQError) as refused:
            decode_consumer_ids(b'{"consumerIdList":[%s]}' % (b"[" * levels + b"]" * levels))
        assert refused.value.condition == "MALFORMED_RESPONSE.BODY"
