from __future__ import annotations

import pyarrow as pa
import pytest

from rocketmq_spark.sink.distinct_rows import distinct_rows


@pytest.mark.parametrize(
    ("columns", "codes", "firsts"),
    [
        ([], [0, 0, 0, 0], [0]),
        ([["a", "a", "a", "a"]], [0, 0, 0, 0], [0]),
        ([["b", "a", "b", None]], [0, 1, 0, 2], [0, 1, 3]),
        ([["a", "a", "b", "b"], [1, 2, 1, 1]], [0, 1, 2, 2], [0, 1, 2]),
        ([["a", "b", "a", "b"], [True, True, False, True]], [0, 1, 2, 1], [0, 1, 2]),
    ],
)
def test_rows_that_say_the_same_share_a_code(columns: list[list[object]], codes: list[int], firsts: list[int]) -> None:
    found = distinct_rows([pa.array(values) for values in columns], 4)
    renumbered = {code: number for number, code in enumerate(dict.fromkeys(found.codes.tolist()))}
    assert [renumbered[code] for code in found.codes.tolist()] == codes
    assert sorted(found.firsts.tolist()) == firsts
    assert [int(found.codes[first]) for first in found.firsts.tolist()] == list(range(len(firsts)))


def test_of_no_rows_there_is_no_first() -> None:
    codes, firsts = distinct_rows([pa.array([], pa.string())], 0)
    assert (len(codes), len(firsts)) == (0, 0)
