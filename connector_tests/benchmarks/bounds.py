"""What the benchmark has to show: figures of ours with the bounds that they should keep. Pure.

Where a peer is named, the figure is the ratio of the two medians, else the median. That pure Python is in no case
slower than an older version of it is not here: one run measures one version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from connector_tests.benchmarks.figures import contestants, rates, ratio, rounded, spark_cpu_s, summary, values
from connector_tests.benchmarks.names import (
    DEFAULTS_SUFFIX,
    EMPTY,
    JAVA_BATCHES,
    KAFKA,
    KAFKA_HEADERS,
    KAFKA_VALUES,
    LITE_PULL,
    OUR_BODIES,
    OUR_LIKE_KAFKA,
    OUR_MAPS,
    OUR_PULLS_AT_ONCE,
    OUR_RARE,
    OURS,
    PYTHON_SUFFIX,
    UNCHECKED_SUFFIX,
)
from connector_tests.benchmarks.run import Run
from rocketmq_spark.wire.arrow.column_table import COLUMNS

RATE: Final = "M rows/s"
BATCH_RATE: Final = "M rows/s in batches"
SPARK_CPU: Final = "Spark CPU s/M"
LOAD: Final = "load_s"
FIRST_BATCH: Final = "first batch after start_s"
RUNNER_CPU: Final = "query source runner cpu_s"

FIGURES: Final[Mapping[str, Callable[[Iterable[Run]], list[float]]]] = {
    RATE: rates,
    BATCH_RATE: lambda runs: rates(runs, "batch_seconds"),
    SPARK_CPU: spark_cpu_s,
    **{name: partial(values, figure=name) for name in (LOAD, FIRST_BATCH, RUNNER_CPU)},
}
LESS_IS_BETTER: Final = frozenset({SPARK_CPU, LOAD, FIRST_BATCH, RUNNER_CPU})

SMALL: Final = "100 B, 4 queues"
LARGE: Final = "1 KiB, 4 queues"
START: Final = "a query of one batch"
ALL: Final = f"all {len(COLUMNS)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """One of the things to show. ``reference`` None: the figure itself is bounded, not its ratio to somebody's."""

    part: str
    case: str
    contestant: str
    reference: str | None
    figure: str
    bound: float

    @property
    def is_upper(self) -> bool:
        return self.figure in LESS_IS_BETTER

    def measured(self, runs: Sequence[Run]) -> float | None:
        """None where it was not run, or its peer was not."""
        racing = contestants(runs, self.part, self.case)
        found = {name: summary(FIGURES[self.figure](mine)) for name, mine in racing.items()}
        mine = found.get(self.contestant)
        if self.reference is not None:
            return ratio(mine, found.get(self.reference))
        return None if mine is None else mine.median

    def is_met_by(self, measured: float) -> bool:
        return measured <= self.bound if self.is_upper else measured >= self.bound

    def cells(self, runs: Sequence[Run]) -> Sequence[str]:
        """What, wanted, measured, met or not."""
        unit = "" if self.reference is None else " ×"
        what = f"{self.part} {self.case}: {self.contestant}" + (f" to {self.reference}" if self.reference else "")
        required = f"{'≤' if self.is_upper else '≥'} {self.bound:g}{unit}"
        measured = self.measured(runs)
        if measured is None:
            return f"{what}, {self.figure}", required, "not run", ""
        met = "met" if self.is_met_by(measured) else "not met"
        return f"{what}, {self.figure}", required, f"{rounded(measured)}{unit}", met


def _reading(case: str, contestant: str, reference: str, figure: str, bound: float) -> Bound:
    return Bound("reading", case, contestant, reference, figure, bound)


BOUNDS: Final[Sequence[Bound]] = (
    _reading(SMALL, OUR_LIKE_KAFKA, KAFKA, BATCH_RATE, 1.3),
    _reading(SMALL, OUR_LIKE_KAFKA, KAFKA, RATE, 1.1),
    _reading(LARGE, OUR_LIKE_KAFKA, KAFKA, BATCH_RATE, 1.2),
    _reading(LARGE, OUR_LIKE_KAFKA, KAFKA, RATE, 1.0),
    *(_reading(case, OUR_MAPS, KAFKA_HEADERS, BATCH_RATE, 1.0) for case in (SMALL, LARGE)),
    *(_reading(case, OUR_BODIES, KAFKA_VALUES, BATCH_RATE, 1.5) for case in (SMALL, LARGE)),
    *(
        _reading(case, ours, reference, SPARK_CPU, 1.0)
        for case in (SMALL, LARGE)
        for ours, reference in ((OUR_LIKE_KAFKA, KAFKA), (OUR_MAPS, KAFKA_HEADERS), (OUR_BODIES, KAFKA_VALUES))
    ),
    *(
        _reading(case, f"{ours}{UNCHECKED_SUFFIX}", f"{reference}{UNCHECKED_SUFFIX}", SPARK_CPU, 1.0)
        for case in (SMALL, LARGE)
        for ours, reference in ((OUR_LIKE_KAFKA, KAFKA), (OUR_BODIES, KAFKA_VALUES))
    ),
    Bound("decode", "100 B, 32 a pull", f"{ALL}, native", None, RATE, 4.0),
    Bound("decode", "100 B, 32 a pull", ALL, None, RATE, 1.8),
    Bound("decode", "1024 B, 32 a pull", f"{ALL}, native", None, RATE, 2.5),
    _reading(SMALL, OUR_PULLS_AT_ONCE, LITE_PULL, RATE, 5.0),
    *(_reading(f"{size}, 1 queue", OUR_LIKE_KAFKA, KAFKA, BATCH_RATE, 1.0) for size in ("100 B", "1 KiB")),
    *(_reading(f"{size}, 32 queues", OUR_LIKE_KAFKA, KAFKA, BATCH_RATE, 3.0) for size in ("100 B", "1 KiB")),
    _reading("16 KiB, 4 queues", OUR_LIKE_KAFKA, KAFKA, BATCH_RATE, 1.0),
    *(_reading(case, OUR_RARE, KAFKA, BATCH_RATE, 6.0) for case in (SMALL, LARGE)),
    *(
        _reading(case, f"{ours}{PYTHON_SUFFIX}", reference, BATCH_RATE, 0.85)
        for case in (SMALL, LARGE)
        for ours, reference in ((OURS, KAFKA), (OUR_MAPS, KAFKA_HEADERS))
    ),
    *(
        Bound("starting", case, OURS, reference, figure, bound)
        for case in (START, f"{START}{DEFAULTS_SUFFIX}")
        for reference, figure, bound in ((EMPTY, LOAD, 1.3), (EMPTY, FIRST_BATCH, 1.1), (None, RUNNER_CPU, 0.5))
    ),
    Bound("writing", SMALL, OURS, KAFKA, RATE, 1.2),
    Bound("writing", LARGE, OURS, KAFKA, RATE, 1.0),
    *(Bound("writing", case, OURS, JAVA_BATCHES, RATE, 4.0) for case in (SMALL, LARGE)),
)
