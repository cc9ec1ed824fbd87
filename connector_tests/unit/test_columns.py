"""What the columnar decoder promises beyond equality with the scalar one (``properties/test_columns_equal_scalar``)."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from connector_tests.support.decoders import NewDecoder
from connector_tests.support.message_bytes import (
    COMPRESSED,
    INNER_BATCH,
    Record,
    batch_of,
    inner_batch,
    pull_body,
    with_a_v1_topic_of_128_bytes,
)
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.arrow import columns as subject
from rocketmq_spark.wire.arrow.column_table import (
    COLUMNS,
    DEFAULT_COLUMNS,
    FIRST_TIMESTAMP_MS,
    LAST_TIMESTAMP_MS,
    Column,
    ColumnType,
    default_columns,
    of_property,
)
from rocketmq_spark.wire.arrow.columns import BatchTooLargeError, ColumnDecoder
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

MESSAGE = Record(
    topic="TopicA",
    body=b"payload",
    properties={"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "ABC"},
    queue_id=3,
    queue_offset=7,
    commit_log_offset=0xABC,
    flag=5,
    born_timestamp_ms=1_700_000_000_123,
    store_timestamp_ms=-1,
    reconsume_times=2,
    body_crc=99,
)
MESSAGE_WITHOUT_PROPERTIES = replace(MESSAGE, topic="T", properties={})
ALL = (0, 1_000)
BOTH = COMPRESSED | INNER_BATCH


@pytest.fixture(scope="module")
def decoder(column_decoder: type[ColumnDecoder]) -> NewDecoder:
    def new_decoder(*names: str, tags: frozenset[str] | None = None) -> ColumnDecoder:
        return column_decoder(names, broker_name="broker-a", tags=tags)

    return new_decoder


def offsets(batch: pa.RecordBatch) -> list[int]:
    return list(batch.column("queueOffset").to_pylist())


def at(*queue_offsets: int) -> list[bytes]:
    return [pull_body(*(replace(MESSAGE, queue_offset=offset) for offset in queue_offsets))]


def test_a_column_is_null_when_its_row_is_null_and_else_never(decoder: NewDecoder) -> None:
    bare = replace(MESSAGE, properties={}, born_timestamp_ms=2**62, store_timestamp_ms=-(2**62), body=b"")
    (row,) = decoder(*COLUMNS).decode([bare.encode()], *ALL).to_pylist()
    nullable = {name for name, column in COLUMNS.items() if column.null_when is not None}
    assert {name for name, value in row.items() if value is None} == nullable - {"body"}, "see test_unreadable_bodies"


def test_every_column_has_its_value(decoder: NewDecoder) -> None:
    (row,) = decoder(*COLUMNS).decode([MESSAGE.encode()], *ALL).to_pylist()
    assert row == {
        "topic": "TopicA",
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": 7,
        "msgId": "ABC",
        "keys": "k1 k2",
        "tags": "TagA",
        "body": b"payload",
        "properties": [("TAGS", "TagA"), ("KEYS", "k1 k2"), ("UNIQ_KEY", "ABC")],
        "bornTimestamp": dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, dt.UTC),
        "storeTimestamp": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC),
        "reconsumeTimes": 2,
        "bornHost": "10.0.0.1:40001",
        "storeHost": "10.0.0.2:10911",
        "offsetMsgId": "0A00000200002A9F0000000000000ABC",
        "commitLogOffset": 0xABC,
        "sysFlag": 0,
        "flag": 5,
        "bodyCRC": 99,
    }


def test_the_default_columns_end_with_reconsume_times_and_have_no_map_unless_it_is_required() -> None:
    assert (len(DEFAULT_COLUMNS), DEFAULT_COLUMNS[0], DEFAULT_COLUMNS[-1]) == (11, "topic", "reconsumeTimes")
    assert default_columns(include_properties=False) == DEFAULT_COLUMNS
    assert default_columns(include_properties=True) == tuple(COLUMNS)[:12]


def test_a_column_of_a_property_is_described_as_one() -> None:
    assert of_property("a") == Column(
        ColumnType.STRING, "Message property `a`.", "properties.a", "the message does not have the property"
    )


@pytest.mark.parametrize(
    "of_second",
    [{"TAGS": "b", "region": "south"}, {"region": "south"}, {"region": "south", "TAGS": "c", "a.b": "z"}, {}],
)
def test_a_property_is_a_column_and_null_where_there_is_none(decoder: NewDecoder, of_second: dict[str, str]) -> None:
    both = [{"TAGS": "a", "region": "north"}, of_second]
    body = pull_body(*(replace(MESSAGE, queue_offset=at, properties=one) for at, one in enumerate(both)))
    batch = decoder("queueOffset", "region", "a.b", "none").decode([body], *ALL)
    assert batch.schema.types == [pa.int64(), pa.string(), pa.string(), pa.string()]
    names = ("region", "a.b", "none")
    assert [batch.column(name).to_pylist() for name in names] == [[one.get(name) for one in both] for name in names]


def test_a_property_of_an_inner_batch_is_a_column_too(decoder: NewDecoder) -> None:
    body = batch_of(replace(MESSAGE, queue_offset=0), [(b"1", b"region\x01north"), (b"2", b"")]).encode()
    assert decoder("region").decode([body], *ALL).column("region").to_pylist() == ["north", None]


def test_nothing_pulled_is_an_empty_batch_of_the_same_schema(decoder: NewDecoder) -> None:
    for bodies in ([], [b""], [b"", b""]):
        batch = decoder(*COLUMNS).decode(bodies, *ALL)
        assert (batch.num_rows, batch.schema) == (0, decoder(*COLUMNS).schema)


def test_a_range_excludes_its_end(decoder: NewDecoder) -> None:
    decode = decoder("queueOffset").decode
    assert offsets(decode(at(4, 5, 6, 9), 5, 9)) == [5, 6]
    assert offsets(decode(at(4, 5), 6, 9)) == []


def test_messages_of_several_bodies_stay_in_order(decoder: NewDecoder) -> None:
    assert offsets(decoder("queueOffset").decode([*at(1, 2), b"", *at(5)], *ALL)) == [1, 2, 5]


def test_slow_messages_stay_in_their_places(decoder: NewDecoder) -> None:
    batches = [batch_of(replace(MESSAGE, queue_offset=at), [(b"b0", b""), (b"b1", b"")]) for at in (11, 15)]
    packed = compress(b"packed", MessageSysFlag.ZSTD)
    zstd = replace(MESSAGE, queue_offset=13, sys_flag=COMPRESSED | MessageSysFlag.ZSTD, body=packed)
    records = [
        replace(MESSAGE, queue_offset=10),
        batches[0],
        zstd,
        replace(MESSAGE, queue_offset=14),
        batches[1],
    ]
    decoded = decoder("queueOffset", "body", "properties").decode([pull_body(*records)], *ALL)
    assert offsets(decoded) == [10, 11, 12, 13, 14, 15, 16]
    assert decoded.column("body").to_pylist() == [b"payload", b"b0", b"b1", b"packed", b"payload", b"b0", b"b1"]


def test_a_range_may_begin_and_end_inside_an_inner_batch(decoder: NewDecoder) -> None:
    batch = batch_of(replace(MESSAGE, queue_offset=5), [(b"", b"")] * 4)
    assert offsets(decoder("queueOffset").decode([batch.encode()], 6, 8)) == [6, 7]


def test_only_messages_with_a_subscribed_tag_are_kept(decoder: NewDecoder) -> None:
    tagged = [replace(MESSAGE, queue_offset=n, properties={"TAGS": tag}) for n, tag in enumerate(("Aa", "BB", "Aa"))]
    untagged = replace(MESSAGE, queue_offset=3, properties=b"")
    batch = batch_of(replace(MESSAGE, queue_offset=4), [(b"", {"TAGS": "BB"}), (b"", {"TAGS": "Aa"})])
    bodies = [pull_body(*tagged, untagged, batch)]
    assert offsets(decoder("queueOffset", tags=frozenset({"Aa"})).decode(bodies, *ALL)) == [0, 2, 5]
    assert offsets(decoder("queueOffset", tags=frozenset()).decode(bodies, *ALL)) == []


def test_a_column_may_be_null_where_there_is_nothing(decoder: NewDecoder) -> None:
    bare = replace(MESSAGE, properties=b"", born_timestamp_ms=2**62, store_timestamp_ms=-(2**63))
    names = ("keys", "tags", "properties", "bornTimestamp", "storeTimestamp")
    (row,) = decoder(*names).decode([bare.encode()], *ALL).to_pylist()
    assert row == {"keys": None, "tags": None, "properties": [], "bornTimestamp": None, "storeTimestamp": None}


@pytest.mark.parametrize(
    "time_zone", ["UTC", "Etc/GMT+12", "Pacific/Kiritimati", "<-18>18", "<+18>-18", "America/New_York"]
)
def test_times_at_the_limits_are_years_python_has(
    decoder: NewDecoder, time_zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PySpark makes them of microseconds, by the process's time zone."""
    monkeypatch.setenv("TZ", time_zone)
    time.tzset()
    limits = (FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS)
    assert limits == tuple(ms_of(one) for one in ("0100-01-01T00:00:00.000", "9899-12-31T23:59:59.999"))
    for born_ms, is_kept in zip((*limits, limits[0] - 1, limits[1] + 1), (True, True, False, False), strict=True):
        plain = replace(MESSAGE, born_timestamp_ms=born_ms)
        batch = replace(plain, sys_flag=INNER_BATCH, body=inner_batch([(b"", b"")]))
        column = decoder("bornTimestamp").decode([pull_body(plain, batch)], *ALL).column(0)
        assert column.view(pa.int64()).to_pylist() == [born_ms * 1000 if is_kept else None] * 2
        if is_kept:
            dt.datetime.fromtimestamp(born_ms // 1000)  # noqa: DTZ006  # as PySpark does
    monkeypatch.undo()
    time.tzset()


def ms_of(text: str) -> int:
    return (dt.datetime.fromisoformat(f"{text}+00:00") - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
        milliseconds=1
    )


def test_of_a_repeated_name_the_last_value_stays(decoder: NewDecoder) -> None:
    repeated = replace(MESSAGE, properties=b"TAGS\x01x\x02a\x01b\x02TAGS\x01y\x02")
    other = replace(MESSAGE, properties=b"TAGS\x01z\x02")
    batch = decoder("tags", "properties").decode([pull_body(other, repeated, other)], *ALL)
    assert batch.column("tags").to_pylist() == ["z", "y", "z"]
    assert [dict(pairs) for pairs in batch.column("properties").to_pylist()] == [
        {"TAGS": "z"},
        {"TAGS": "y", "a": "b"},
        {"TAGS": "z"},
    ]


def test_names_that_never_repeat_in_a_row_may_be_many(decoder: NewDecoder) -> None:
    records = [replace(MESSAGE, properties={f"name-{n}": "v"}) for n in range(300)]
    batch = decoder("properties").decode([pull_body(*records)], *ALL)
    assert batch.column("properties").to_pylist() == [[(f"name-{n}", "v")] for n in range(300)]


def test_a_batch_does_not_read_the_bodies_any_more(decoder: NewDecoder) -> None:
    body = bytearray(MESSAGE.encode())
    batch = decoder(*COLUMNS).decode([memoryview(body)], *ALL)
    before = batch.to_pylist()
    body[:] = bytes(len(body))
    assert batch.to_pylist() == before


@pytest.mark.parametrize("body", [b"no zlib", b"n"])
def test_a_body_that_is_not_requested_is_not_decompressed(decoder: NewDecoder, body: bytes) -> None:
    broken = replace(MESSAGE, sys_flag=COMPRESSED, body=body)
    assert decoder("queueOffset", "sysFlag").decode([broken.encode()], *ALL).to_pylist() == [
        {"queueOffset": 7, "sysFlag": 0}
    ]
    with pytest.raises(RemoteProtocolError, match="ZLIB body is damaged"):
        decoder("body").decode([broken.encode()], *ALL)


def test_a_message_outside_the_range_is_not_decompressed(decoder: NewDecoder) -> None:
    broken = replace(MESSAGE, sys_flag=COMPRESSED, body=b"no zlib")
    assert decoder("body").decode([broken.encode()], 0, 7).num_rows == 0


def test_damage_is_reported_where_it_is_in_its_own_body(decoder: NewDecoder) -> None:
    good, broken = MESSAGE.encode(), replace(MESSAGE, sys_flag=COMPRESSED, body=b"no zlib").encode()
    for undecodable in (good[:4] + b"?" + good[5:], broken):
        with pytest.raises(RemoteProtocolError) as caught:
            decoder("body").decode([good * 3, good + good + undecodable + good, good], *ALL)
        context = caught.value.context
        assert (context["index"], context["position"]) == (2, 2 * len(good))
        assert context["length_bytes"] == 3 * len(good) + len(undecodable)


@pytest.mark.parametrize("end", [-1, 0, 1, 2])
def test_a_last_body_that_leaves_no_space_for_its_topic_is_damage(decoder: NewDecoder, end: int) -> None:
    """The record ends with 1 byte of a length, ``T``, and 2 bytes of another length."""
    stored = bytearray(MESSAGE_WITHOUT_PROPERTIES.encode())
    body_bytes_at = len(stored) - len("T" + "payload") - 3 - 4
    stored[body_bytes_at : body_bytes_at + 4] = (len("payload") + 4 + end).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match=r"CORRUPT_MESSAGE\.RESPONSE"):
        decoder("queueOffset").decode([bytes(stored)], *ALL)


def test_the_first_message_of_a_body_is_not_searched_for_in_the_body_before_it(decoder: NewDecoder) -> None:
    good, broken = MESSAGE.encode(), replace(MESSAGE, sys_flag=COMPRESSED, body=b"no zlib").encode()
    with pytest.raises(RemoteProtocolError) as caught:
        decoder("body").decode([good, broken + good], *ALL)
    context = caught.value.context
    assert (context["index"], context["position"], context["length_bytes"]) == (0, 0, len(broken) + len(good))


def test_the_topic_and_the_id_are_those_of_the_queue_where_no_others_are_requested(decoder: NewDecoder) -> None:
    sent_back = replace(MESSAGE, properties={"RETRY_TOPIC": "origin", "ORIGIN_MESSAGE_ID": "O", "UNIQ_KEY": "U"})
    (row,) = decoder("topic", "msgId").decode([sent_back.encode()], *ALL).to_pylist()
    assert row == {"topic": "TopicA", "msgId": "U"}


def test_the_topic_of_a_v1_record_has_at_most_127_bytes(decoder: NewDecoder) -> None:
    with pytest.raises(RemoteProtocolError, match="topic should have -128 bytes"):
        decoder("topic").decode([with_a_v1_topic_of_128_bytes()], *ALL)


def test_bodies_together_may_not_grow_beyond_the_limit(decoder: NewDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "DECOMPRESSED_LIMIT_BYTES", 1000)
    packed = replace(MESSAGE, sys_flag=COMPRESSED, body=compress(bytes(400), MessageSysFlag.ZLIB)).encode()
    assert decoder("body").decode([packed, packed], *ALL).num_rows == 2
    with pytest.raises(RemoteProtocolError, match="more than the 200 bytes"):
        decoder("body").decode([packed, packed, packed], *ALL)


def moved(*offsets: int) -> bytes:
    return pull_body(*(replace(MESSAGE, queue_offset=offset) for offset in offsets))


@pytest.mark.parametrize(
    ("stored", "responded", "rows"),
    [
        pytest.param([(5, 6, 7)], [(5, 8)], [5, 6, 7], id="nothing moved"),
        pytest.param([(5, 7, 8)], [(5, 8)], [5, 6, 7], id="moved"),
        pytest.param([(5, 6), (8, 9)], [(5, 7), (7, 9)], [5, 6, 7, 8], id="only in one answer"),
        pytest.param([(5, 5, 6)], [(4, 7)], [4, 5, 6], id="moved and back: the broker was restarted"),
        pytest.param([(5, 7, 8)], [(5, 9)], [5, 7, 8], id="fewer messages than offsets"),
        pytest.param([(5, 6, 8)], [(7, 10)], [5, 6, 8], id="in front of their places"),
        pytest.param([(5, 7, 8)], [], [5, 7, 8], id="nothing known"),
    ],
)
def test_rows_have_their_places_where_these_can_be_counted(
    decoder: NewDecoder, stored: list[tuple[int, ...]], responded: list[tuple[int, int]], rows: list[int]
) -> None:
    bodies = [moved(*one) for one in stored]
    assert offsets(decoder("queueOffset", "body").decode_with_undecodable(bodies, *ALL, responded)[0]) == rows
    filtered, _ = decoder("queueOffset", tags=frozenset({"TagA"})).decode_with_undecodable(bodies, *ALL, responded)
    assert offsets(filtered) == [offset for one in stored for offset in one], "no place can be counted"


@pytest.mark.parametrize(("next_offset", "rows"), [(12, [10, 11]), (13, [10, 11]), (11, None)])
def test_an_inner_batch_ends_where_the_next_message_begins(
    decoder: NewDecoder, next_offset: int, rows: list[int] | None
) -> None:
    batch = batch_of(replace(MESSAGE, queue_offset=10), [(b"", b""), (b"", b"")])
    bodies = [pull_body(batch, replace(MESSAGE, queue_offset=next_offset))]
    found, undecodable = decoder("queueOffset", "body").decode_with_undecodable(bodies, *ALL, [(10, next_offset + 1)])
    assert offsets(found) == [*(rows or [10]), next_offset]
    assert [one.offsets for one in undecodable] == ([] if rows else [range(10, 11)])
    alone, undecodable = decoder("queueOffset", "body").decode_with_undecodable(
        [batch.encode()], *ALL, [(10, next_offset)]
    )
    assert offsets(alone) == (rows or [10])
    assert len(undecodable) == (rows is None)


@pytest.mark.parametrize("responded", [[], [(0, 7)]], ids=["nothing known", "the answer is known"])
def test_an_inner_batch_before_the_range_is_not_decoded(
    decoder: NewDecoder, responded: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few offsets were wanted, those before them used up the limit."""
    monkeypatch.setattr(subject, "DECOMPRESSED_LIMIT_BYTES", 8_000)
    plain = batch_of(MESSAGE, [(bytes(2_000), b"")] * 2).body
    packed = compress(plain, MessageSysFlag.ZLIB)
    records = [
        replace(batch_of(replace(MESSAGE, queue_offset=offset), [(b"", b"")] * 2), body=packed, sys_flag=BOTH)
        for offset in (0, 2, 4)
    ]
    bodies = [pull_body(*records, replace(MESSAGE, queue_offset=6))]
    for offset in range(7):
        found, undecodable = decoder("queueOffset", "body").decode_with_undecodable(
            bodies, offset, offset + 1, responded
        )
        assert (offsets(found), undecodable) == ([offset], [])
    with pytest.raises(BatchTooLargeError):
        decoder("queueOffset", "body").decode_with_undecodable(bodies, 0, 7, responded)


@pytest.mark.parametrize(
    ("properties", "fitting"),
    [({}, 7), ({f"name{number}": "v" for number in range(10)}, 2)],
    ids=["rows", "properties"],
)
def test_messages_of_an_inner_batch_count_by_more_than_their_bodies(
    decoder: NewDecoder, properties: dict[str, str], fitting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million rows came out of 31 compressed messages, and 5 million properties out of one, in one batch."""
    monkeypatch.setattr(subject, "DECOMPRESSED_LIMIT_BYTES", 8_000)
    bodies = [pull_body(batch_of(replace(MESSAGE, queue_offset=10), [(b"", properties)] * 20))]
    found, undecodable = decoder("queueOffset", "properties").decode_with_undecodable(bodies, 12, 12 + fitting)
    assert (offsets(found), undecodable) == (list(range(12, 12 + fitting)), [])
    with pytest.raises(BatchTooLargeError, match="the messages of its inner batch take more than the 8000 bytes"):
        decoder("queueOffset", "properties").decode_with_undecodable(bodies, 12, 13 + fitting)
