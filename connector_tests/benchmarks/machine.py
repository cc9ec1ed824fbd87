"""What the whole machine did while something ran, and in a part of that time."""

from __future__ import annotations

from dataclasses import dataclass
from time import time
from types import TracebackType
from typing import Final, Self

import numpy as np
import psutil

from connector_tests.benchmarks.sampler import Sampler

NOT_BUSY: Final = frozenset({"idle", "iowait", "steal"})
COUNTED_ELSEWHERE: Final = frozenset({"guest", "guest_nice"})
"""In ``user`` and ``nice``."""
SAMPLE_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Reading:
    """Seconds; the clock's since the epoch, the others since some time in the past."""

    clock_s: float
    busy_cpu_s: float
    steal_cpu_s: float

    @property
    def left_core_s(self) -> float:
        """What nobody used and nobody withheld, up to a constant."""
        return float(psutil.cpu_count() * self.clock_s - self.busy_cpu_s - self.steal_cpu_s)


class Machine:
    """Context manager that measures the processor time of all processes together."""

    def __enter__(self) -> Self:
        self._readings = [_read()]
        self._sampler = Sampler(self._sample_once, SAMPLE_INTERVAL_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._sampler.stop()
        self._sample_once()

    def figures(self) -> dict[str, float]:
        """Once the block is over. Of ``machine core_s``, seconds times cores, ``machine busy_cpu_s`` was used by
        whomever, and ``machine steal_cpu_s`` withheld by the host of a virtual machine."""
        cores = psutil.cpu_count()
        begin, end = self._readings[0], self._readings[-1]
        return {
            "machine cores": cores,
            "machine core_s": cores * (end.clock_s - begin.clock_s),
            "machine busy_cpu_s": end.busy_cpu_s - begin.busy_cpu_s,
            "machine steal_cpu_s": end.steal_cpu_s - begin.steal_cpu_s,
        }

    def idle_core_s(self, begin_s: float, end_s: float) -> float:
        """Of all cores together between two times since the epoch, as exact as the samples are close."""
        clock = [reading.clock_s for reading in self._readings]
        begin, end = np.interp((begin_s, end_s), clock, [reading.left_core_s for reading in self._readings])
        return float(end - begin)

    def _sample_once(self) -> None:
        self._readings.append(_read())


def _read() -> _Reading:
    times = psutil.cpu_times()._asdict()
    busy = sum(times[name] for name in times.keys() - NOT_BUSY - COUNTED_ELSEWHERE)
    return _Reading(time(), busy, times.get("steal", 0.0))
