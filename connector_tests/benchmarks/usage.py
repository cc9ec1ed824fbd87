"""CPU and memory of groups of processes while something runs, also of those that end meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from connector_tests.benchmarks.figures import memory_figures
from connector_tests.benchmarks.roles import BROKER, PLANNING, RUNNER, WORKER, cpu_s
from connector_tests.benchmarks.sampler import Sampler

SAMPLE_INTERVAL_S: Final = 0.25
TASK_MODULE: Final = "pyspark.worker"
RUNNER_MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"
ROLES: Final[Mapping[str, str]] = {TASK_MODULE: WORKER, RUNNER_MODULE: RUNNER}


@dataclass
class _Process:
    """What was seen of one process: CPU seconds at the beginning and last, bytes of memory at each look."""

    role: str
    first_cpu_s: float
    last_cpu_s: float = 0.0
    rss_bytes: list[int] = field(default_factory=list)
    first_written_bytes: int = 0
    last_written_bytes: int = 0


@dataclass
class Usage:
    """Context manager that watches processes.

    Parameters
    ----------
    roots : process ids by role; of each the process itself
    children_of : the Spark JVM; of its descendants, those that run tasks are ``WORKER``, the one that lives as long as
        its query is ``RUNNER``, all other Python is ``PLANNING``
    interval_s : how often is looked; what a process does between the last look and its end is not seen
    """

    roots: Mapping[str, int]
    children_of: int | None = None
    interval_s: float = SAMPLE_INTERVAL_S
    _seen: dict[psutil.Process, _Process] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._sample(is_first=True)
        self._sampler = Sampler(self._sample, self.interval_s)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._sampler.stop()
        self._sample()

    def figures(self) -> dict[str, float]:
        """``<role> cpu_s`` of each role; of the worker that was the largest ``worker peak_rss_mib``, and what it had at
        tenths of its time; ``broker written_mb``: what it sent, above all."""
        figures: dict[str, float] = {}
        for one in self._seen.values():
            name = cpu_s(one.role)
            figures[name] = figures.get(name, 0.0) + one.last_cpu_s - one.first_cpu_s
        workers = [one.rss_bytes for one in self._seen.values() if one.role == WORKER and one.rss_bytes]
        if workers:
            figures |= memory_figures(max(workers, key=max))
        written = [
            one.last_written_bytes - one.first_written_bytes for one in self._seen.values() if one.role == BROKER
        ]
        return figures | {f"{BROKER} written_mb": sum(written) / 1e6}

    def _sample(self, *, is_first: bool = False) -> None:
        for role, process in self._processes():
            try:
                self._note(role, process, is_first=is_first)
            except psutil.NoSuchProcess:
                continue

    def _processes(self) -> list[tuple[str, psutil.Process]]:
        roots = [(role, psutil.Process(pid)) for role, pid in self.roots.items()]
        if self.children_of is None:
            return roots
        children = psutil.Process(self.children_of).children(recursive=True)
        return roots + [(role, child) for child in children if (role := python_role(child)) is not None]

    def _note(self, role: str, process: psutil.Process, *, is_first: bool) -> None:
        times = process.cpu_times()
        used_s = times.user + times.system
        written_bytes = process.io_counters().write_chars if role == BROKER else 0
        if process not in self._seen:
            self._seen[process] = _Process(role, used_s if is_first else 0.0, first_written_bytes=written_bytes)
        seen = self._seen[process]
        seen.last_cpu_s, seen.last_written_bytes = used_s, written_bytes
        seen.rss_bytes.append(process.memory_info().rss)


def python_role(process: psutil.Process) -> str | None:
    """None for a child that has just been forked and is no Python yet, or that has ended."""
    try:
        command = process.cmdline()
    except psutil.NoSuchProcess:
        return None
    return role_of_command(command)


def role_of_command(command: Sequence[str]) -> str | None:
    """None for what is no Python."""
    if "python" not in Path(command[0] if command else "").name:
        return None
    return next((role for module, role in ROLES.items() if module in command), PLANNING)
