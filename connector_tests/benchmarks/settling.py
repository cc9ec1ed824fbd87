"""Brokers go on working on what was sent to them before; who comes next should not pay for it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import psutil

SAMPLE_S: Final = 0.5
IDLE_SHARE: Final = 0.1
"""Of one core."""
TIMEOUT_S: Final = 60.0


def wait_until_idle(pids: Iterable[int]) -> None:
    """Until these processes together have hardly used a core for a while. Raises TimeoutError after a minute."""
    processes = [psutil.Process(pid) for pid in pids]
    deadline_s = time.monotonic() + TIMEOUT_S
    used_s = _used_s(processes)
    while True:
        time.sleep(SAMPLE_S)
        before_s, used_s = used_s, _used_s(processes)
        if used_s - before_s < IDLE_SHARE * SAMPLE_S:
            return
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"a broker is still busy after {TIMEOUT_S:.0f} s")


def _used_s(processes: Iterable[psutil.Process]) -> float:
    times = (process.cpu_times() for process in processes)
    return float(sum(one.user + one.system for one in times))
