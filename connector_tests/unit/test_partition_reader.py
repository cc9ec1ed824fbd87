from __future__ import annotations

import pyarrow as pa
import pytest

from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.pull_request import RangeKind
from rocketmq_spark.source.data_loss import RETENTION, TAIL_LOST, VACANT
from rocketmq_spark.source.partition_reader import (
    SMALL_BATCH_BYTES,
    SMALL_BATCH_ROWS,
    merge_small_batches,
    read_ranges,
)
from rocketmq_spark.source.range_reader import CAUSE_OF
from rocketmq_spark.source.schema import default_schema


def batch(*offsets: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"queueOffset": pa.array(offsets, pa.int64())})


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
    together = list(merge_small_batches(batches))
    assert [one.num_rows for one in together] == expected
    assert [offset for one in together for offset in one.column(0).to_pylist()] == [
        offset for one in batches for offset in one.column(0).to_pylist()
    ]


def test_a_batch_without_small_neighbours_is_not_copied() -> None:
    small, large = rows_of(SMALL, LARGE)
    assert [one is other for one, other in zip(merge_small_batches([small, large]), (small, large), strict=True)] == [
        True,
        True,
    ]


def test_few_rows_that_are_large_are_no_small_batch() -> None:
    """Messages of 16 KiB once came as batches of 50 MiB."""
    third = pa.RecordBatch.from_pydict({"body": [bytes(SMALL_BATCH_BYTES // 3)]})
    whole = pa.RecordBatch.from_pydict({"body": [bytes(SMALL_BATCH_BYTES)]})
    together = list(merge_small_batches([third, third, third, third, whole, third]))
    assert [one.num_rows for one in together] == [3, 1, 1, 1]
    assert together[2] is whole


def test_what_is_skipped_was_not_deleted() -> None:
    """It was said that retention had taken it."""
    assert CAUSE_OF == {
        RangeKind.DELETED: RETENTION,
        RangeKind.PRESUMED_LOST: TAIL_LOST,
        RangeKind.VACANT: VACANT,
    }


def test_each_kind_of_unread_range_has_a_cause() -> None:
    assert CAUSE_OF.keys() == set(RangeKind) - {RangeKind.READ}


def test_a_task_without_a_name_server_reports_it_and_has_nothing_skipped() -> None:
    """It used to state that the range of a broker which nobody had asked was to be given up."""
    unreachable = {"namesrvAddr": "127.0.0.1:1", "consumerGroup": "G", "subscribe": "T"}
    options = ReadOptions.parse({**unreachable, "clusterTimeoutMs": "1", "brokerTimeoutMs": "100"})
    with pytest.raises(TransportError) as raised:
        list(read_ranges([QueueRange(MessageQueue("T", "a", 0), 5, 8)], options, default_schema()))
    assert raised.value.condition == "CLUSTER_TIMEOUT"
    assert "No successful response from the name servers for" in str(raised.value)
    no_route = "Cannot get the route of topic 'T': no name server of 127.0.0.1:1 responds. Last error: "
    assert f"{no_route}[ROCKETMQ_CONNECT_FAILED]" in str(raised.value)
    assert "skipRanges" not in str(raised.value)
