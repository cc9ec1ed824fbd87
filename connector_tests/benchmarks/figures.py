"""From runs to medians, spreads and ratios. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from connector_tests.benchmarks.roles import JVM, WORKER, cpu_s
from connector_tests.benchmarks.run import Run

MEMORY_PEAK: Final = "worker peak_rss_mib"
MEMORY_AT: Final = {0.1: "worker rss_mib at 10 %", 0.5: "worker rss_mib at 50 %", 0.9: "worker rss_mib at 90 %"}
"""Figures by the part of the worker's time that was over."""

A_SECOND: Final = " a_second"
REQUESTS: Final = f"requests{A_SECOND}"
HELD: Final = "PULL_MESSAGE"


@dataclass(frozen=True, slots=True)
class Summary:
    """The middle of several rounds, and the smallest and largest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{rounded(self.median)} ({rounded(self.low)} to {rounded(self.high)})"


def summary(values: Iterable[float]) -> Summary | None:
    """None of no values."""
    known = sorted(values)
    return Summary(median(known), known[0], known[-1]) if known else None


def rounded(value: float) -> str:
    """Three significant digits, and no fewer than the whole number has."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(part: Summary | None, whole: Summary | None) -> float | None:
    """Of the medians; None where there is nothing to compare with."""
    return part.median / whole.median if part and whole and whole.median else None


def values(runs: Iterable[Run], figure: str) -> list[float]:
    """A figure of each run that has it."""
    return [run.figures[figure] for run in runs if figure in run.figures]


def rates(runs: Iterable[Run], seconds: str = "seconds") -> list[float]:
    """Million rows a second, by the figure that holds the seconds."""
    return [run.figures["rows"] / run.figures[seconds] / 1e6 for run in runs if run.figures.get(seconds)]


def a_million(runs: Iterable[Run], figure: str) -> list[float]:
    """A figure for each million rows."""
    return [run.figures[figure] / run.figures["rows"] * 1e6 for run in runs if figure in run.figures]


def spark_cpu_s(runs: Iterable[Run]) -> list[float]:
    """What Spark's JVM and its workers took for a million rows, of each run that had the first; of others are none."""
    queries = [run for run in runs if cpu_s(JVM) in run.figures]
    return [
        (run.figures[cpu_s(JVM)] + run.figures.get(cpu_s(WORKER), 0.0)) / run.figures["rows"] * 1e6 for run in queries
    ]


def memory_figures(rss_bytes: Sequence[int]) -> dict[str, float]:
    """Of a worker that was looked at again and again, at equal intervals."""
    at = {name: rss_bytes[int(fraction * (len(rss_bytes) - 1))] / 2**20 for fraction, name in MEMORY_AT.items()}
    return {MEMORY_PEAK: max(rss_bytes) / 2**20, **at}


def idle_figures(counted: Mapping[str, int], held_ms: Sequence[int], seconds: float) -> dict[str, float]:
    """Requests a second by code, as counted in ``seconds``, and all together.

    Pulls are not as counted but one for each queue in every ``held_ms``, which is how long the broker holds it.
    """
    held = sum(1000 / each_ms for each_ms in held_ms)
    found = {code: count / seconds for code, count in counted.items()} | {HELD: held}
    named = {f"{code}{A_SECOND}": rate for code, rate in found.items()}
    return {"queues": len(held_ms), "pulls counted": counted.get(HELD, 0), REQUESTS: sum(found.values()), **named}


def cases(runs: Iterable[Run], part: str) -> list[str]:
    """In the order in which they were run."""
    return list(dict.fromkeys(run.case for run in runs if run.part == part))


def contestants(runs: Iterable[Run], part: str, case: str) -> dict[str, list[Run]]:
    """The rounds of each."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if (run.part, run.case) == (part, case):
            found.setdefault(run.contestant, []).append(run)
    return found
