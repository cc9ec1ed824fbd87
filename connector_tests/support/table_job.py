"""A job of ``examples/`` that writes to a table or reads one, under another Spark, killed at points that are seen from
outside: the table's files, the checkpoint's, and what the broker has."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from connector_tests.support.other_sparks import ROOT, environment_of, python_of
from connector_tests.support.process_tree import is_jvm, kill_tree
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.model import Message

POLL_S: Final = 0.002
REACHED_S: Final = 2 * PROCESS_S
KEYS: Final = 500
COMMITS: Final = {"delta": "table/_delta_log/*.json", "iceberg": "lake/shop/orders/metadata/v*.metadata.json"}
"""Where a commit of a table is a new file."""
DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.master": "local[2]",
}


@dataclass
class TableJob:
    """Programs on one Spark and one folder; ``table_format`` is ``delta`` or ``iceberg``."""

    table_format: str
    version: str
    folder: Path

    def __post_init__(self) -> None:
        self._python = python_of(self.version)
        self._started_ns = 0
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", errors="replace")

    @contextmanager
    def running(self, example: str, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """The example, until the block ends; ``settings`` are Spark's, with ``_`` for the dots."""
        command = [str(self._python), str(ROOT / "examples" / example), "--folder", str(self.folder), *arguments]
        self._started_ns = time.time_ns()
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self._environment(settings), stdout=log, stderr=log, cwd=self.folder
            )
        try:
            yield process
        except AssertionError as failure:
            failure.add_note(self.log[-3000:])
            raise
        finally:
            kill_tree(process)

    def run_to_end(self, example: str, *arguments: str, **settings: str) -> str:
        """What it printed."""
        with self.running(example, *arguments, **settings) as process:
            assert process.wait(REACHED_S) == 0
        return self.log

    def fill(self, first: int, count: int, files: int) -> None:
        self._table_program("fill", str(first), str(count), str(files))

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._table_program("read").splitlines() if line.startswith("{")]

    def table_version(self) -> str:
        """Delta's current version, or the ID of Iceberg's current snapshot."""
        (version,) = re.findall(r"^version (\d+)$", self._table_program("version"), re.MULTILINE)
        return str(version)

    def restore_table(self, version: str) -> None:
        """Make this version current again by the table's own command; the checkpoint stays."""
        self._table_program("restore", version)

    def expire_snapshots(self) -> None:
        """Expire all snapshots of an Iceberg table but a new, empty one."""
        self._table_program("expire")

    def _table_program(self, what: str, *arguments: str) -> str:
        program = ["-m", "connector_tests.support.table_program", what, self.table_format, str(self.folder)]
        done = subprocess.run(
            [str(self._python), *program, *arguments],
            env=self._environment({}),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=REACHED_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def _environment(self, settings: dict[str, str]) -> dict[str, str]:
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        lines = [f"{name} {value}" for name, value in (DEFAULTS | given).items()]
        (conf / "spark-defaults.conf").write_text("\n".join(lines), encoding="utf-8")
        own = {"PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(conf), "TMPDIR": str(self.folder)}
        return environment_of(self._python) | own

    def has_table_ahead_of_checkpoint(self) -> bool:
        """Whether the table has a commit of this run since the batch was logged, which the checkpoint has not committed
        yet."""
        logged = _newest(self.folder / "checkpoint" / "offsets")
        if logged is None or (self.folder / "checkpoint" / "commits" / logged.name).exists():
            return False
        begun_ns = max(logged.stat().st_mtime_ns, self._started_ns)
        return any(file.stat().st_mtime_ns > begun_ns for file in self.folder.glob(COMMITS[self.table_format]))

    def batches_logged(self) -> int:
        """How many batches the checkpoint has planned; of a new one, 0."""
        logged = _newest(self.folder / "checkpoint" / "offsets")
        return 0 if logged is None else int(logged.name) + 1

    def is_in_a_batch(self) -> bool:
        """Whether a batch is logged and not committed."""
        logged = _newest(self.folder / "checkpoint" / "offsets")
        return logged is not None and not (self.folder / "checkpoint" / "commits" / logged.name).exists()

    def kill_when(self, example: str, is_so: Callable[[], bool], *arguments: str, **settings: str) -> None:
        """Run until ``is_so``, and kill all of it while it still is so: the JVM stands still before that is decided."""
        with self.running(example, *arguments, **settings) as process:
            deadline = time.monotonic() + REACHED_S
            while True:
                assert process.poll() is None, "the job ended by itself"
                assert time.monotonic() < deadline, "the job did not come there"
                if is_so() and _stopped_while(process, is_so):
                    return
                time.sleep(POLL_S)


def _stopped_while(process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> bool:
    """Whether it is still so when the JVM stands still, which it then does; else it continues."""
    jvms = [child for child in psutil.Process(process.pid).children(recursive=True) if is_jvm(child)]
    assert jvms, "the job is about to end by itself"
    jvm = jvms[0]
    jvm.send_signal(signal.SIGSTOP)
    if is_so():
        return True
    jvm.send_signal(signal.SIGCONT)
    return False


def _newest(folder: Path) -> Path | None:
    """The file of the last batch in a log of the checkpoint."""
    logged = [file for file in folder.glob("*") if file.name.isdigit()] if folder.exists() else []
    return max(logged, key=lambda file: int(file.name), default=None)


@contextmanager
def steady_orders(topic: Topic) -> Iterator[list[tuple[str, int]]]:
    """Send some 200 orders a second while the test does something else: number and version of each."""
    sent: list[tuple[str, int]] = []
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.1):
            orders = [(f"A-{version % KEYS}", version) for version in range(len(sent), len(sent) + 20)]
            topic.send_as_they_are([Message(topic.name, body_of(*order)) for order in orders])
            sent.extend(orders)

    sender = threading.Thread(target=send, name="orders")
    sender.start()
    try:
        yield sent
    finally:
        is_over.set()
        sender.join()


def body_of(order_no: str, version: int) -> bytes:
    return json.dumps({"orderNo": order_no, "version": version, "status": f"status {version}"}).encode()
