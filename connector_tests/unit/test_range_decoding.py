"""Which offsets a batch answers for, and what of it is decoded before all of it is there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from connector_tests.support.decoders import IMPLEMENTATIONS, decoder_class
from connector_tests.support.message_bytes import COMPRESSED, Record, pull_body
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.pull.pull_request import PulledRange
from rocketmq_spark.source import range_decoding
from rocketmq_spark.source.range_decoding import ExpectedOffsets, PartialBatch, drop_duplicates, in_parts, overlapping
from rocketmq_spark.wire.implementation import NATIVE, PYTHON
from rocketmq_spark.wire.message.compression import compress
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
def test_offsets_that_no_message_has_are_left_out_unless_they_are_lost_already(
    found: list[list[int]], missing: list[tuple[int, int]]
) -> None:
    promised = ExpectedOffsets.from_pulled([PulledRange(0, 4), PulledRange(4, 8, is_lost=True), PulledRange(8, 12)])
    assert promised.missing([batch(*offsets) for offsets in found]) == missing


def test_what_is_left_out_beside_a_loss_of_any_width_takes_no_memory() -> None:
    promised = ExpectedOffsets.from_pulled([PulledRange(5, 10**15, is_lost=True), PulledRange(10**15, 10**15 + 2)])
    assert promised.missing([batch(10**15)]) == [(10**15 + 1, 10**15 + 2)]


def test_promises_that_touch_are_one() -> None:
    ranges = [PulledRange(3, 4), PulledRange(4, 8, is_lost=True), PulledRange(8, 9, is_lost=True), PulledRange(9, 12)]
    assert ExpectedOffsets.from_pulled(ranges[:2]).followed_by(
        ExpectedOffsets.from_pulled(ranges[2:])
    ) == ExpectedOffsets.from_pulled(ranges)


def test_what_was_pulled_of_some_offsets_is_what_has_any_of_them() -> None:
    gathered = first, second, third = [PulledRange(0, 4), PulledRange(4, 8), PulledRange(8, 12)]
    assert overlapping(gathered, 0, 12) == gathered
    assert overlapping(gathered, 3, 5) == [first, second]
    assert overlapping(gathered, 4, 8) == [second]
    assert overlapping(gathered, 8, 9) == [third]


def message(offset: int) -> Record:
    return Record(topic="t", body=b"body-%d" % offset, properties={"KEYS": f"k{offset}"}, queue_offset=offset)


def compressed(offset: int) -> Record:
    body = compress(b"body-%d" % offset, MessageSysFlag.ZLIB)
    return Record(topic="t", body=body, properties={"KEYS": f"k{offset}"}, queue_offset=offset, sys_flag=COMPRESSED)


def pulled(*records: Record) -> PulledRange:
    return PulledRange(records[0].queue_offset, records[-1].queue_offset + 1, memoryview(pull_body(*records)))


def ahead(implementation: str) -> PartialBatch:
    decoder = decoder_class(implementation)(("keys", "body", "queueOffset"), broker_name="b", tags=None)
    return PartialBatch(decoder, QueueRange(QUEUE, 0, 100))


def rows(taken: tuple[pa.RecordBatch, ExpectedOffsets] | None) -> tuple[Sequence[bytes], ExpectedOffsets] | None:
    return None if taken is None else (taken[0].column("body").to_pylist(), taken[1])


def test_what_is_ordinary_is_decoded_as_it_comes() -> None:
    begun = ahead(NATIVE)
    first, second = pulled(message(0), message(1)), pulled(message(2))
    assert begun.add([first])
    assert begun.add([second, PulledRange(3, 7, is_lost=True)])
    assert begun.size_bytes == len(first.body) + len(second.body)
    assert rows(begun.finish()) == ([b"body-0", b"body-1", b"body-2"], ExpectedOffsets(0, 7, (range(3, 7),)))
    assert rows(begun.finish()) is None
    assert begun.size_bytes == 0


def test_what_is_odd_and_all_behind_it_is_left_to_the_caller_until_the_batch_is_taken() -> None:
    begun = ahead(NATIVE)
    assert begun.add([pulled(message(0))])
    assert not begun.add([pulled(message(1), compressed(2))])
    assert not begun.add([pulled(message(3))])
    assert rows(begun.finish()) == ([b"body-0"], ExpectedOffsets(0, 1))
    assert begun.add([pulled(message(4))])
    assert rows(begun.finish()) == ([b"body-4"], ExpectedOffsets(4, 5))


def test_where_the_first_is_odd_there_is_nothing_to_take() -> None:
    begun = ahead(NATIVE)
    assert not begun.add([pulled(compressed(0))])
    assert rows(begun.finish()) is None
    assert begun.add([pulled(message(1))])


def test_messages_beside_the_range_belong_to_other_batches() -> None:
    begun = ahead(NATIVE)
    body = memoryview(pull_body(*map(message, range(8))))
    assert begun.add([PulledRange(2, 4, body)])
    assert begun.add([PulledRange(4, 5, body)])
    assert rows(begun.finish()) == ([b"body-2", b"body-3", b"body-4"], ExpectedOffsets(2, 5))


def test_python_decodes_whole_batches_only() -> None:
    begun = ahead(PYTHON)
    assert not begun.add([pulled(message(0))])
    assert rows(begun.finish()) is None


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_bodies_are_let_go_of_once_they_are_decoded(implementation: str) -> None:
    memory = bytearray(pull_body(message(0)))
    begun = ahead(implementation)
    begun.add([PulledRange(0, 1, memoryview(memory))])
    memory.append(0)  # a BufferError if anybody still sees it
    begun.finish()


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
