"""Stored messages: the same bytes are the same message to Java and to us."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from random import Random
from typing import Any

import pytest

from connector_tests.support.java_values import random_text
from connector_tests.support.message_bytes import COMPRESSED, V1, V2, Record, batch_of, pull_body
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import Message, MessageExt
from rocketmq_spark.wire.message.batch import decode_batch, encode_batch, message_properties
from rocketmq_spark.wire.message.compression import compress, decompress
from rocketmq_spark.wire.message.stored_message import decode_messages, offset_msg_id
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

COMPRESSIONS = [MessageSysFlag.LZ4, MessageSysFlag.ZSTD, MessageSysFlag.ZLIB]
HOSTS = ["127.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "2001:db8::17:0:0:1", "fe80::1"]
PROPERTY_PIECES = [b"\x01", b"\x02", b"a", b"TAGS", b"UNIQ_KEY", b" ", "é".encode(), "\U0001f680".encode()]
MALFORMED = [
    b"\x80",
    b"\xc3",
    b"\xc0\xaf",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xf0\x9f\x9a",
    b"\xf8\x88",
    b"\xff",
]


# ---------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
def test_records_decode_as_in_java(java: Any, count: int) -> None:
    random = Random(count)
    for _ in range(count):
        body = pull_body(*(random_record(random) for _ in range(random.randint(1, 3))))
        ours, theirs = decode_messages(body, broker_name="b"), java_decode(java, body)
        assert [view_of_ours(message) for message in ours] == [view_of_theirs(java, message) for message in theirs]


def random_record(random: Random) -> Record:
    magic = random.choice([V1, V2])
    body = random.randbytes(random.choice([0, 1, 40])) * random.randint(1, 100)
    sys_flag = random.choice([0, MessageSysFlag.TRANSACTION_COMMIT.value, 0x80])
    if body and random.random() < 0.4:
        kind = random.choice(COMPRESSIONS)
        body, sys_flag = compress(body, kind), sys_flag | COMPRESSED | kind.value
    return Record(
        topic=random_text(random, 10) * (20 if magic == V2 and random.random() < 0.5 else 1),
        body=body,
        properties=b"".join(
            random.choices(PROPERTY_PIECES + MALFORMED * (random.random() < 0.2), k=random.randrange(20))
        ),
        queue_id=random.randrange(1000),
        queue_offset=random.randrange(2**63),
        commit_log_offset=random.randrange(2**63),
        sys_flag=sys_flag,
        flag=random.randrange(-(2**31), 2**31),
        born_timestamp_ms=random.randrange(2**41),
        store_timestamp_ms=random.randrange(2**41),
        born_host=(random.choice(HOSTS), random.randrange(2**16)),
        store_host=(random.choice(HOSTS), random.randrange(2**16)),
        reconsume_times=random.randrange(20),
        prepared_transaction_offset=random.randrange(2**63),
        magic=magic,
    )


View = Mapping[str, object]


def view_of_ours(message: MessageExt) -> View:
    return {
        "topic": message.topic,
        "queue": (message.queue_id, message.queue_offset),
        "ids": (message.msg_id, message.offset_msg_id),
        "body": message.body,
        "properties": message.properties,
        "tags": message.tags,
        "keys": message.keys,
        "times": (message.born_timestamp_ms, message.store_timestamp_ms),
        "born_host": message.born_host,
        "store_host": message.store_host,
        "numbers": (message.reconsume_times, message.commit_log_offset, message.prepared_transaction_offset),
        "flags": (message.flag, message.sys_flag),
        "body_crc": message.body_crc,
    }


def view_of_theirs(java: Any, message: Any) -> View:
    return {
        "topic": message.getTopic(),
        "queue": (message.getQueueId(), message.getQueueOffset()),
        "ids": (message.getMsgId(), message.getOffsetMsgId()),
        "body": bytes(message.getBody() or b""),
        "properties": properties_of(java, message),
        "tags": message.getTags(),
        "keys": message.getKeys(),
        "times": (message.getBornTimestamp(), message.getStoreTimestamp()),
        "born_host": host_of(message.getBornHost()),
        "store_host": host_of(message.getStoreHost()),
        "numbers": (
            message.getReconsumeTimes(),
            message.getCommitLogOffset(),
            message.getPreparedTransactionOffset(),
        ),
        "flags": (message.getFlag(), message.getSysFlag()),
        "body_crc": message.getBodyCRC(),
    }


def host_of(address: Any) -> str:
    ip = ip_address(address.getAddress().getHostAddress())
    return f"{ip}:{address.getPort()}" if ip.version == 4 else f"[{ip}]:{address.getPort()}"


def properties_of(java: Any, message: Any) -> dict[str, str]:
    properties: dict[str, str] = json.loads(java.com.alibaba.fastjson2.JSON.toJSONString(message.getProperties()))
    return properties or {}


def decoder(java: Any) -> Any:
    return java.org.apache.rocketmq.common.message.MessageDecoder


def java_decode(java: Any, body: bytes) -> list[Any]:
    return list(decoder(java).decodes(java.java.nio.ByteBuffer.wrap(body)))


@pytest.mark.parametrize("kind", COMPRESSIONS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("length_bytes", [0, 1, 64 * 1024, 64 * 1024 + 1, 1_000_000])
def test_what_we_compress_java_decompresses(java: Any, kind: MessageSysFlag, length_bytes: int) -> None:
    """Blocks of LZ4 that refer to earlier ones, as Arrow writes them by itself, are an error to Java."""
    plain = Random(length_bytes).randbytes(length_bytes // 2).ljust(length_bytes)
    compression = java.org.apache.rocketmq.common.compression
    compressor = compression.CompressorFactory.getCompressor(compression.CompressionType.of(kind.name))
    assert bytes(compressor.decompress(compress(plain, kind))) == plain
    assert decompress(bytes(compressor.compress(plain, 5)), kind.value) == plain


@pytest.mark.parametrize("kind", COMPRESSIONS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("host", ["10.0.0.1", "2001:db8::1"])
def test_what_java_encodes_and_compresses_we_decode(java: Any, kind: MessageSysFlag, host: str) -> None:
    plain = b"rocketmq " * 1000
    record = Record(body=plain, sys_flag=COMPRESSED | kind.value, born_host=(host, 1), store_host=(host, 2))
    (theirs,) = java_decode(java, Record(born_host=(host, 1), store_host=(host, 2), properties={"k": "v"}).encode())
    theirs.setBody(plain)
    theirs.setSysFlag(record.stored_sys_flag)
    theirs.setStoreSize(0)
    stored = bytes(decoder(java).encode(theirs, True))
    assert len(stored) < len(plain)
    (ours,) = decode_messages(stored, broker_name="b")
    assert (ours.body, ours.properties, ours.store_host) == (plain, {"k": "v"}, host_of(theirs.getStoreHost()))


def test_inner_batches_are_unwrapped_as_in_java(java: Any) -> None:
    random = Random(8)
    for _ in range(50):
        parts = [
            (random.randbytes(random.randrange(9)), random_properties(random)) for _ in range(random.randint(1, 5))
        ]
        plain = Record(queue_offset=random.randrange(2**40), topic="Batch")
        record = batch_of(plain, parts, flag=random.randrange(100))
        ours = decode_messages(record.encode(), broker_name="b")
        assert [view_of_part(message) for message in ours] == list(java_parts(java, record.encode()))


def view_of_part(message: MessageExt) -> tuple[object, ...]:
    place = (message.topic, message.queue_id, message.queue_offset, message.commit_log_offset)
    return (*place, message.flag, message.sys_flag, message.body, message.properties)


def java_parts(java: Any, record: bytes) -> Iterator[tuple[object, ...]]:
    parts = java.java.util.ArrayList()
    decoder(java).decodeMessage(java_decode(java, record)[0], parts)
    for part in parts:
        place = (part.getTopic(), part.getQueueId(), part.getQueueOffset(), part.getCommitLogOffset())
        properties = properties_of(java, part)
        assert properties.pop("WAIT") == "true", "what only Java's decoder adds"
        yield (*place, part.getFlag(), part.getSysFlag(), bytes(part.getBody()), properties)


def random_properties(random: Random) -> dict[str, str]:
    return {random_text(random): random_text(random, 20) for _ in range(random.randrange(5))}


# ---------------------------------------------------------------------------------------------------- damage


def test_a_damaged_record_is_the_same_message_to_both_or_an_error(java: Any) -> None:
    """One bit is changed. What only we accept has a port that Java's addresses cannot hold, as documented."""
    random = Random(9)
    both = only_ours = 0
    for _ in range(300):
        record = bytearray(random_record(random).encode())
        record[random.randrange(4, len(record))] ^= 1 << random.randrange(8)
        ours, theirs = decode_or_nothing(bytes(record)), java_decode(java, bytes(record))
        if ours and theirs:
            both += 1
            assert [view_of_ours(message) for message in ours] == [view_of_theirs(java, message) for message in theirs]
        elif ours:
            only_ours += 1
            assert any(port_of(host) > 65535 for host in (ours[0].born_host, ours[0].store_host))
    assert both > 150
    assert only_ours > 0


def decode_or_nothing(body: bytes) -> list[MessageExt]:
    try:
        return decode_messages(body, broker_name="b")
    except RemoteProtocolError as error:
        assert error.condition == "CORRUPT_MESSAGE.RESPONSE"
        return []


def port_of(host: str) -> int:
    """As an unsigned number."""
    return int(host.rpartition(":")[2]) % 2**32


# ---------------------------------------------------------------------------------------------------- batches, ids


def random_message(random: Random) -> Message:
    return Message(
        topic="T",
        body=random.randbytes(random.randrange(50)),
        tags=random.choice([None, random_text(random)]),
        keys=random.choice([None, random_text(random)]),
        properties=random_properties(random),
        flag=random.randrange(-(2**31), 2**31),
    )


def test_a_batch_that_we_encode_is_what_java_decodes(java: Any) -> None:
    random = Random(10)
    for _ in range(50):
        messages = [random_message(random) for _ in range(random.randint(1, 5))]
        theirs = decoder(java).decodeMessages(java.java.nio.ByteBuffer.wrap(encode_batch(messages)))
        assert [(part.getFlag(), bytes(part.getBody()), properties_of(java, part)) for part in theirs] == [
            (message.flag, message.body, message_properties(message)) for message in messages
        ]


def test_a_batch_that_java_encodes_is_what_we_decode_and_encode(java: Any) -> None:
    """Byte for byte, where the order of properties is one that both have."""
    random = Random(11)
    for _ in range(50):
        messages = [random_message(random) for _ in range(random.randint(1, 5))]
        body = bytes(decoder(java).encodeMessages([java_message(java, message) for message in messages]))
        parts = decode_batch(body)
        assert [(part.flag, part.body, part.properties) for part in parts] == [
            (message.flag, message.body, message_properties(message)) for message in messages
        ]
        in_their_order = [Message("T", part.body, properties=part.properties, flag=part.flag) for part in parts]
        assert encode_batch(in_their_order) == body


def java_message(java: Any, message: Message) -> Any:
    theirs = java.org.apache.rocketmq.common.message.Message()
    theirs.setBody(message.body)
    theirs.setFlag(message.flag)
    properties = java.java.util.HashMap()
    for name, value in message_properties(message).items():
        properties.put(name, value)
    java.org.apache.rocketmq.common.message.MessageAccessor.setProperties(theirs, properties)
    return theirs


@pytest.mark.parametrize("ip", HOSTS)
def test_ids_of_places_are_those_of_java(java: Any, ip: str) -> None:
    address = java.java.net.InetSocketAddress(ip, 10911)
    offset = 2**62 + 5
    theirs = decoder(java).createMessageId(address, offset)
    host = ip_address(ip).packed + (10911).to_bytes(4, "big")
    assert offset_msg_id(host, offset) == theirs
    assert decoder(java).decodeMessageId(theirs).getOffset() == offset
