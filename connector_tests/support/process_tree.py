"""A Spark program with everything that it starts, killed from outside; and what its batches have left."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from connector_tests.support.timeouts import WAIT_S

EXIT_TIMEOUT_S = WAIT_S


def kill_tree(
    process: subprocess.Popen[bytes] | subprocess.Popen[str],
    is_victim: Callable[[psutil.Process], bool] = lambda _: True,
) -> list[psutil.Process]:
    """SIGKILL by pid for the program and those of its processes that are victims, the program first.

    The others must end by themselves; those that have not after EXIT_TIMEOUT_S are killed, and returned. [] if the
    program had ended before.
    """
    with suppress(psutil.NoSuchProcess):
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for victim in filter(is_victim, tree):
            with suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
        process.kill()
        process.wait()
        _, left = psutil.wait_procs(tree, timeout=EXIT_TIMEOUT_S)
        alive = [orphan for orphan in left if not has_ended(orphan)]
        for orphan in alive:
            orphan.kill()
        return alive
    return []


def has_ended(orphan: psutil.Process) -> bool:
    """Whether it is gone, or only waits for whoever has adopted it to take note, which may take its time."""
    with suppress(psutil.NoSuchProcess):
        return bool(orphan.status() == psutil.STATUS_ZOMBIE)
    return True


def is_jvm(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.name() == "java")
    return False


def written_bodies(folder: Path) -> list[str]:
    """The bodies in ``out/batch=N`` of the folder, in the order of the files' names."""
    files = sorted(folder.glob("out/batch=*/*.parquet"))
    return [body.decode() for file in files for body in pq.read_table(file)["body"].to_pylist()]
