"""Whatever number a server, a producer or a checkpoint claims: memory and time stay bounded, and errors are ours.

Each number in a small input is replaced by large ones, the input is decoded, and what it states is used as far as that
takes memory: queues are listed, offsets cut into tasks, acknowledgements encoded.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

import pytest

import rocketmq_spark.wire
from connector_tests.support.address_space import MIB
from connector_tests.support.message_bytes import COMPRESSED, Record, batch_of, inner_batch, pull_body
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.consumer.broker_identities import find_invalid_bounds
from rocketmq_spark.consumer.offset_store import decode_offsets, encode_offsets
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.pop_responses import batch_acks_of, decode_pop_response
from rocketmq_spark.pop.receipt_handles import BrokerHandle, handles_from_json
from rocketmq_spark.pop.spooled_batch import decode_spooled_batch, encode_spooled_batch
from rocketmq_spark.source.batch.batch_plan import BatchPlan
from rocketmq_spark.source.partitioning import tasks_of
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.arrow.undecodable import decode_each
from rocketmq_spark.wire.body.batch_ack import encode_batch_ack
from rocketmq_spark.wire.body.connections import decode_group_connections, decode_group_names
from rocketmq_spark.wire.body.groups import decode_consumer_ids, decode_group_retry_settings, decode_lock_ok
from rocketmq_spark.wire.body.inspection import decode_clock, decode_group_switches
from rocketmq_spark.wire.body.routes import decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.body.running_info import decode_consumer_running_info
from rocketmq_spark.wire.body.task_report import decode_task_report
from rocketmq_spark.wire.body.topics import (
    decode_consume_stats,
    decode_topic_names,
    decode_topic_settings,
    decode_topic_stats,
)
from rocketmq_spark.wire.message.batch import decode_batch, split_batch
from rocketmq_spark.wire.message.compression import compress, decompress
from rocketmq_spark.wire.message.properties import decode_properties, decode_utf8
from rocketmq_spark.wire.message.stored_message import (
    as_stored,
    check_layout,
    decode_first,
    decode_messages,
    decode_record,
    first_offsets,
)
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting import headers
from rocketmq_spark.wire.remoting.command import RemotingCommand, Serialization, decode, encode
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson
from rocketmq_spark.wire.remoting.fields import Header
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.frame_arena import Arenas, FrameArena
from rocketmq_spark.wire.remoting.headers import PopMessageResponse
from rocketmq_spark.wire.remoting.pull import read_pull

PEAK_BYTES: Final = 64 * MIB
"""What decoding and using one small input may take."""
LONGEST_S: Final = 5.0 * TIMEOUT_FACTOR
"""Of processor time, which other processes do not lengthen."""

QUEUE: Final = b'{"brokerName":"b","queueId":1,"topic":"T"}'
BROKER: Final = b'{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b","cluster":"c"}'
PROCESS_QUEUE: Final = (
    b'{"cachedMsgCount":1,"cachedMsgMaxOffset":1,"cachedMsgMinOffset":1,"commitOffset":1,"droped":false,'
    b'"lastConsumeTimestamp":1,"lastLockTimestamp":1,"lastPullTimestamp":1,"locked":true}'
)
OPTIONS: Final = ReadOptions.parse(
    {"namesrvAddr": "h:1", "subscribe": "T", "consumerGroup": "g", "loadBalance": "message"}
)
RECORDS: Final = pull_body(
    Record(body=compress(b"plain", MessageSysFlag.ZLIB), sys_flag=MessageSysFlag.ZLIB | COMPRESSED),
    batch_of(Record(queue_offset=2), [(b"1", b"a\x01b\x02"), (b"2", b"")]),
)
POP_BODY: Final = pull_body(Record(topic="T", queue_id=1, queue_offset=5))


class Input(NamedTuple):
    """Bytes of one kind. ``is_text``: its numbers are digits."""

    sample: bytes
    use: Callable[[bytes], object]
    is_text: bool = True


def use_route(body: bytes) -> object:
    route = decode_topic_route("T", body)
    return route.read_queues(), route.write_queues()


def use_stats(body: bytes) -> object:
    bounds = decode_topic_stats(body)
    if find_invalid_bounds(bounds) is not None:
        return None
    return tasks_of([QueueRange(queue, *held[:2]) for queue, held in bounds.items()], max_records=1_000)


def use_checkpoint(text: bytes) -> object:
    return tasks_of(list(SourceOffset.from_json(json.loads(text)).ranges()), max_records=1_000)


def use_plan(text: bytes) -> object:
    return tasks_of(list(BatchPlan.from_json(text.decode()).ranges), max_records=1_000)


def use_pop(text: bytes) -> object:
    header = PopMessageResponse.from_fields(json.loads(text))
    received = decode_pop_response("T", "b", header, memoryview(POP_BODY))
    return encode_batch_ack(
        "b", batch_acks_of("g", [one.handle for one in received if isinstance(one.handle, BrokerHandle)])
    )


def use_handles(text: bytes) -> object:
    value = json.loads(text)
    try:
        handles = handles_from_json(value["handles"])
    except (ValueError, TypeError, AttributeError):
        handles = []
    ours = [
        one
        for one in handles
        if isinstance(one, BrokerHandle) and not one.is_long_expired(one.pop_check_point.pop_time_ms)
    ]
    return PopOffset.from_json(value, OPTIONS), encode_batch_ack("b", batch_acks_of("g", ours))


def use_frames(data: bytes) -> object:
    buffer = FrameBuffer("peer:1")
    buffer.feed(data)
    return [decode(frame) for frame in iter(buffer.next_frame, None)]


def use_arena(data: bytes) -> object:
    arena = FrameArena("peer:1", Arenas())
    arena.writable_buffer()[: len(data)] = data
    arena.received(len(data))
    frames = [read_pull(decode(frame)) for frame in iter(arena.next_frame, None)]
    if arena.failure is not None:
        raise arena.failure
    return frames


def use_columns(data: bytes) -> object:
    return ColumnDecoder(tuple(COLUMNS), broker_name="b", tags=None).decode([data], 0, 10)


def unchecked(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """``read``, whose ValueError is its caller's to name."""

    def use(data: bytes) -> object:
        try:
            return read(data)
        except ValueError:
            return None

    return use


PULL_FIELDS: Final = {"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "9"}
FRAMES: Final = {
    kind: encode(RemotingCommand(code=0, opaque=1, flag=1, remark="fine", fields=PULL_FIELDS, body=b"body"), kind)
    for kind in Serialization
}
POP_FIELDS: Final = {
    "popTime": "1",
    "invisibleTime": "60000",
    "reviveQid": "1",
    "startOffsetInfo": "0 1 5",
    "msgOffsetInfo": "0 1 5",
}
SPOOLED: Final = encode_spooled_batch(
    decode_pop_response("T", "b", PopMessageResponse.from_fields(POP_FIELDS), memoryview(POP_BODY))
)

INPUTS: Final[dict[str, Input]] = {
    "topic route": Input(
        b'{"brokerDatas":[%s],"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4}]}'
        % BROKER,
        use_route,
    ),
    "cluster info": Input(b'{"brokerAddrTable":{"b":%s},"clusterAddrTable":{"c":["b"]}}' % BROKER, decode_cluster_info),
    "topic stats": Input(
        b'{"offsetTable":{%s:{"lastUpdateTimestamp":1,"maxOffset":7,"minOffset":0}}}' % QUEUE, use_stats
    ),
    "consume stats": Input(
        b'{"offsetTable":{%s:{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":1,"pullOffset":5}}}' % QUEUE,
        decode_consume_stats,
    ),
    "consumer list": Input(b'{"consumerIdList":["a@1"]}', decode_consumer_ids),
    "group settings": Input(b'{"retryMaxTimes":16,"retryQueueNums":1}', decode_group_retry_settings),
    "group switches": Input(b'{"consumeBroadcastEnable":true,"consumeEnable":true}', decode_group_switches),
    "members of a group": Input(
        b'{"connectionSet":[{"clientAddr":"h:1","clientId":"a@1","language":"JAVA","version":473}],'
        b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
        b'"subscriptionTable":{"T":{"codeSet":[1],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":["a"],'
        b'"topic":"T"}}}',
        decode_group_connections,
    ),
    "names of groups": Input(b'{"subscriptionGroupTable":{"g":{"retryMaxTimes":16}}}', decode_group_names),
    "runtime info": Input(
        b'{"table":{"bootTimestamp":"1","runtime":"[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}}', decode_clock
    ),
    "locks": Input(b'{"lockOKMQSet":[%s]}' % QUEUE, decode_lock_ok),
    "running info": Input(
        b'{"mqTable":{%s:%s},"properties":{"a":"1"},"subscriptionSet":[{"codeSet":[1],"expressionType":"TAG",'
        b'"subString":"*","subVersion":1,"tagsSet":["a"],"topic":"T"}]}' % (QUEUE, PROCESS_QUEUE),
        decode_consumer_running_info,
    ),
    "task report": Input(
        b'{"lost":[{"begin":1,"condition":"c","end":5,"queue":%s}],"read":[{"bytes":9,"offsets":4,"queue":%s}]}'
        % (QUEUE, QUEUE),
        partial(decode_task_report, token=""),
    ),
    "topic list": Input(b'{"topicList":["orders","TBW102"]}', decode_topic_names),
    "topic settings": Input(b'{"attributes":{"a":"1"},"readQueueNums":1}', decode_topic_settings),
    "pop answer": Input(json.dumps(POP_FIELDS).encode(), use_pop),
    "checkpoint": Input(b'{"v":1,"queues":{"T":{"b":{"0":[1,5,1]}}}}', use_checkpoint),
    "stored plan": Input(
        BatchPlan([QueueRange(MessageQueue("T", "b", 1), 1, 5)], {"b": BrokerAddress("h:1")}).to_json().encode(),
        unchecked(use_plan),
    ),
    "stored offsets": Input(encode_offsets({MessageQueue("T", "b", 1): 5}), decode_offsets),
    "checkpoint of messages": Input(
        json.dumps(
            PopOffset("g", "1f", 1, tuple(handles_from_json({"T 5 1 60000 1 0 b 1": "0-3"}))).to_json()
        ).encode(),
        use_handles,
    ),
    "JSON frame": Input(FRAMES[Serialization.JSON], use_frames, is_text=False),
    "JSON header": Input(FRAMES[Serialization.JSON], use_arena, is_text=False),
    "binary frame": Input(FRAMES[Serialization.ROCKETMQ], use_frames, is_text=False),
    "stored messages": Input(RECORDS, lambda data: decode_messages(data, broker_name="b"), is_text=False),
    "first offsets": Input(RECORDS, first_offsets, is_text=False),
    "messages, one by one": Input(RECORDS, lambda data: list(decode_each(data, broker_name="b")), is_text=False),
    "columns": Input(RECORDS, use_columns, is_text=False),
    "inner batch": Input(inner_batch([(b"1", b"a\x01b\x02")]), unchecked(decode_batch), is_text=False),
    "parts of an inner batch": Input(inner_batch([(b"1", b"a\x01b\x02")]), unchecked(split_batch), is_text=False),
    "spooled batch": Input(SPOOLED, unchecked(decode_spooled_batch), is_text=False),
    "compressed body": Input(
        compress(b"plain" * 100, MessageSysFlag.ZLIB), unchecked(lambda data: decompress(data, 0)), is_text=False
    ),
}

NUMBERS: Final = (b"-1", b"3000000", b"2147483647", b"9223372036854775807", b"1" + b"0" * 30, b"9" * 4_000)
WIDE: Final = tuple(
    struct.pack(layout, number)
    for layout, number in ((">h", 0x7FFF), (">h", -1), (">i", 0x7FFFFFFF), (">i", 3_000_000), (">q", 2**63 - 1))
)


def claims(one: Input, stride: int) -> Iterator[bytes]:
    """``one.sample`` with each of its numbers replaced; in bytes, at every so many places."""
    if one.is_text:
        for number in re.finditer(rb"\d+", one.sample):
            for claimed in NUMBERS:
                yield one.sample[: number.start()] + claimed + one.sample[number.end() :]
        return
    for place in range(0, len(one.sample), stride):
        for claimed in WIDE:
            yield (one.sample[:place] + claimed + one.sample[place + len(claimed) :])[: len(one.sample)]


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("one", INPUTS.values(), ids=INPUTS)
def test_a_claimed_number_takes_bounded_memory_and_time(one: Input, stride: int) -> None:
    one.use(one.sample)
    tracemalloc.start()
    try:
        for data in claims(one, stride):
            tracemalloc.reset_peak()
            begin_s = time.process_time()
            try:
                one.use(data)
            except RocketMQError as error:
                assert str(error)
            assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES, data
            assert time.process_time() - begin_s < LONGEST_S, data
    finally:
        tracemalloc.stop()


USED: Final[set[Any]] = {
    as_stored, check_layout, decode, decode_batch, decode_clock, decode_cluster_info, decode_consume_stats,
    decode_consumer_ids, decode_consumer_running_info, decode_group_connections, decode_group_retry_settings,
    decode_group_switches, decode_lock_ok, decode_messages, decode_properties, decode_record, decode_task_report,
    decode_topic_names, decode_topic_route, decode_topic_settings, decode_topic_stats, decode_utf8, decompress,
    decode_each, decode_first, first_offsets, parse_fastjson, read_pull, split_batch, decode_group_names,
}  # fmt: skip
"""Decoders that some of ``INPUTS`` reaches."""

NAMES: Final = re.compile(r"decode|decompress|parse_|read_pull|split_|first_of|as_stored|check_layout")


def decoders() -> set[Any]:
    """The public functions of ``rocketmq_spark.wire`` that read what somebody else wrote."""
    found: set[Any] = set()
    for info in pkgutil.walk_packages(rocketmq_spark.wire.__path__, "rocketmq_spark.wire."):
        if not info.ispkg and ".grpc." not in info.name and ".native_" not in info.name:
            module = import_module(info.name)
            found |= {one for name, one in inspect.getmembers(module, inspect.isfunction) if NAMES.match(name)}
    return found


def test_no_decoder_of_the_wire_is_omitted() -> None:
    assert {one.__qualname__ for one in decoders() - USED} == {"decode_body", "split_records"}
    assert {one.__qualname__ for one in USED - decoders()} == set()


HEADERS: Final = [kind for kind in vars(headers).values() if isinstance(kind, type) and issubclass(kind, Header)]


@pytest.mark.parametrize("claimed", [*NUMBERS, b"9" * 5_000], ids=lambda number: number[:12].decode())
def test_a_number_of_a_header_has_64_bits_or_is_refused(claimed: bytes) -> None:
    assert len(HEADERS) > 20
    for kind in HEADERS:
        try:
            header = kind.from_fields({row.wire_name: claimed.decode() for row in kind.rows})
        except RocketMQError as error:
            assert error.condition == "MALFORMED_RESPONSE.HEADER"
            continue
        numbers = [value for row in kind.rows if type(value := getattr(header, row.attribute)) is int]
        assert all(-(2**63) <= number < 2**63 for number in numbers)
