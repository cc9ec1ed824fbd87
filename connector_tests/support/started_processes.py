"""Counts the processes that a run of the tests starts: clusters, Spark, queries; however deep below the tests they are.

Only the process that the user called counts: pytest-xdist's workers are among its children.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

POLL_S: Final = 1.0
"""A look takes 7 ms of a processor."""
KINDS: Final = (
    ("launchers of Spark", ("org.apache.spark.launcher.Main",)),
    ("Spark JVMs", ("org.apache.spark.deploy.SparkSubmit", "-cp")),
    ("RocketMQ clusters", ("/jvm-rocketmq",)),
    ("RocketMQ name servers alone", ("/jvm-namesrv",)),
    ("RocketMQ brokers alone", ("/jvm-broker-",)),
    ("RocketMQ proxies", ("/jvm-proxy",)),
    ("source runners", ("python_streaming_source_runner",)),
    ("other JVMs", ("java", "-classpath")),
)
"""Name and what the command line has; the first that fits counts. A query has one source runner for each source."""
SHOWN: Final = ("Spark JVMs", "RocketMQ clusters", "RocketMQ name servers alone", "RocketMQ proxies", "source runners")


class StartedProcesses:
    """A pytest plugin that counts from the start of the session, and prints the counts at its end.

    What starts and ends between two looks, 1 s apart, is not counted.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[int, float], str] = {}
        self._known: dict[int, bytes] = {}
        """The command line that a process had when it was looked at: nothing else of it changes."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, name="started-processes", daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()
        self._thread.join()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = Counter(self._kinds.values())
        started = [f"{counts[kind]} {kind}" for kind in SHOWN if counts[kind]]
        if started:
            terminalreporter.write_line("started: " + ", ".join(started))

    def _count(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(POLL_S):
            running = {pid: command_line(pid) for pid in psutil.pids()}
            for pid, command in running.items():
                if command and self._known.get(pid) != command:
                    self._inspect(pid, me)
            self._known = running

    def _inspect(self, pid: int, me: psutil.Process) -> None:
        """Count it if it is one of ours. A shell may become Spark's JVM: its command line changes then."""
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process = psutil.Process(pid)
            parents = process.parents()
            command = process.cmdline()
            if me in parents and parents[0].cmdline() != command and (kind := kind_of(command)):
                self._kinds[pid, process.create_time()] = kind


def command_line(pid: int) -> bytes:
    """As the kernel has it; empty for one of its own processes, for a zombie and for one that has ended.

    Read without psutil, which takes ten times as long: a look at each process five times a second took a seventh of a
    core.
    """
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def kind_of(command: list[str]) -> str:
    """The name of the first kind that fits, or nothing."""
    if not command or command[0].rpartition("/")[2] not in {"java", Path(sys.executable).name, "python", "python3"}:
        return ""
    return next((kind for kind, parts in KINDS if all(part in " ".join(command) for part in parts)), "")
