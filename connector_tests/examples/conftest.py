"""Examples and README run in Python processes of their own, as users run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from connector_tests.spark.conftest import messages as messages
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark_python import command

ROOT: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = PROCESS_S

Run = Callable[..., str]


def own_environment(folder: Path) -> dict[str, str]:
    """This Python, this package, and temporary files in ``folder``."""
    own = {
        "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "PYSPARK_PYTHON": command(),
        "TMPDIR": str(folder),
    }
    return dict(os.environ) | own


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return own_environment(tmp_path)


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Run a command in the test's folder and state what it printed; its exit code must be 0."""

    def run_to_end(*command: str, **more: str) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment | more,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run_to_end


@pytest.fixture
def run_until(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Run a command until it prints a line with ``text``, then press Ctrl-C; returns all that it printed."""

    def run_for_a_while(text: str, *command: str) -> str:
        with (tmp_path / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        watchdog = threading.Timer(TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            printed = "".join(up_to(text, process.stdout))
            process.send_signal(signal.SIGINT)
            printed += process.communicate()[0]
        finally:
            process.kill()
            watchdog.cancel()
            watchdog.join()
        assert text in printed, f"{command}\n{printed}\n{(tmp_path / 'stderr').read_text(errors='replace')}"
        return printed

    return run_for_a_while


def up_to(text: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines up to the first that has ``text`` in it."""
    for line in lines:
        yield line
        if text in line:
            return
