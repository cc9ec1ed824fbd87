"""What the whole machine did while something ran."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Final, Self

import psutil

NOT_BUSY: Final = frozenset({"idle", "iowait", "steal"})
COUNTED_ELSEWHERE: Final = frozenset({"guest", "guest_nice"})
"""In ``user`` and ``nice``."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Seconds, all since some time in the past."""

    clock_s: float
    busy_cpu_s: float
    steal_cpu_s: float


class Machine:
    """Context manager that measures the processor time of all processes together."""

    def __enter__(self) -> Self:
        self._begin = _read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end = _read()

    def figures(self) -> dict[str, float]:
        """Once the block is over. Of ``machine core_s``, seconds times cores, ``machine busy_cpu_s`` was used by
        whomever, and ``machine steal_cpu_s`` withheld by the host of a virtual machine."""
        cores = psutil.cpu_count()
        return {
            "machine cores": cores,
            "machine core_s": cores * (self._end.clock_s - self._begin.clock_s),
            "machine busy_cpu_s": self._end.busy_cpu_s - self._begin.busy_cpu_s,
            "machine steal_cpu_s": self._end.steal_cpu_s - self._begin.steal_cpu_s,
        }


def _read() -> _Reading:
    times = psutil.cpu_times()._asdict()
    busy = sum(times[name] for name in times.keys() - NOT_BUSY - COUNTED_ELSEWHERE)
    return _Reading(perf_counter(), busy, times.get("steal", 0.0))
