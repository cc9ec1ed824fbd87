from __future__ import annotations

import pyarrow as pa
import pytest

from rocketmq_spark.source.partition_reader import each_once


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
