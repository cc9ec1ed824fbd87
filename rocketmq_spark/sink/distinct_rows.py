"""Rows that say the same in some columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.wire.arrow.slices import Positions


class DistinctRows(NamedTuple):
    """For each row a code, which those share that say the same; and by code the position of the first of them."""

    codes: Positions
    firsts: Positions


def distinct_rows(columns: Iterable[pa.Array], row_count: int) -> DistinctRows:
    """Which of ``row_count`` rows say the same in all of ``columns``. A null is a value."""
    codes = np.zeros(row_count, np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) > 1:
            combined = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(combined, return_inverse=True)[1]
    firsts = np.unique(codes, return_index=True)[1] if codes.any() else np.zeros(min(1, row_count), np.int64)
    return DistinctRows(codes, firsts)
