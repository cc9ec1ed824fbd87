"""Bodies that cannot be read: the decoder goes on around them, and states which they are and why."""

from __future__ import annotations

import struct
from dataclasses import replace

import pyarrow as pa
import pytest

from connector_tests.support.decoders import NewDecoder
from connector_tests.support.message_bytes import COMPRESSED, INNER_BATCH, Record, batch_of, pull_body
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.arrow import columns, undecodable
from rocketmq_spark.wire.arrow.columns import BatchTooLargeError, ColumnDecoder
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage, decode_each
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

COLUMNS = ("queueOffset", "body", "tags", "sysFlag")
LZ4 = MessageSysFlag.LZ4 | COMPRESSED
GOOD = Record(body=b"good", properties={"TAGS": "a"})
POISON = Record(body=b"plain", sys_flag=int(LZ4), properties={"TAGS": "b"})
"""A flag that states compressed, and a body that is not."""

BATCH = Record(body=b"no batch", sys_flag=INNER_BATCH, properties={"INNER_BASE": "4", "INNER_NUM": "3", "TAGS": "b"})
"""Where a broker stores it at offset 4."""
ALL = (0, 1_000)


def at(record: Record, offset: int) -> Record:
    return replace(record, queue_offset=offset, commit_log_offset=1_000 + offset)


@pytest.fixture(scope="module")
def decoder(column_decoder: type[ColumnDecoder]) -> NewDecoder:
    def new_decoder(*names: str, tags: frozenset[str] | None = None) -> ColumnDecoder:
        return column_decoder(names or tuple(COLUMNS), broker_name="b", tags=tags)

    return new_decoder


def values(batch: pa.RecordBatch, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in batch.to_pylist()]


def test_good_messages_give_what_they_give_without_it(decoder: NewDecoder) -> None:
    bodies = [pull_body(at(GOOD, 1), at(GOOD, 2))]
    batch, broken = decoder().decode_with_undecodable(bodies, *ALL)
    assert batch == decoder().decode(bodies, *ALL)
    assert broken == []


def test_an_undecodable_body_is_null_between_the_others_and_named_with_what_is_wrong(decoder: NewDecoder) -> None:
    bodies = [pull_body(at(GOOD, 5)), pull_body(at(GOOD, 6), at(POISON, 7), at(GOOD, 8))]
    batch, (broken,) = decoder().decode_with_undecodable(bodies, *ALL)
    assert values(batch, *COLUMNS) == [
        (5, b"good", "a", 0),
        (6, b"good", "a", 0),
        (7, None, "b", MessageSysFlag.LZ4),
        (8, b"good", "a", 0),
    ]
    assert broken.offsets == range(7, 8)
    assert broken.problem.startswith("its LZ4 body is damaged")
    assert (broken.message.body, broken.message.commit_log_offset) == (b"plain", 1_007)
    assert broken.message.broker_name == "b"


def test_sys_flag_of_an_undecodable_message_is_the_same_whether_its_body_is_read(decoder: NewDecoder) -> None:
    packed_batch = replace(BATCH, sys_flag=INNER_BATCH | COMPRESSED)
    bodies = [pull_body(at(GOOD, 1), at(POISON, 2), at(packed_batch, 4))]
    rows, _ = decoder().decode_with_undecodable(bodies, *ALL)
    alone, _ = decoder("queueOffset", "sysFlag").decode_with_undecodable(bodies, *ALL)
    assert values(rows, "queueOffset", "sysFlag") == values(alone, "queueOffset", "sysFlag")
    assert not any(row["sysFlag"] & COMPRESSED for row in rows.to_pylist())


def test_all_may_be_invalid(decoder: NewDecoder) -> None:
    batch, broken = decoder().decode_with_undecodable([pull_body(at(POISON, 1), at(POISON, 2))], *ALL)
    assert values(batch, "queueOffset", "body") == [(1, None), (2, None)]
    assert [one.offsets for one in broken] == [range(1, 2), range(2, 3)]


def test_bodies_that_are_not_read_are_not_undecodable(decoder: NewDecoder) -> None:
    batch, broken = decoder("queueOffset").decode_with_undecodable([pull_body(at(POISON, 1))], *ALL)
    assert values(batch, "queueOffset") == [(1,)]
    assert broken == []


def test_a_poison_beside_an_undecodable_batch_is_not_undecodable_where_bodies_are_not_read(decoder: NewDecoder) -> None:
    batch, (broken,) = decoder("queueOffset").decode_with_undecodable([pull_body(at(POISON, 1), at(BATCH, 4))], *ALL)
    assert values(batch, "queueOffset") == [(1,), (4,), (5,), (6,)]
    assert broken.is_inner_batch


def test_an_undecodable_message_with_an_unsubscribed_tag_or_out_of_the_range_is_no_undecodable_message(
    decoder: NewDecoder,
) -> None:
    bodies = [pull_body(at(POISON, 1), at(GOOD, 2), at(POISON, 3))]
    batch, broken = decoder(tags=frozenset({"a"})).decode_with_undecodable(bodies, *ALL)
    assert (values(batch, "queueOffset"), broken) == ([(2,)], [])
    batch, broken = decoder().decode_with_undecodable(bodies, 2, 3)
    assert (values(batch, "queueOffset"), broken) == ([(2,)], [])


def test_an_undecodable_message_with_a_subscribed_tag_is_one(decoder: NewDecoder) -> None:
    batch, broken = decoder(tags=frozenset({"b"})).decode_with_undecodable(
        [pull_body(at(POISON, 1), at(GOOD, 2))], *ALL
    )
    assert (values(batch, "queueOffset"), len(broken)) == ([(1,)], 1)


@pytest.mark.parametrize("kind", [0, int(LZ4)])
def test_a_batch_that_is_none_has_a_row_for_each_offset_that_it_takes(decoder: NewDecoder, kind: int) -> None:
    body = compress(b"no batch", MessageSysFlag.LZ4) if kind else b"no batch"
    record = replace(BATCH, body=body, sys_flag=INNER_BATCH | kind)
    batch, (broken,) = decoder(tags=frozenset({"a"})).decode_with_undecodable(
        [pull_body(at(record, 4), at(GOOD, 7))], *ALL
    )
    assert values(batch, "queueOffset", "body") == [(4, None), (5, None), (6, None), (7, b"good")]
    assert broken.offsets == range(4, 7)
    assert broken.is_inner_batch


@pytest.mark.parametrize(("offset_range", "rows"), [((5, 9), [5, 6]), ((0, 6), [4, 5]), ((7, 9), []), ((0, 4), [])])
def test_a_range_has_what_is_in_it_of_an_undecodable_batch(
    decoder: NewDecoder, offset_range: tuple[int, int], rows: list[int]
) -> None:
    batch, broken = decoder().decode_with_undecodable([pull_body(at(BATCH, 4))], *offset_range)
    assert batch.column("queueOffset").to_pylist() == rows
    assert len(broken) == bool(rows)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 1),
        ("0", 1),
        ("-3", 1),
        ("x", 1),
        (" 7", 1),
        ("7", 7),
        ("+7", 7),
        ("007", 7),
        ("７", 7),
        ("٠٠٠٠٠٠٧", 7),
        ("+۰۰۰۰۰۰7", 7),
        ("0" * 5_000 + "7", 7),
        ("𝟕", 1),
        ("32767", 2**15 - 1),
        ("32768", 1),
        ("9" * 5_000, 1),
    ],
)
def test_a_count_that_cannot_be_is_not_trusted(decoder: NewDecoder, text: str, count: int) -> None:
    record = at(replace(BATCH, properties=f"INNER_BASE\x014\x02INNER_NUM\x01{text}\x02".encode()), 4)
    _, (broken,) = decoder().decode_with_undecodable([pull_body(record)], *ALL)
    assert broken.offsets == range(4, 4 + count)


def test_good_inner_batches_stay_in_their_places(decoder: NewDecoder) -> None:
    wholes = [batch_of(at(Record(), offset), [(b"1", b""), (b"2", b"")]) for offset in (1, 4)]
    batch, (broken,) = decoder().decode_with_undecodable([pull_body(wholes[0], at(POISON, 3), wholes[1])], *ALL)
    assert values(batch, "queueOffset", "body") == [(1, b"1"), (2, b"2"), (3, None), (4, b"1"), (5, b"2")]
    assert broken.message.queue_offset == 3


def test_wrong_lengths_are_an_error_because_the_next_begin_is_unknown(decoder: NewDecoder) -> None:
    record = at(POISON, 1).encode()
    longer = struct.pack(">i", len(record) + 4) + record[4:]
    with pytest.raises(RemoteProtocolError, match=r"CORRUPT_MESSAGE\.RESPONSE"):
        decoder().decode_with_undecodable([pull_body(at(POISON, 0)) + longer], *ALL)


def test_an_error_names_the_layout_that_is_wrong_not_a_body_before_it(decoder: NewDecoder) -> None:
    longer = struct.pack(">i", 2**20) + at(POISON, 1).encode()[4:]
    with pytest.raises(RemoteProtocolError) as raised:
        decoder().decode_with_undecodable([pull_body(at(POISON, 0)), pull_body(at(POISON, 0)) + longer], *ALL)
    assert raised.value.context["index"] == 1
    assert "it declares 1048576 bytes" in str(raised.value)


def test_a_body_that_is_too_large_alone_is_undecodable_and_those_too_large_together_are_not(
    decoder: NewDecoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def packed(size_bytes: int) -> Record:
        return Record(body=compress(bytes(size_bytes), MessageSysFlag.LZ4), sys_flag=int(LZ4))

    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    _, (broken,) = decoder().decode_with_undecodable([pull_body(at(packed(1_001), 1), at(packed(1_000), 2))], *ALL)
    assert broken.offsets == range(1, 2)
    for first in (packed(1_000), packed(1_001)):
        bodies = [pull_body(at(first, 1)), pull_body(*(at(packed(600), n) for n in (2, 3)))]
        with pytest.raises(BatchTooLargeError, match="more than the"):
            decoder().decode_with_undecodable(bodies, *ALL)


@pytest.mark.parametrize("kind", [MessageSysFlag.ZLIB, MessageSysFlag.LZ4, MessageSysFlag.ZSTD])
def test_a_body_larger_than_any_row_may_be_is_undecodable(decoder: NewDecoder, kind: MessageSysFlag) -> None:
    large = Record(body=compress(bytes(33 * 1024 * 1024), kind), sys_flag=COMPRESSED | int(kind))
    batch, (broken,) = decoder().decode_with_undecodable([pull_body(at(Record(body=b"x"), 0), at(large, 1))], *ALL)
    assert broken.offsets == range(1, 2)
    assert broken.problem == "its body has more than the 33554432 bytes allowed when decompressed"
    assert batch["body"].to_pylist() == [b"x", None]


def test_rows_of_an_undecodable_batch_are_made_once(decoder: NewDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    rows_of = undecodable.UndecodableMessage.rows

    def noted(broken: undecodable.UndecodableMessage, offset_range: range) -> list[MessageExt]:
        made.append(len(rows := rows_of(broken, offset_range)))
        return rows

    monkeypatch.setattr(undecodable.UndecodableMessage, "rows", noted)
    batch, _ = decoder().decode_with_undecodable([pull_body(at(BATCH, 4))], *ALL)
    assert (len(batch), made) == (3, [3])


def test_rows_of_one_undecodable_batch_that_repeat_much_text_come_a_few_at_a_time(
    decoder: NewDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of 30 KB with the largest count was 1 GB of rows at once."""
    monkeypatch.setattr(columns, "REPEATED_LIMIT_BYTES", 12_000)
    keys = "k" * 900
    batch = pull_body(at(replace(BATCH, properties={"INNER_BASE": "4", "INNER_NUM": "20", "KEYS": keys}), 4))
    with pytest.raises(BatchTooLargeError, match="the rows of undecodable messages take 39"):
        decoder().decode_with_undecodable([batch], *ALL)
    found, (broken,) = decoder().decode_with_undecodable([batch], 4, 10)
    assert (len(found), broken.offsets) == (6, range(4, 24))
    alone, _ = decoder().decode_with_undecodable(
        [pull_body(at(replace(BATCH, properties={"KEYS": "k" * 12_000}), 4))], 4, 5
    )
    assert len(alone) == 1


def test_one_by_one_an_undecodable_message_is_between_the_others() -> None:
    first, broken, last = decode_each(pull_body(at(GOOD, 6), at(POISON, 7), at(GOOD, 8)), broker_name="b")
    assert isinstance(broken, UndecodableMessage)
    assert (broken.message.queue_offset, broken.message.body) == (7, b"plain")
    assert "LZ4 body is damaged" in broken.problem
    for good, offset in ((first, 6), (last, 8)):
        assert isinstance(good, MessageExt)
        assert (good.queue_offset, good.body) == (offset, b"good")


def test_one_by_one_each_body_has_the_limit_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undecodable, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    large, too_large = (
        Record(body=compress(b"x" * size, MessageSysFlag.LZ4), sys_flag=int(LZ4)) for size in (900, 1_001)
    )
    found = list(decode_each(pull_body(at(large, 1), at(large, 2), at(too_large, 3)), broker_name="b"))
    assert [isinstance(one, UndecodableMessage) for one in found] == [False, False, True]


def test_one_by_one_a_record_that_is_no_message_is_an_error() -> None:
    body = bytearray(pull_body(at(GOOD, 6), at(GOOD, 7)))
    second = len(body) // 2
    body[second + 4 : second + 8] = b"none"
    decoded = decode_each(bytes(body), broker_name="b")
    assert isinstance(next(decoded), MessageExt)
    with pytest.raises(RemoteProtocolError, match=r"CORRUPT_MESSAGE\.RESPONSE.*message 1 .*magic number"):
        next(decoded)
