"""What the processes that are watched do, and what their processor time is called among the figures. Pure."""

from __future__ import annotations

from typing import Final

BROKER: Final = "broker"
JVM: Final = "JVM"
WORKER: Final = "worker"
PLANNING: Final = "planning"
RUNNER: Final = "source runner"
CLIENT: Final = "client"
BENCHMARK: Final = "benchmark"


def cpu_s(role: str) -> str:
    """The figure with the processor time of all processes of a role, in seconds."""
    return f"{role} cpu_s"
