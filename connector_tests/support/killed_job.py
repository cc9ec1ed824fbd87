"""A query that a test kills: the program of ``crashing_job`` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connector_tests.support.other_sparks import environment_of
from connector_tests.support.process_tree import is_jvm, kill_tree, written_bodies
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster

REPOSITORY = Path(__file__).parents[2]
REACHED_WITHIN_S = PROCESS_S


class KilledJob:
    """A Spark driver in a process of its own, with everything that it starts. ``python`` runs its next start, and may
    have another PySpark than ours."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, group: str, folder: Path, *more: str) -> None:
        self._arguments = (cluster.namesrv_addr, topic, group, str(folder))
        self._more = more
        self._folder = folder
        self.python = Path(sys.executable)

    def crash_at(self, point: str, passes: int, *, jvm_only: bool) -> None:
        """Run until the point has been passed so often, and kill everything there, or the JVM alone."""
        marker = self._folder / "reached"
        with self._started("no", {"CRASH_POINT": f"{point}:{passes}", "CRASH_MARKER": str(marker)}) as process:
            deadline = time.monotonic() + REACHED_WITHIN_S
            while not marker.exists():
                assert process.poll() is None, f"the job ended by itself before {point!r}: {self._log()}"
                assert time.monotonic() < deadline, f"the job did not reach {point!r}: {self._log()}"
                time.sleep(0.02)
            self._kill(process, jvm_only=jvm_only)
        marker.unlink()

    def crash_after(self, seconds: float) -> None:
        """Run, and kill everything after so long, wherever it is."""
        with self._started("no", {}) as process:
            time.sleep(seconds)
            self._kill(process, jvm_only=False)

    def run_to_end(self) -> None:
        with self._started("yes", {}) as process:
            assert process.wait(PROCESS_S) == 0, self._log()

    def messages(self) -> list[str]:
        return written_bodies(self._folder)

    @contextmanager
    def _started(self, until_end: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        command = [
            str(self.python),
            "-m",
            "connector_tests.support.crashing_job",
            *self._arguments,
            until_end,
            *self._more,
        ]
        settings = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self._folder)}
        whole = {**environment_of(self.python), **settings, **environment}
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(command, env=whole, stdout=log, stderr=log, cwd=self._folder)
        try:
            yield process
        finally:
            self._kill(process, jvm_only=False)

    def _kill(self, process: subprocess.Popen[bytes], *, jvm_only: bool) -> None:
        """With ``jvm_only`` the others must end by themselves."""
        alive = kill_tree(process, is_jvm) if jvm_only else kill_tree(process)
        assert not (jvm_only and alive), f"outlived their JVM: {alive}"

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-3000:]
