"""How much the processes of a Spark session hold: descriptors, threads, processes, connections to a cluster, folders.

``leaks`` names what is left after a module; this counts, so that a test sees whether the same work, repeated in one
session, takes more each time: in this process, in Spark's JVM and in workers, which outlive each query.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from connector_tests.support.leaks import OUR_FOLDERS, SOURCE_RUNNER

SPARK_JVM: Final = "org.apache.spark.deploy.SparkSubmit"
HERE, JVM, RUNNER, WORKER = "this process", "Spark's JVM", "source runners", "workers"
DRIVER: Final = frozenset({f"descriptors of {HERE}", f"threads of {HERE}", f"descriptors of {JVM}"})
"""What Spark itself leaves of each query. Threads of the JVM are not counted: its pools keep them for a minute."""

MARGIN: Final = 0.5
MARGINS: Final = {
    f"descriptors of {HERE}": 1.5,
    f"threads of {HERE}": 1.5,
    f"descriptors of {JVM}": 3.0,
    f"descriptors of {WORKER}": 3.0,
    f"threads of {WORKER}": 1.5,
}
"""How many there may be more with each of ten rounds without a leak: Spark has from 16 to 20 workers at a time, and
closes connections and threads late."""

CONNECTIONS: Final = "connections to the cluster"
SPREAD: Final = {WORKER: 4, CONNECTIONS: 4}
"""How many there may be more at the end, however many rounds there are: how many workers Spark starts for equal tasks
depends on how long each takes, and each keeps its connections."""

Held = Counter[str]


def held(ports: Collection[int]) -> Held:
    """Count what this process and Spark's hold; connections are those to ``ports``, the ones of the cluster."""
    counts = Held({f"folders {OUR_FOLDERS}": len(list(Path(tempfile.gettempdir()).glob(OUR_FOLDERS)))})
    for process in _processes():
        with suppress(psutil.NoSuchProcess):
            role, connections = _role(process), process.net_connections("tcp")
            counts[role] += 1
            counts[f"descriptors of {role}"] += process.num_fds()
            if role != JVM:
                counts[f"threads of {role}"] += process.num_threads()
            to_cluster = [one for one in connections if one.raddr and one.raddr.port in ports]
            counts[CONNECTIONS] += len(to_cluster)
    return counts


def _processes() -> Iterator[psutil.Process]:
    me = psutil.Process()
    yield me
    for child in me.children():
        with suppress(psutil.NoSuchProcess):
            if SPARK_JVM in child.cmdline():
                yield from (child, *child.children(recursive=True))


def _role(process: psutil.Process) -> str:
    if process.pid == os.getpid():
        return HERE
    command = process.cmdline()
    if SPARK_JVM in command:
        return JVM
    return RUNNER if any(SOURCE_RUNNER in word for word in command) else WORKER
