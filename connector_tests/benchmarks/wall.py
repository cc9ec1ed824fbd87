"""Where the processor time of a query goes, and how fast it could be at best. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from connector_tests.benchmarks.figures import a_million, values
from connector_tests.benchmarks.roles import BENCHMARK, BROKER, CLIENT, JVM, PLANNING, RUNNER, WORKER, cpu_s
from connector_tests.benchmarks.run import Run

PULL: Final = "pull"
DECODE: Final = "decode"
TO_JVM: Final = "Python to JVM"
START: Final = "planning (start of the query)"
IN_RUNNER: Final = "source runner"
OWN: Final = "the benchmark's own process"
OTHER: Final = "everything else that the machine did"
STEAL: Final = "withheld by the host"
IDLE: Final = "idle"
IDLE_AROUND: Final = "idle, before and after the batches"
IDLE_IN_BATCHES: Final = "machine idle_in_batches_core_s"
"""The figure of a query that reports its two kinds of idle time apart."""


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
        counts state more than the machine's."""
        return self.share(OTHER) + self.share(STEAL)

    @property
    def bound(self) -> float:
        """Million rows a second if all cores were always busy, with nothing but broker and JVM."""
        return self.cores / (self.parts[BROKER] + self.parts[JVM])


def wall(queries: Sequence[Run], pulls: Sequence[Run] = (), decodes: Sequence[Run] = ()) -> Wall:
    """Of the medians of each.

    Parameters
    ----------
    queries : whole queries, or clients, with the machine's figures
    pulls, decodes : clients that pulled the same rows, and pulled and decoded them; without them all that Python did
        is ``TO_JVM``
    """
    pull = _middle(pulls, cpu_s(CLIENT))
    decode = _middle(decodes, cpu_s(CLIENT)) if decodes else pull
    used = {
        BROKER: _middle(queries, cpu_s(BROKER)),
        PULL: pull,
        DECODE: decode - pull,
        TO_JVM: _middle(queries, cpu_s(WORKER)) + _middle(queries, cpu_s(CLIENT)) - decode,
        JVM: _middle(queries, cpu_s(JVM)),
        START: _middle(queries, cpu_s(PLANNING)),
        IN_RUNNER: _middle(queries, cpu_s(RUNNER)),
        OWN: _middle(queries, cpu_s(BENCHMARK)),
    }
    core_s, busy, steal = (_middle(queries, f"machine {name}") for name in ("core_s", "busy_cpu_s", "steal_cpu_s"))
    idle = core_s - busy - steal
    around = idle - _middle(queries, IDLE_IN_BATCHES) if values(queries, IDLE_IN_BATCHES) else 0.0
    remaining = {OTHER: busy - sum(used.values()), STEAL: steal, IDLE_AROUND: around, IDLE: idle - around}
    return Wall(used | remaining, core_s, median(values(queries, "machine cores")))


def writing_parts(writes: Sequence[Run], counts: Sequence[Run], encodes: Sequence[Run]) -> dict[str, float]:
    """CPU seconds for a million rows by what they were for, of the medians of each.

    Parameters
    ----------
    counts, encodes : the same rows into a sink that only takes them, and into one that also encodes them
    """
    used_s, encoded, sent = (_middle(runs, cpu_s(WORKER)) for runs in (counts, encodes, writes))
    return {
        **broker_and_jvm(writes),
        "take the rows": used_s,
        "encode them": encoded - used_s,
        "send them": sent - encoded,
        START: _middle(writes, cpu_s(PLANNING)),
    }


def broker_and_jvm(writes: Sequence[Run]) -> dict[str, float]:
    """CPU seconds for a million rows."""
    return {role: _middle(writes, cpu_s(role)) for role in (BROKER, JVM)}


def _middle(runs: Sequence[Run], figure: str) -> float:
    """For a million rows; 0 of runs that do not have it."""
    return median(a_million(runs, figure) or [0.0])
