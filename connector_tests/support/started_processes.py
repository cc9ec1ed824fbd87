"""Counts the processes that a run of the tests starts: clusters, Spark, queries; however deep below the tests they are.

Only the process that the user called counts: pytest-xdist's workers are among its children.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from typing import Final

import psutil
import pytest

POLL_S: Final = 0.2
KINDS: Final = (
    ("Spark JVMs", "org.apache.spark.deploy.SparkSubmit"),
    ("RocketMQ clusters", "/jvm-rocketmq"),
    ("RocketMQ name servers alone", "/jvm-namesrv"),
    ("RocketMQ brokers alone", "/jvm-broker-"),
    ("RocketMQ proxies", "/jvm-proxy"),
    ("source runners", "python_streaming_source_runner"),
    ("other JVMs", "java "),
)
"""Name and what the command line contains; the first kind that fits counts. A query has one source runner a source."""


class StartedProcesses:
    """A pytest plugin that counts from the start of the session, and prints the counts at its end.

    What starts and ends between two looks, 0.2 s apart, is not counted.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, float], str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, name="started-processes", daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()
        self._thread.join()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("started")
        counts = Counter(self._seen.values())
        for kind, _ in KINDS:
            terminalreporter.write_line(f"{counts[kind]:6} {kind}")

    def _count(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(POLL_S):
            for process in me.children(recursive=True):
                self._look_at(process)

    def _look_at(self, process: psutil.Process) -> None:
        key = (process.pid, process.create_time())
        if self._seen.get(key):
            return
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            self._seen[key] = kind_of(" ".join(process.cmdline()))


def kind_of(command: str) -> str:
    """The name of the first kind that fits, or nothing."""
    return next((kind for kind, part in KINDS if part in f"{command} "), "")
