from __future__ import annotations

import pyarrow as pa
import pytest

from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.pull_request import PulledRange
from rocketmq_spark.source.data_loss import GIVEN_UP, RETENTION
from rocketmq_spark.source.partition_reader import (
    SMALL_BATCH_BYTES,
    SMALL_BATCH_ROWS,
    cause_of,
    each_once,
    left_out,
    merged,
    overlapping,
    read_ranges,
)
from rocketmq_spark.source.schema import default_schema


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
        ([4, 9, 5, 6, 9, 10, 10, 11], [4, 9, 10, 11]),
    ],
)
def test_messages_that_neighbouring_pulls_share_come_once(pulled: list[int], kept: list[int]) -> None:
    assert each_once(batch(*pulled)).column(0).to_pylist() == kept


def test_nothing_is_copied_where_nothing_is_shared() -> None:
    whole = batch(1, 2, 3)
    assert each_once(whole) is whole


SMALL, LARGE = 10, SMALL_BATCH_ROWS


def rows_of(*lengths: int) -> list[pa.RecordBatch]:
    return [batch(*range(length)) for length in lengths]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([], []),
        ([0, 0], []),
        ([SMALL, 0, SMALL], [2 * SMALL]),
        ([SMALL], [SMALL]),
        ([SMALL, SMALL, SMALL], [3 * SMALL]),
        ([LARGE, LARGE], [LARGE, LARGE]),
        ([SMALL, LARGE, SMALL, SMALL, LARGE], [SMALL, LARGE, 2 * SMALL, LARGE]),
        ([LARGE - 1, LARGE - 1, SMALL], [2 * LARGE - 2, SMALL]),
    ],
)
def test_small_batches_become_one(lengths: list[int], expected: list[int]) -> None:
    batches = rows_of(*lengths)
    together = list(merged(batches))
    assert [one.num_rows for one in together] == expected
    assert [offset for one in together for offset in one.column(0).to_pylist()] == [
        offset for one in batches for offset in one.column(0).to_pylist()
    ]


def test_a_batch_without_small_neighbours_is_not_copied() -> None:
    small, large = rows_of(SMALL, LARGE)
    assert [one is other for one, other in zip(merged([small, large]), (small, large), strict=True)] == [True, True]


def test_few_rows_that_are_large_are_no_small_batch() -> None:
    """Messages of 16 KiB once came as batches of 50 MiB."""
    third = pa.RecordBatch.from_pydict({"body": [bytes(SMALL_BATCH_BYTES // 3)]})
    whole = pa.RecordBatch.from_pydict({"body": [bytes(SMALL_BATCH_BYTES)]})
    together = list(merged([third, third, third, third, whole, third]))
    assert [one.num_rows for one in together] == [3, 1, 1, 1]
    assert together[2] is whole


def test_what_is_given_up_was_not_deleted() -> None:
    """It was said that retention had taken it."""
    assert cause_of(PulledRange(0, 5, is_lost=True)) == RETENTION
    assert cause_of(PulledRange(0, 5, is_lost=True, is_given_up=True)) == GIVEN_UP


def test_offsets_that_no_message_has_are_left_out_unless_they_are_lost_already() -> None:
    gathered = [PulledRange(0, 4), PulledRange(4, 8, is_lost=True), PulledRange(8, 12)]
    assert left_out(gathered, pa.array([0, 3, 8, 9, 10, 11])) == [(1, 3)]
    assert left_out(gathered, pa.array([8, 10])) == [(0, 4), (9, 10), (11, 12)]
    assert left_out(gathered, pa.array([*range(4), *range(8, 12)])) == []


def test_what_was_pulled_of_some_offsets_is_what_has_any_of_them() -> None:
    gathered = first, second, third = [PulledRange(0, 4), PulledRange(4, 8), PulledRange(8, 12)]
    assert overlapping(gathered, 0, 12) == gathered
    assert overlapping(gathered, 3, 5) == [first, second]
    assert overlapping(gathered, 4, 8) == [second]
    assert overlapping(gathered, 8, 9) == [third]


def test_a_task_that_no_name_server_answers_says_so_and_has_nothing_given_up() -> None:
    """It used to say that the range of a broker which nobody had asked was to be given up."""
    nobody = {"namesrvAddr": "127.0.0.1:1", "consumerGroup": "G", "subscribe": "T"}
    options = ReadOptions.parse({**nobody, "clusterTimeoutMs": "1", "brokerTimeoutMs": "100"})
    with pytest.raises(TransportError) as raised:
        list(read_ranges([QueueRange(MessageQueue("T", "a", 0), 5, 8)], options, default_schema()))
    assert raised.value.condition == "CLUSTER_UNREACHABLE"
    assert "Reaching the name servers was tried for" in str(raised.value)
    assert "No name server says where topic 'T' is, of 127.0.0.1:1: [ROCKETMQ_CONNECT_FAILED]" in str(raised.value)
    assert "giveUp" not in str(raised.value)
