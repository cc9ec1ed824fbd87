"""What rows want of their topics, and which rows cannot have that: their problems are those of their topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_spark.sink.distinct_rows import distinct_rows
from rocketmq_spark.sink.outgoing_rows import OutgoingRows
from rocketmq_spark.wire.arrow.slices import Positions


class Wanted(NamedTuple):
    """A topic that takes rows."""

    topic: str


class Wishes(NamedTuple):
    """``wanted``, each once, and for the rows at ``positions`` which of these it is, by its place in ``wanted``."""

    wanted: tuple[Wanted, ...]
    positions: Positions
    places: Positions

    def problems(self, told: Mapping[Wanted, str]) -> dict[int, str]:
        """By position what is wrong with the topics of rows."""
        of_places = [told.get(one) for one in self.wanted]
        if not any(of_places):
            return {}
        pairs = zip(self.positions.tolist(), self.places.tolist(), strict=True)
        return {position: problem for position, place in pairs if (problem := of_places[place]) is not None}


def wishes_of(rows: OutgoingRows, but: Iterable[int]) -> Wishes:
    """What rows want; those at the positions ``but`` have problems of their own, and are left out."""
    positions = np.delete(np.arange(len(rows)), list(but))
    columns = [column.take(pa.array(positions)) for column in (rows.topics,)]
    places, firsts = distinct_rows(columns, len(positions))
    values = zip(*(column.take(pa.array(firsts)).to_pylist() for column in columns), strict=True)
    return Wishes(tuple(Wanted(*one) for one in values), positions, places)
