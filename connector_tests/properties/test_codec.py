from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.groups import decode_consumer_ids, decode_lock_ok
from rocketmq_spark.wire.body.routes import decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.body.topics import decode_consume_stats, decode_topic_stats
from rocketmq_spark.wire.remoting.codes import LanguageCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, Serialization, decode, encode
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson, write_fastjson

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COMMANDS = st.builds(
    RemotingCommand,
    code=INT16,
    opaque=INT32,
    flag=INT32,
    language=st.sampled_from(LanguageCode),
    version=INT16,
    remark=st.none() | TEXT.filter(bool),
    fields=st.dictionaries(TEXT, TEXT, max_size=6),
    body=st.binary(max_size=100),
)
QUEUES = st.builds(MessageQueue, TEXT, TEXT, st.integers(0, 2**31 - 1))
INT64 = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT
TABLES = st.dictionaries(QUEUES, st.dictionaries(TEXT, SCALARS | st.lists(SCALARS, max_size=3), max_size=3), max_size=4)
DECODERS: list[Callable[[bytes], object]] = [
    lambda body: decode_topic_route("T", body),
    decode_cluster_info,
    decode_topic_stats,
    decode_consume_stats,
    decode_consumer_ids,
    decode_lock_ok,
]
QUEUE = b'{"brokerName":"b","queueId":1,"topic":"T"}'
BROKER = b'{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b","cluster":"c"}'
REAL_BODIES = [
    b'{"brokerDatas":[%s],"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4}]}' % BROKER,
    b'{"brokerAddrTable":{"b":%s},"clusterAddrTable":{"c":["b"]}}' % BROKER,
    b'{"offsetTable":{%s:{"lastUpdateTimestamp":1,"maxOffset":7,"minOffset":0}},"topicPutTps":0.0}' % QUEUE,
    b'{"offsetTable":{%s:7},"consumerIdList":["a"],"lockOKMQSet":[%s]}' % (QUEUE, QUEUE),
]


def mutated(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """``data`` with some stretches replaced: (where, how many bytes, by what)."""
    for where, length, new in edits:
        begin = where % (len(data) + 1)
        data = data[:begin] + new + data[begin + length :]
    return data


EDITS = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.integers(0, 12),
        st.binary(max_size=3)
        | st.sampled_from([b"{", b"}", b"[", b"]", b":", b",", b'"', b"0", b"{0:", b"null", b"1e999"]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("serialization", Serialization)
@given(command=COMMANDS)
def test_a_command_is_decoded_to_what_was_encoded(serialization: Serialization, command: RemotingCommand) -> None:
    frame = encode(replace(command, flag=command.flag | 1), serialization)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(frame[4:]) == replace(command, flag=command.flag | 1)


@given(COMMANDS)
def test_both_serializations_are_equal(command: RemotingCommand) -> None:
    decoded = {s: decode(memoryview(encode(command, s))[4:]) for s in Serialization}
    assert decoded[Serialization.JSON] == decoded[Serialization.ROCKETMQ]


@pytest.mark.parametrize("serialization", Serialization)
@settings(max_examples=300)
@given(command=COMMANDS, edits=EDITS)
def test_a_damaged_frame_gives_a_command_or_a_protocol_error(
    serialization: Serialization, command: RemotingCommand, edits: list[tuple[int, int, bytes]]
) -> None:
    try:
        decode(mutated(encode(command, serialization)[4:], edits))
    except RemoteProtocolError as error:
        assert error.condition == "MALFORMED_RESPONSE.HEADER"
        assert str(error)


@given(st.binary(max_size=200))
def test_garbage_gives_a_protocol_error_only(garbage: bytes) -> None:
    for serialization in (b"", b"\0\0\0", b"\1\0\0"):
        try:
            decode(serialization + garbage)
        except RemoteProtocolError as error:
            assert error.condition == "MALFORMED_RESPONSE.HEADER"


@given(TABLES)
def test_tables_by_queue_are_read_as_they_were_written(table: dict[MessageQueue, object]) -> None:
    items = {
        (("brokerName", queue.broker_name), ("queueId", queue.queue_id), ("topic", queue.topic)): value
        for queue, value in table.items()
    }
    assert parse_fastjson(write_fastjson({"table": table}), "test") == {"table": items}


@pytest.mark.parametrize("body", REAL_BODIES)
@settings(max_examples=300)
@given(edits=EDITS)
def test_a_damaged_body_gives_values_or_a_protocol_error(body: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    damaged = mutated(body, edits)
    for read in DECODERS:
        try:
            read(damaged)
        except RemoteProtocolError as error:
            assert error.condition == "MALFORMED_RESPONSE.BODY"
            assert str(error)
