"""Where the processor time of a query goes, and how fast it could be at best. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from connector_tests.benchmarks.figures import a_million, values
from connector_tests.benchmarks.run import Run

BROKER: Final = "broker"
PULL: Final = "pull"
DECODE: Final = "decode"
TO_JVM: Final = "Python to JVM"
JVM: Final = "JVM"
PLANNING: Final = "planning (start of the query)"
BENCHMARK: Final = "the benchmark's own process"
OTHER: Final = "everything else that the machine did"
STEAL: Final = "withheld by the host"
IDLE: Final = "idle"


@dataclass(frozen=True, slots=True)
class Wall:
    """Core seconds for a million rows.

    Parameters
    ----------
    parts : by name; together ``core_s``
    core_s : what the machine had: seconds times cores
    """

    parts: Mapping[str, float]
    core_s: float
    cores: float

    def share(self, part: str) -> float:
        """Of what the machine had."""
        return self.parts[part] / self.core_s

    @property
    def unexplained(self) -> float:
        """The share that no process of the query has used and that was not idle either. Below 0: the processes' own
        counts say more than the machine's."""
        return self.share(OTHER) + self.share(STEAL)

    @property
    def bound(self) -> float:
        """Million rows a second if all cores were always busy, with nothing but broker and JVM."""
        return self.cores / (self.parts[BROKER] + self.parts[JVM])


def wall(queries: Sequence[Run], pulls: Sequence[Run] = (), decodes: Sequence[Run] = ()) -> Wall:
    """Of the medians of each.

    Parameters
    ----------
    queries : whole queries, with the machine's figures
    pulls, decodes : clients that pulled the same rows, and pulled and decoded them; without them all that Python
        workers did is ``TO_JVM``
    """
    pull, decode = _middle(pulls, "client cpu_s"), _middle(decodes, "client cpu_s")
    used = {
        BROKER: _middle(queries, "broker cpu_s"),
        PULL: pull,
        DECODE: decode - pull,
        TO_JVM: _middle(queries, "worker cpu_s") - decode,
        JVM: _middle(queries, "JVM cpu_s"),
        PLANNING: _middle(queries, "planning cpu_s"),
        BENCHMARK: _middle(queries, "benchmark cpu_s"),
    }
    core_s, busy, steal = (_middle(queries, f"machine {name}") for name in ("core_s", "busy_cpu_s", "steal_cpu_s"))
    left = {OTHER: busy - sum(used.values()), STEAL: steal, IDLE: core_s - busy - steal}
    return Wall(used | left, core_s, median(values(queries, "machine cores")))


def _middle(runs: Sequence[Run], figure: str) -> float:
    """For a million rows; 0 of runs that do not have it."""
    return median(a_million(runs, figure) or [0.0])
