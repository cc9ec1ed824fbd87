"""Hypothesis strategies for stored messages: what brokers write, and what they should not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from connector_tests.support.message_bytes import COMPRESSED, V1, V2, Record, batch_of
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
KINDS = st.sampled_from([MessageSysFlag.LZ4, MessageSysFlag.ZSTD, MessageSysFlag.ZLIB])
NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "b", "订单", "CLUSTER"])
PROPERTY_COLUMNS = ["TAGS", "a", "订单", "c.d", "properties."]
TAG_VALUES = ["TagA", "TagB", "标签"]
VALUES = st.sampled_from([*TAG_VALUES, "x", "k1 k2", "0123456789ABCDEF0123456789ABCDEF"])

well_formed_properties = st.dictionaries(NAMES, VALUES)
odd_properties = st.lists(
    st.sampled_from(
        [b"\x01", b"\x02", b"a", b"TAGS", b"TagA", b"KEYS", b"\xe8\xae\xa2", b"\xed\xa0\x80", b"\xff", b"\0"]
    ),
    max_size=12,
).map(b"".join)
properties = well_formed_properties | odd_properties

hosts = st.tuples(st.ip_addresses().map(str), INT32) | st.sampled_from([("10.0.0.1", 10911), ("::1", 10911)])
topics: st.SearchStrategy[str | bytes] = st.sampled_from(["T", "TopicTest", "话题", "", b"T\xff"])

plain_bodies = st.tuples(st.binary(max_size=40), st.just(0))
batches = st.lists(st.tuples(st.binary(max_size=8), properties), min_size=1, max_size=4)


def _compressed(plain: tuple[bytes, int], kind: MessageSysFlag) -> tuple[bytes, int]:
    return compress(plain[0], kind), plain[1] | kind | COMPRESSED


@st.composite
def batch_records(draw: st.DrawFn, plain: Record) -> Record:
    """An inner batch, compressed or not, that has as many messages as the broker gave it offsets."""
    unpacked = plain.sys_flag & ~(COMPRESSED | MessageSysFlag.COMPRESSION_MASK)
    batch = batch_of(replace(plain, sys_flag=unpacked), draw(batches))
    kind = draw(st.none() | KINDS)
    if kind is None:
        return batch
    return replace(batch, body=compress(batch.body, kind), sys_flag=batch.sys_flag | kind | COMPRESSED)


bodies_and_flags = st.one_of(
    plain_bodies,
    plain_bodies,
    st.builds(_compressed, plain_bodies, KINDS),
    st.tuples(st.just(b""), st.just(COMPRESSED)),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    body, sys_flag = draw(bodies_and_flags)
    record = Record(
        topic=draw(topics),
        body=body,
        properties=draw(properties),
        queue_id=draw(INT32),
        queue_offset=draw(st.integers(0, 20) | INT64.filter(lambda offset: offset < 2**63 - 8)),
        commit_log_offset=draw(INT64),
        sys_flag=sys_flag | draw(st.sampled_from([0, 0x2, 0x8, -(2**31)])),
        flag=draw(INT32),
        born_timestamp_ms=draw(st.integers(0, 2**42) | INT64),
        store_timestamp_ms=draw(st.integers(0, 2**42) | INT64),
        born_host=draw(hosts),
        store_host=draw(hosts),
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
        body_crc=draw(INT32),
        magic=draw(st.sampled_from([V1, V2])),
    )
    return draw(batch_records(record)) if draw(st.integers(0, 4)) == 0 else record


pull_bodies = st.lists(st.lists(records(), max_size=5), max_size=4)
