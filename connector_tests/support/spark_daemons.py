"""Spark's own servers on this machine, each a JVM from the installed PySpark's jars: a standalone cluster's master and
workers, and a Spark Connect server. They choose their ports, and are ended by pid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from connector_tests.support.jvm_options import SHORT_LIVED, spark_options
from connector_tests.support.process_tree import kill_tree
from connector_tests.support.timeouts import END_TO_END_S, WAIT_S
from rocketmq_spark_python import command

REPOSITORY: Final = Path(__file__).parents[2]
WORKER_COUNT: Final = 2
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
CONNECT_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
MASTER_AT: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile(r"Successfully registered with master")
SERVER_AT: Final = re.compile(r"Spark Connect server started at: \S+:(\d+)")
ON_THIS_MACHINE: Final = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
QUICK: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def spark_home() -> Path:
    """The folder of the installed PySpark."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def spark_environment(folder: Path) -> dict[str, str]:
    """For Spark's commands: its Pythons are ours, find this repository, and leave in ``folder`` what they do when they
    are killed. A Connect server has a daemon's memory, of which it needs 450 MiB."""
    return os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(folder),
        "PYSPARK_PYTHON": command(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "1g",
        "SPARK_DAEMON_JAVA_OPTS": spark_options(),
        "SPARK_LAUNCHER_OPTS": " ".join(SHORT_LIVED),
    }


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each; yields the master's URL."""
    with (
        _daemon("spark-class", [MASTER, *ON_THIS_MACHINE], folder / "master", MASTER_AT) as address,
        _daemon("spark-class", _worker(address[1], folder / "work-0"), folder / "worker-0", REGISTERED),
        _daemon("spark-class", _worker(address[1], folder / "work-1"), folder / "worker-1", REGISTERED),
    ):
        yield address[1]


def _worker(master: str, folder: Path) -> list[str]:
    return [WORKER, *ON_THIS_MACHINE, "--cores", "1", "--memory", "1g", "--work-dir", str(folder), master]


@contextmanager
def connect_server(folder: Path, *options: str) -> Iterator[str]:
    """A Spark Connect server on two cores, its log, its event log and its warehouse in ``folder``; yields the URL for
    clients. ``options``: more ones of ``spark-submit``."""
    events = folder / "events"
    events.mkdir()
    settings = QUICK | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events),
        "spark.eventLog.compress": "false",
    }
    arguments = ["--master", "local[2]", "--class", CONNECT_SERVER, *as_conf(settings), *options]
    with _daemon("spark-submit", [*arguments, "spark-internal"], folder / "connect", SERVER_AT) as address:
        yield f"sc://127.0.0.1:{address[1]}"


def as_conf(settings: Mapping[str, str]) -> list[str]:
    """Arguments of ``spark-submit``."""
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


@contextmanager
def _daemon(script: str, arguments: list[str], folder: Path, is_up: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Start what becomes a JVM, and yield the match of the log line that shows that it is up."""
    folder.mkdir(parents=True)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / script), *arguments],
            env=spark_environment(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield _logged(process, log, is_up)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_S)
        finally:
            kill_tree(process)


def _logged(process: subprocess.Popen[bytes], log: Path, line: re.Pattern[str]) -> re.Match[str]:
    deadline = time.monotonic() + END_TO_END_S
    while (found := line.search(text := log.read_text(errors="replace"))) is None:
        assert process.poll() is None, f"it ended by itself: {text[-3000:]}"
        assert time.monotonic() < deadline, f"no line {line.pattern!r}: {text[-3000:]}"
        time.sleep(0.05)
    return found
