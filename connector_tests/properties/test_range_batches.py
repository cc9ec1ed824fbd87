"""Whatever is among what was pulled, and wherever batches and pieces of them end: each row once, in order, and each
offset without one is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from connector_tests.support.message_bytes import COMPRESSED, Record, batch_of
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_pull_client import shared_pull_client
from rocketmq_spark.pull.pull_request import PulledRange, RangeKind
from rocketmq_spark.source import range_decoding
from rocketmq_spark.source.data_loss import OMITTED, RETENTION, LossCause, LostRange
from rocketmq_spark.source.range_reader import RangeReader
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

QUEUE = MessageQueue("topic", "broker-a", 0)
OPTIONS = ReadOptions.parse(
    {"namesrvAddr": "127.0.0.1:1", "consumerGroup": "G", "subscribe": QUEUE.topic, "failOnDataLoss": "false"}
)
COLUMNS = ("body", "queueOffset", "keys")
AHEAD_BYTES, BATCH_BYTES = 600, 3_000
"""About 5 and 25 messages."""


class Pulled:
    """What a range was pulled as."""

    def __init__(self, ranges: Sequence[PulledRange]) -> None:
        self._ranges = ranges

    def pull(self) -> Iterator[PulledRange]:
        return iter(self._ranges)


def body(offset: int) -> bytes:
    return b"body of %d" % offset


def ordinary(offset: int) -> tuple[bytes, int]:
    """Encoded, and for how many offsets it stands."""
    return Record(topic="topic", body=body(offset), properties={"KEYS": "k"}, queue_offset=offset).encode(), 1


def compressed(offset: int) -> tuple[bytes, int]:
    packed = compress(body(offset), MessageSysFlag.ZLIB)
    record = Record(topic="topic", body=packed, properties={"KEYS": "k"}, queue_offset=offset, sys_flag=COMPRESSED)
    return record.encode(), 1


def several(offset: int) -> tuple[bytes, int]:
    together = [(body(at), b"KEYS\x01k\x02") for at in range(offset, offset + 3)]
    return batch_of(Record(topic="topic", queue_offset=offset), together).encode(), 3


def missing(_offset: int) -> tuple[bytes, int]:
    return b"", 1


MOSTLY_ORDINARY = st.sampled_from([ordinary] * 12 + [compressed, several, missing])


@st.composite
def pulled(draw: st.DrawFn) -> tuple[list[PulledRange], list[int], list[int], list[int]]:
    """Ranges that touch; the offsets with rows, those of no message, and those that are lost."""
    ranges: list[PulledRange] = []
    rows: list[int] = []
    omitted: list[int] = []
    lost: list[int] = []
    begin_offset = draw(st.integers(0, 1_000))
    neighbour = b""
    for _ in range(draw(st.integers(0, 40))):
        if draw(st.integers(0, 15)) == 0:
            end_offset = begin_offset + draw(st.integers(1, 9))
            ranges.append(PulledRange(begin_offset, end_offset, kind=RangeKind.DELETED))
            lost += range(begin_offset, end_offset)
            begin_offset, neighbour = end_offset, b""
            continue
        records, offset = b"", begin_offset
        for kind in draw(st.lists(MOSTLY_ORDINARY, min_size=1, max_size=8)):
            record, count = kind(offset)
            (rows if record else omitted).extend(range(offset, offset + count))
            records, neighbour_of_next, offset = records + record, record, offset + count
        shared = neighbour if draw(st.booleans()) else b""
        ranges.append(PulledRange(begin_offset, offset, memoryview(shared + records)))
        begin_offset, neighbour = offset, neighbour_of_next
    return ranges, rows, omitted, lost


def offsets_of(losses: Sequence[LostRange], cause: LossCause) -> list[int]:
    return [at for one in losses if one.cause == cause for at in range(one.begin_offset, one.end_offset)]


@pytest.fixture(autouse=True)
def small(implementation: str) -> Iterator[None]:
    """Pieces and batches of a few messages."""
    changed = pytest.MonkeyPatch()
    changed.setattr(range_decoding, "DECODED_AT_ONCE_BYTES", AHEAD_BYTES)
    changed.setattr(range_decoding, "BATCH_BYTES", BATCH_BYTES)
    yield
    changed.undo()


@given(pulled())
def test_each_message_is_a_row_once_and_each_other_offset_is_reported(
    made: tuple[list[PulledRange], list[int], list[int], list[int]],
) -> None:
    ranges, rows, omitted, lost = made
    begin_offset = ranges[0].begin_offset if ranges else 0
    queue_range = QueueRange(QUEUE, begin_offset, ranges[-1].end_offset if ranges else 0)
    record = TaskRecord()

    def puller_for(some: QueueRange, _: bool) -> Any:
        return Pulled(ranges if some == queue_range else [PulledRange(some.begin_offset, some.end_offset)])

    client = shared_pull_client(OPTIONS)
    reader = RangeReader(queue_range, client, puller_for, OPTIONS, COLUMNS, (), record, ())
    batches = list(reader.batches())
    event(f"batches: {min(len(batches), 4)}")
    assert all(batch.schema.names == list(COLUMNS) for batch in batches)
    assert [at for batch in batches for at in batch.column("queueOffset").to_pylist()] == rows
    assert [text for batch in batches for text in batch.column("body").to_pylist()] == [body(at) for at in rows]
    assert offsets_of(record.lost, OMITTED) == omitted
    assert offsets_of(record.lost, RETENTION) == lost
