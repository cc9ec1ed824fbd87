"""Which offsets a batch answers for, and what of it is decoded before all of it is there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connector_tests.support.decoders import IMPLEMENTATIONS, decoder_class
from connector_tests.support.message_bytes import COMPRESSED, Record, pull_body
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.pull.pull_request import PulledRange, RangeKind
from rocketmq_spark.source import range_decoding
from rocketmq_spark.source.range_decoding import (
    DecodedRanges,
    ExpectedOffsets,
    PlaceCheck,
    RangeDecoder,
    ShiftedOffsetsError,
    drop_duplicates,
    in_parts,
    overlapping,
    placed_rows,
)
from rocketmq_spark.wire.arrow import columns, record_columns, undecodable
from rocketmq_spark.wire.implementation import NATIVE, PYTHON
from rocketmq_spark.wire.message import compression, stored_message
from rocketmq_spark.wire.message.compression import Buffer, compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

QUEUE = MessageQueue("topic", "broker-a", 0)


def batch(*offsets: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"queueOffset": pa.array(offsets, pa.int64())})


@pytest.mark.parametrize(
    ("pulled", "kept"),
    [
        ([], []),
        ([5], [5]),
        ([0, 1, 2, 7], [0, 1, 2, 7]),
        ([0, 1, 2, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 1, 2, 0, 1, 2], [0, 1, 2]),
        ([4, 9, 5, 6, 9, 10, 10, 11], [4, 5, 6, 9, 10, 11]),
    ],
)
def test_messages_that_neighbouring_pulls_share_come_once(pulled: list[int], kept: list[int]) -> None:
    assert drop_duplicates(batch(*pulled)).column(0).to_pylist() == kept


def test_nothing_is_copied_where_nothing_is_shared() -> None:
    whole = batch(1, 2, 3)
    assert drop_duplicates(whole) is whole


def filtered(*rows: tuple[int, int]) -> pa.RecordBatch:
    """Rows of (queue offset, commit log offset)."""
    offsets, places = (pa.array([row[at] for row in rows], pa.int64()) for at in (0, 1))
    return pa.RecordBatch.from_pydict({"queueOffset": offsets, "commitLogOffset": places})


@pytest.mark.parametrize(
    ("rows", "kept", "later_place"),
    [
        ([], [], None),
        ([(2, 20), (3, 30), (8, 80)], [2, 3, 8], None),
        ([(2, 20), (3, 30), (3, 30), (8, 80), (2, 20)], [2, 3, 8], None),
        ([(2, 20), (3, 20), (4, 20), (2, 20), (3, 20)], [2, 3, 4], None),
        ([(7, 70), (8, 70), (9, 70)], [7, 8], None),
        ([(2, 20), (9, 81)], [2], 81),
        ([(2, 20), (9, 90), (12, 120), (2, 20), (8, 80), (9, 90)], [2, 8], 90),
        ([(2, 20), (7, 80), (8, 80), (9, 80), (10, 80), (11, 110)], [2, 7, 8], 110),
        ([(2, 20), (9, 80), (10, 80)], [2], 80),
        ([(7, 70), (8, 70), (9, 70), (12, 120)], [7, 8], 120),
        ([(9, 79)], [], 79),
    ],
)
def test_rows_of_filtered_responses_come_once(
    rows: list[tuple[int, int]], kept: list[int], later_place: int | None
) -> None:
    """Inner batches reach beyond the end: the last message, with all of its tags or not, and one that a producer wrote
    over the offsets of messages that do not match."""
    placed, condition = placed_rows(filtered(*rows), 1, 9)
    assert placed.column(0).to_pylist() == kept
    assert condition == (None if later_place is None else PlaceCheck(1, 8, later_place))


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0), (1, 10), (2, 20), (5, 30), (6, 40), (7, 50), (6, 60), (7, 70), (8, 80)],
        [(6, 40), (6, 60)],
        [(5, 50), (7, 40)],
        [(5, 50), (7, 40), (9, 90)],
    ],
)
def test_messages_below_their_stored_offsets_are_detected(rows: list[tuple[int, int]]) -> None:
    """The first: two messages that no consumer gets behind offset 2, and a restart of the broker behind offset 5."""
    with pytest.raises(ShiftedOffsetsError) as raised:
        placed_rows(filtered(*rows), 1, 9)
    assert raised.value.begin_offset == 1


@pytest.mark.parametrize(
    ("rows", "limit"),
    [([(5, 50), (9, 79)], 80), ([(5, 50), (9, 80), (10, 100)], 81), ([(8, 60), (9, 60), (10, 79)], 80)],
)
def test_later_rows_below_the_limit_do_not_pass_the_check(rows: list[tuple[int, int]], limit: int) -> None:
    """The last message before offset 9 is at 80 of the commit log, and its limit 81 if it is stored for a later one."""
    _, condition = placed_rows(filtered(*rows), 1, 9)
    assert condition is not None
    condition.check(condition.later_place)
    with pytest.raises(ShiftedOffsetsError) as raised:
        condition.check(limit)
    assert raised.value.begin_offset == 1


def test_a_last_message_that_was_deleted_shows_nothing() -> None:
    rows, condition = placed_rows(filtered((5, 50), (9, 79)), 1, 9)
    assert rows.column(0).to_pylist() == [5]
    assert condition is not None
    condition.check(None)


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        ([[0, 3, 8, 9, 10, 11]], [(1, 3)]),
        ([[8, 10]], [(0, 4), (9, 10), (11, 12)]),
        ([[0, 1, 2, 3], [8, 9, 10, 11]], []),
        ([[0, 1], [3, 8], [9, 10]], [(2, 3), (11, 12)]),
        ([[1, 2, 3, 8, 9, 10, 11]], [(0, 1)]),
        ([[]], [(0, 4), (8, 12)]),
        ([], [(0, 4), (8, 12)]),
    ],
)
def test_offsets_that_no_message_has_are_omitted_unless_they_are_lost_already(
    found: list[list[int]], missing: list[tuple[int, int]]
) -> None:
    expected_offsets = ExpectedOffsets.from_pulled(
        [PulledRange(0, 4), PulledRange(4, 8, kind=RangeKind.DELETED), PulledRange(8, 12)]
    )
    assert expected_offsets.missing([batch(*offsets) for offsets in found]) == missing


def test_what_is_omitted_beside_a_loss_of_any_width_takes_no_memory() -> None:
    expected_offsets = ExpectedOffsets.from_pulled(
        [PulledRange(5, 10**15, kind=RangeKind.DELETED), PulledRange(10**15, 10**15 + 2)]
    )
    assert expected_offsets.missing([batch(10**15)]) == [(10**15 + 1, 10**15 + 2)]


def test_promises_that_touch_are_one() -> None:
    ranges = [
        PulledRange(3, 4),
        PulledRange(4, 8, kind=RangeKind.DELETED),
        PulledRange(8, 9, kind=RangeKind.DELETED),
        PulledRange(9, 12),
    ]
    assert ExpectedOffsets.from_pulled(ranges[:2]).followed_by(
        ExpectedOffsets.from_pulled(ranges[2:])
    ) == ExpectedOffsets.from_pulled(ranges)


def test_what_was_pulled_of_some_offsets_is_what_has_any_of_them() -> None:
    collected = first, second, third = [PulledRange(0, 4), PulledRange(4, 8), PulledRange(8, 12)]
    assert overlapping(collected, 0, 12) == collected
    assert overlapping(collected, 3, 5) == [first, second]
    assert overlapping(collected, 4, 8) == [second]
    assert overlapping(collected, 8, 9) == [third]


def message(offset: int) -> Record:
    return Record(topic="t", body=b"body-%d" % offset, properties={"KEYS": f"k{offset}"}, queue_offset=offset)


def compressed(offset: int) -> Record:
    body = compress(b"body-%d" % offset, MessageSysFlag.ZLIB)
    return Record(topic="t", body=body, properties={"KEYS": f"k{offset}"}, queue_offset=offset, sys_flag=COMPRESSED)


def pulled(*records: Record) -> PulledRange:
    return PulledRange(records[0].queue_offset, records[-1].queue_offset + 1, memoryview(pull_body(*records)))


@pytest.fixture
def decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pulled range is enough to decode."""
    monkeypatch.setattr(range_decoding, "DECODED_AT_ONCE_BYTES", 1)


def range_decoder(implementation: str) -> RangeDecoder:
    decoder = decoder_class(implementation)(("keys", "body", "queueOffset"), broker_name="b", tags=None)
    return RangeDecoder(decoder, QueueRange(QUEUE, 0, 100))


def rows_of(part: DecodedRanges, limit: int | None = None) -> list[pa.RecordBatch]:
    """The rows, each after the condition on them, if the message at its position has this limit."""
    found = []
    for decoded in part.batches:
        if isinstance(decoded, PlaceCheck):
            decoded.check(limit)
        else:
            found.append(decoded[0])
    return found


def finish(subject: RangeDecoder) -> list[tuple[list[bytes], ExpectedOffsets]]:
    return [
        ([body for batch in rows_of(part) for body in batch.column("body").to_pylist()], part.expected)
        for part in subject.finish()
    ]


def is_held(memory: bytearray) -> bool:
    """Whether a view of it is left."""
    try:
        memory.append(0)
    except BufferError:
        return True
    return False


@pytest.mark.native
@pytest.mark.usefixtures("decoded_at_once")
def test_ordinary_messages_are_decoded_as_they_arrive() -> None:
    subject = range_decoder(NATIVE)
    memory = bytearray(pull_body(message(0), message(1)))
    subject.add(PulledRange(0, 2, memoryview(memory)))
    assert not is_held(memory)
    subject.add(pulled(message(2)))
    subject.add(PulledRange(3, 7, kind=RangeKind.DELETED))
    assert finish(subject) == [([b"body-0", b"body-1", b"body-2"], ExpectedOffsets(0, 7, (range(3, 7),)))]
    assert finish(subject) == []


@pytest.mark.native
@pytest.mark.usefixtures("decoded_at_once")
def test_a_rejected_range_and_all_behind_it_are_decoded_when_the_batch_ends() -> None:
    subject = range_decoder(NATIVE)
    for some in (pulled(message(0)), pulled(message(1), compressed(2)), pulled(message(3))):
        subject.add(some)
    rest = [b"body-1", b"body-2", b"body-3"]
    assert finish(subject) == [([b"body-0"], ExpectedOffsets(0, 1)), (rest, ExpectedOffsets(1, 4))]
    memory = bytearray(pull_body(message(4)))
    subject.add(PulledRange(4, 5, memoryview(memory)))
    assert not is_held(memory), "the next batch is decoded as it arrives again"
    assert finish(subject) == [([b"body-4"], ExpectedOffsets(4, 5))]


@pytest.mark.native
@pytest.mark.usefixtures("decoded_at_once")
def test_a_batch_whose_first_range_is_rejected_has_one_part() -> None:
    subject = range_decoder(NATIVE)
    subject.add(pulled(compressed(0)))
    subject.add(pulled(message(1)))
    assert finish(subject) == [([b"body-0", b"body-1"], ExpectedOffsets(0, 2))]


@pytest.mark.usefixtures("decoded_at_once")
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_messages_beside_the_range_belong_to_other_batches(implementation: str) -> None:
    subject = range_decoder(implementation)
    body = memoryview(pull_body(*map(message, range(8))))
    subject.add(PulledRange(2, 4, body))
    subject.add(PulledRange(4, 5, body))
    assert finish(subject) == [([b"body-2", b"body-3", b"body-4"], ExpectedOffsets(2, 5))]


@pytest.mark.usefixtures("decoded_at_once")
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_no_view_is_left_of_a_finished_batch(implementation: str) -> None:
    memory = bytearray(pull_body(message(0)))
    subject = range_decoder(implementation)
    subject.add(PulledRange(0, 1, memoryview(memory)))
    assert is_held(memory) == (implementation == PYTHON), "Python decodes whole batches only"
    assert len(finish(subject)) == 1
    assert not is_held(memory)


@pytest.mark.parametrize("at_once_bytes", [1, 10**6])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_batch_is_due_by_its_bytes_decoded_or_not(
    implementation: str, at_once_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pulled(message(0)), pulled(message(1))
    monkeypatch.setattr(range_decoding, "DECODED_AT_ONCE_BYTES", at_once_bytes)
    monkeypatch.setattr(range_decoding, "BATCH_BYTES", len(first.body) + len(second.body))
    subject = range_decoder(implementation)
    assert [subject.add(first), subject.add(second)] == [False, True]
    assert finish(subject) == [([b"body-0", b"body-1"], ExpectedOffsets(0, 2))]
    assert not subject.add(pulled(message(2)))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], [[]]),
        ([90], [[90]]),
        ([500, 1], [[500], [1]]),
        ([40, 40], [[40, 40]]),
        ([40, 40, 40, 40, 500], [[40, 40], [40], [40], [500]]),
    ],
)
def test_a_record_batch_is_cut_by_its_bytes(
    sizes: list[int], expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_decoding, "RECORD_BATCH_BYTES", 100)
    batch = pa.RecordBatch.from_pydict({"body": pa.array([bytes(size) for size in sizes], pa.binary())})
    parts = list(in_parts(batch))
    assert [[len(body) for body in part["body"].to_pylist()] for part in parts] == expected
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    assert len(parts) > 1 or parts[0] is batch


@pytest.mark.parametrize("is_unfiltered", [True, False])
@pytest.mark.parametrize("undecodable_count", [0, 16])
@pytest.mark.parametrize("count", [64, 512])
def test_compressed_bodies_beyond_the_limit_are_decompressed_a_few_times(
    count: int, undecodable_count: int, is_unfiltered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each body was decompressed once more for each time that the number of messages doubled: 10 times for 512."""
    bytes_of_all: list[int] = []

    def counted(body: Buffer, sys_flag: int, limit_bytes: int = 2**40) -> bytes:
        plain = compression.decompress(body, sys_flag, limit_bytes)
        bytes_of_all.append(len(plain))
        return plain

    for module in (columns, undecodable):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 4_000)
    for module in (record_columns, stored_message):
        monkeypatch.setattr(module, "decompress", counted)
    good = compress(bytes(1_000), MessageSysFlag.ZLIB)
    names = ("body", "queueOffset", "commitLogOffset")
    decoder = RangeDecoder(
        decoder_class(PYTHON)(names, broker_name="b", tags=None, is_unfiltered=is_unfiltered),
        QueueRange(QUEUE, 0, count),
        is_unfiltered=is_unfiltered,
    )
    undecodable_offsets = range(0, count, count // undecodable_count) if undecodable_count else range(0)
    for begin in range(0, count, 32):
        records = [
            Record(
                body=b"no stream" if offset in undecodable_offsets else good,
                sys_flag=COMPRESSED,
                queue_offset=offset,
                commit_log_offset=offset,
            )
            for offset in range(begin, begin + 32)
        ]
        decoder.add(PulledRange(begin, begin + 32, memoryview(pull_body(*records))))
    batches = [batch for part in decoder.finish() for batch in rows_of(part)]
    assert [offset for batch in batches for offset in batch["queueOffset"].to_pylist()] == list(range(count))
    assert sum(batch["body"].null_count for batch in batches) == len(undecodable_offsets)
    assert max(batch["body"].nbytes for batch in batches) < 5_000
    assert len(bytes_of_all) / count < (2.5 if undecodable_count == 0 else 5)


def filtered_decoder(monkeypatch: pytest.MonkeyPatch, *responses: PulledRange) -> RangeDecoder:
    """It has all ``responses``. Four bodies are too many to decompress together, by one byte."""
    for module in (columns, undecodable):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 3_999)
    names = ("body", "queueOffset", "commitLogOffset")
    decoder = decoder_class(PYTHON)(names, broker_name="b", tags=None, is_unfiltered=False)
    subject = RangeDecoder(decoder, QueueRange(QUEUE, 0, 9), is_unfiltered=False)
    for response in responses:
        subject.add(response)
    return subject


def response_to(begin_offset: int, end_offset: int, *stored: int) -> PulledRange:
    """The messages with these stored offsets, each ten times as far into the commit log."""
    body = compress(bytes(1_000), MessageSysFlag.ZLIB)
    records = [Record(body=body, sys_flag=COMPRESSED, queue_offset=at, commit_log_offset=10 * at) for at in stored]
    return PulledRange(begin_offset, end_offset, memoryview(pull_body(*records)))


def test_a_message_below_the_offset_where_bodies_are_split_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That with the stored offset 4 is at 3: a message before it has no consumer, and the broker was restarted."""
    subject = filtered_decoder(monkeypatch, response_to(0, 4, 0, 1, 2, 4), response_to(4, 9, 5, 6, 8))
    batches = [batch for part in subject.finish() for batch in rows_of(part, limit=80)]
    assert [offset for one in batches for offset in one["queueOffset"].to_pylist()] == [0, 1, 2, 4, 5, 6, 8]


@pytest.mark.parametrize(("stored", "limit"), [((0, 1, 2, 9), 91), ((0, 1, 2, 10), 101), ((0, 1, 2, 3, 5, 10), 102)])
def test_messages_below_their_stored_offsets_are_detected_where_bodies_are_split(
    stored: tuple[int, ...], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (part,) = filtered_decoder(monkeypatch, response_to(0, 9, *stored)).finish()
    with pytest.raises(ShiftedOffsetsError) as raised:
        rows_of(part, limit)
    assert raised.value.begin_offset == 0


def test_messages_behind_a_range_are_no_others_where_bodies_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = filtered_decoder(monkeypatch, response_to(0, 9, 0, 1, 2, 9)).finish()
    assert [offset for one in rows_of(part, limit=80) for offset in one["queueOffset"].to_pylist()] == [0, 1, 2]


def test_a_condition_precedes_the_rows_that_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = filtered_decoder(monkeypatch, response_to(0, 9, 0, 1, 2, 9)).finish()
    assert next(part.batches) == PlaceCheck(0, 8, 90)
