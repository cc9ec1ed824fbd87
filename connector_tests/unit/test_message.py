from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest

from connector_tests.support.message_bytes import (
    BLANK,
    COMPRESSED,
    INNER_BATCH,
    V1,
    V2,
    Record,
    batch_of,
    host_bytes,
    pull_body,
    with_a_v1_topic_of_128_bytes,
)
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.message import stored_message as subject
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.stored_message import (
    check_layout,
    decode_first,
    decode_messages,
    format_host,
    offset_msg_id,
)
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

FULL = Record(
    topic="TopicA",
    body=b"payload",
    properties={"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "ABC", "a": "b"},
    queue_id=3,
    queue_offset=41,
    commit_log_offset=12345,
    flag=-9,
    born_timestamp_ms=1_700_000_000_123,
    store_timestamp_ms=1_700_000_000_456,
    reconsume_times=2,
    prepared_transaction_offset=77,
)
HEAD_BYTES = 91


def decoded(*records: Record) -> list[MessageExt]:
    return decode_messages(pull_body(*records), broker_name="b")


def test_every_field_is_read() -> None:
    assert decoded(FULL) == [
        MessageExt(
            topic="TopicA",
            broker_name="b",
            queue_id=3,
            queue_offset=41,
            msg_id="ABC",
            offset_msg_id="0A00000200002A9F0000000000003039",
            body=b"payload",
            properties={"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "ABC", "a": "b"},
            born_timestamp_ms=1_700_000_000_123,
            store_timestamp_ms=1_700_000_000_456,
            born_host="10.0.0.1:40001",
            store_host="10.0.0.2:10911",
            reconsume_times=2,
            commit_log_offset=12345,
            sys_flag=0,
            flag=-9,
            body_crc=zlib.crc32(b"payload") & 0x7FFFFFFF,
            prepared_transaction_offset=77,
        )
    ]


def test_an_empty_body_has_no_messages() -> None:
    assert decode_messages(b"", broker_name="b") == []


def test_messages_keep_their_order() -> None:
    assert [message.queue_offset for message in decoded(*(replace(FULL, queue_offset=n) for n in (5, 6, 9)))] == [
        5,
        6,
        9,
    ]


@pytest.mark.parametrize("born", ["10.0.0.1", "2001:db8::1"])
@pytest.mark.parametrize("store", ["10.0.0.2", "::1"])
def test_hosts_of_both_families_are_read(born: str, store: str) -> None:
    (message,) = decoded(replace(FULL, born_host=(born, 1), store_host=(store, 2)))
    shown = {"10.0.0.1": "10.0.0.1:1", "2001:db8::1": "[2001:db8::1]:1", "10.0.0.2": "10.0.0.2:2", "::1": "[::1]:2"}
    assert (message.born_host, message.store_host) == (shown[born], shown[store])
    assert (message.body, message.properties["a"]) == (b"payload", "b")
    assert len(message.offset_msg_id) == (56 if ":" in store else 32)


def test_a_v2_record_may_have_a_long_topic() -> None:
    (message,) = decoded(replace(FULL, magic=V2, topic="t" * 300))
    assert (message.topic, message.properties["a"]) == ("t" * 300, "b")


def test_a_message_without_a_producers_id_is_known_by_its_place() -> None:
    (message,) = decoded(replace(FULL, properties={"TAGS": "TagA"}))
    assert message.msg_id == message.offset_msg_id
    assert (message.tags, message.keys) == ("TagA", None)


@pytest.mark.parametrize("kind", [MessageSysFlag.LZ4, MessageSysFlag.ZSTD, MessageSysFlag.ZLIB])
def test_a_compressed_body_is_decompressed_and_only_its_bit_cleared(kind: MessageSysFlag) -> None:
    stored = replace(FULL, body=compress(b"payload" * 99, kind), sys_flag=kind | MessageSysFlag.COMPRESSED | 0x2)
    (message,) = decoded(stored)
    assert message.body == b"payload" * 99
    assert message.sys_flag == kind | 0x2
    assert message.body_crc == zlib.crc32(stored.body) & 0x7FFFFFFF


def test_an_empty_body_is_not_decompressed() -> None:
    (message,) = decoded(replace(FULL, body=b"", sys_flag=COMPRESSED))
    assert (message.body, message.sys_flag) == (b"", COMPRESSED)


def test_an_inner_batch_becomes_its_messages_from_the_base_offset_on() -> None:
    first, second = decoded(batch_of(FULL, [(b"one", {"UNIQ_KEY": "A", "TAGS": "x"}), (b"two", {"n": "2"})], flag=5))
    assert (first.queue_offset, second.queue_offset) == (41, 42)
    assert (first.body, second.body) == (b"one", b"two")
    assert (first.msg_id, second.msg_id) == ("A", first.offset_msg_id)
    assert (first.properties, second.properties) == ({"UNIQ_KEY": "A", "TAGS": "x"}, {"n": "2"})
    assert (first.flag, first.sys_flag, first.reconsume_times, first.body_crc) == (5, INNER_BATCH, 0, 0)
    assert first.prepared_transaction_offset == 0
    assert first.store_timestamp_ms == FULL.store_timestamp_ms


def test_a_compressed_inner_batch_is_decompressed_first() -> None:
    plain = batch_of(FULL, [(b"one", b""), (b"two", b"")])
    messages = decoded(replace(plain, body=zlib.compress(plain.body), sys_flag=INNER_BATCH | COMPRESSED))
    assert [message.body for message in messages] == [b"one", b"two"]


def test_the_last_offset_of_an_inner_batch_may_be_the_last_there_is() -> None:
    messages = decoded(batch_of(replace(FULL, queue_offset=2**63 - 2), [(b"", b""), (b"", b"")]))
    assert [message.queue_offset for message in messages] == [2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize("bit", [0x40, 0x80])
def test_only_both_flags_together_make_an_inner_batch(bit: int) -> None:
    (message,) = decoded(replace(FULL, sys_flag=bit))
    assert message.body == b"payload"


@pytest.mark.parametrize("sys_flag", [-1 & ~0x71, -(2**31) | 0x8, 0x8, 0xC, 0x7FFFF000])
def test_flags_that_are_unknown_are_kept(sys_flag: int) -> None:
    assert decoded(replace(FULL, sys_flag=sys_flag & ~0x80))[0].sys_flag == sys_flag & ~0x80


def test_negative_numbers_are_read_as_they_are() -> None:
    negative = replace(
        FULL, queue_offset=-1, queue_id=-2, born_timestamp_ms=-3, reconsume_times=-4, commit_log_offset=-1
    )
    (message,) = decoded(negative)
    assert (message.queue_offset, message.queue_id, message.born_timestamp_ms) == (-1, -2, -3)
    assert message.reconsume_times == -4
    assert message.offset_msg_id.endswith("F" * 16)


def test_a_malformed_topic_is_replaced_as_java_does() -> None:
    assert decoded(replace(FULL, topic=b"T\xff"))[0].topic == "T\ufffd"


GOOD = replace(FULL, body=b"payload", properties=b"abc").encode()


def patched(position: int, data: bytes) -> bytes:
    return GOOD[:position] + data + GOOD[position + len(data) :]


TOPIC_AT = 88 + len(b"payload")


def with_ipv6(sys_flag: int) -> bytes:
    """The smallest record, whose flags state that its hosts are longer than they are."""
    smallest = Record(topic="", body=b"", properties=b"", magic=V1).encode()
    return smallest[:36] + struct.pack(">i", sys_flag) + smallest[40:]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (GOOD[:90], "only 90 bytes are left"),
        (GOOD[:-1], f"declares {len(GOOD)} bytes where {len(GOOD) - 1} are left"),
        (patched(0, b"\0\0\0\0"), "declares 0 bytes"),
        (patched(0, b"\xff\xff\xff\xff"), "declares -1 bytes"),
        (patched(0, b"\x7f\xff\xff\xff"), "declares 2147483647 bytes"),
        (patched(0, struct.pack(">i", 90)), "declares 90 bytes"),
        (patched(0, struct.pack(">i", len(GOOD) - 1)), "properties should have 3 bytes where 2 remain"),
        (patched(4, b"\0\0\0\0"), "magic number 0 is unknown"),
        (patched(4, struct.pack(">I", BLANK)), "<it is the blank end of a commit log file>"),
        (patched(84, b"\xff\xff\xff\xff"), "body should have -1 bytes"),
        (patched(84, b"\x7f\xff\xff\xff"), "body should have 2147483647 bytes"),
        (patched(TOPIC_AT, b"\x80"), "topic should have -128 bytes"),
        (patched(TOPIC_AT, b"\x7f"), "topic should have 127 bytes"),
        (patched(84, struct.pack(">i", len(GOOD) - 88)), "its length of the topic should have 1 bytes where 0 remain"),
        (
            patched(TOPIC_AT, bytes([len(GOOD) - TOPIC_AT - 1])),
            "its length of the properties should have 2 bytes where 0",
        ),
        (with_ipv6(0x10), "its tail should have 16 bytes where 7 remain"),
        (with_ipv6(0x30), "its host should have 20 bytes where 15 remain"),
        (patched(TOPIC_AT + 7, b"\xff\xff"), "properties should have -1 bytes"),
        (patched(TOPIC_AT + 7, b"\0\x02"), "1 bytes follow its properties"),
        (Record(sys_flag=COMPRESSED).encode(), "ZLIB body is damaged"),
        (Record(sys_flag=COMPRESSED | 0x400).encode(), "compression 0x400 is unknown"),
        (Record(sys_flag=INNER_BATCH).encode(), "inner head"),
        (Record(sys_flag=INNER_BATCH, body=b"").encode(), "<its inner batch is empty>"),
        (
            batch_of(Record(queue_offset=2**63 - 1), [(b"", b"")] * 2).encode(),
            "<its inner batch has 2 messages where the broker gave it 1 queue offsets>",
        ),
    ],
)
def test_a_damaged_record_is_an_error_that_reports_where(record: bytes, problem: str) -> None:
    body = GOOD + GOOD + record
    with pytest.raises(RemoteProtocolError) as caught:
        decode_messages(body, broker_name="b")
    assert problem in f"<{caught.value.context['problem']}>"
    expected = {"index": 2, "position": 2 * len(GOOD), "length_bytes": len(body)}
    assert caught.value.condition == "CORRUPT_MESSAGE.RESPONSE"
    assert {name: caught.value.context[name] for name in expected} == expected


def test_the_topic_of_a_v1_record_has_at_most_127_bytes() -> None:
    assert decoded(replace(FULL, topic="t" * 127))[0].topic == "t" * 127
    with pytest.raises(RemoteProtocolError, match="topic should have -128 bytes"):
        decode_messages(with_a_v1_topic_of_128_bytes(), broker_name="b")


def test_bodies_together_may_not_grow_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "DECOMPRESSED_LIMIT_BYTES", 1000)
    packed = replace(FULL, sys_flag=COMPRESSED, body=zlib.compress(bytes(400)))
    assert len(decoded(packed, packed)) == 2
    with pytest.raises(RemoteProtocolError, match="more than the 200 bytes"):
        decoded(packed, packed, packed)


def test_a_body_cut_anywhere_is_never_silently_shortened() -> None:
    body = GOOD * 2
    for cut in set(range(1, len(body))) - {len(GOOD)}:
        with pytest.raises(RemoteProtocolError, match=r"CORRUPT_MESSAGE\.RESPONSE"):
            decode_messages(body[:cut], broker_name="b")


def test_the_smallest_record_is_a_message() -> None:
    smallest = Record(topic="", body=b"", properties=b"", magic=V1)
    assert len(smallest.encode()) == HEAD_BYTES
    assert decoded(smallest)[0].body == b""


def test_the_first_record_is_read_as_it_is_stored_whatever_follows() -> None:
    packed = replace(FULL, sys_flag=COMPRESSED, body=zlib.compress(b"payload"))
    first = decode_first(packed.encode() + b"no record")
    assert first == replace(
        decoded(FULL)[0],
        broker_name="",
        sys_flag=COMPRESSED,
        body=packed.body,
        body_crc=zlib.crc32(packed.body) & 0x7FFFFFFF,
    )


@pytest.mark.parametrize("body", [b"", GOOD[:-1], patched(4, b"\0\0\0\0")])
def test_a_first_record_that_is_damaged_is_an_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_first(body)
    problem = str(caught.value.__cause__)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.context == {"index": 0, "position": 0, "length_bytes": len(body), "problem": problem}


def test_a_layout_is_right_whatever_is_in_the_bodies() -> None:
    undecodable_body = Record(sys_flag=COMPRESSED, body=b"not compressed").encode()
    check_layout(GOOD + undecodable_body, broker_name="b")
    for damaged in (patched(4, b"\0\0\0\0"), GOOD[:90]):
        with pytest.raises(RemoteProtocolError, match=r"magic number 0|only 90 bytes") as caught:
            check_layout(GOOD + damaged, broker_name="b")
        assert (caught.value.context["index"], caught.value.context["position"]) == (1, len(GOOD))
        assert caught.value.context["length_bytes"] == len(GOOD) + len(damaged)


IPV4 = ("127.0.0.1", 10911)
IPV6 = ("2001:db8::1", 10911)


def test_an_id_is_the_host_and_the_place_in_upper_case_hex() -> None:
    assert offset_msg_id(host_bytes(IPV4), 0xABCDEF) == "7F00000100002A9F0000000000ABCDEF"
    assert offset_msg_id(host_bytes(IPV6), 1) == "20010DB800000000000000000000000100002A9F0000000000000001"


def test_a_host_shows_its_port_as_it_is_stored() -> None:
    assert format_host(host_bytes(("1.2.3.4", -1))) == "1.2.3.4:-1"
