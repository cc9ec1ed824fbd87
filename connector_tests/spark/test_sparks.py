"""The main stories on each Spark that has Python sources: ``make test-sparks``. Each notes its figures in a table."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import pytest

from connector_tests.support import core_scenarios
from connector_tests.support.killed_job import KilledJob
from connector_tests.support.other_sparks import SPARKS, environment_of, python_of
from connector_tests.support.process_tree import kill_tree
from connector_tests.support.streams import Topic, eventually, steady_messages
from connector_tests.support.timeouts import PROCESS_S, REQUEST_TIMEOUT_MS
from connector_tests.support.writing_job import FiledRows, WritingJob
from connector_tests.support.written_rows import stored_batches
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = [pytest.mark.sparks, pytest.mark.timeout(3600)]

VERSIONS: Final = ("4.0.5", "4.1.4", "4.2.0", "4.3.0")
HOPS: Final = ("4.0.5", "4.3.0", "4.1.4", "4.2.0")
INSIDE: Final = ("during the batch", "before commits/N")
"""The points that every Spark passes."""
EACH: Final = [pytest.param(version, marks=pytest.mark.xdist_group(version)) for version in VERSIONS]
"""Only one process makes the environment of a Spark."""
TABLE: Final = SPARKS.parent / "sparks.txt"
ROW_COUNT: Final = 8_000
WRITTEN_S: Final = PROCESS_S
SCENARIOS: Final = Path(__file__).with_name("test_versions.py")
SCENARIOS_S: Final = 3 * PROCESS_S
COLLECT_LEAVES_SOCKETS: Final = ("4.0.5", "4.1.4")
"""Their own ``DataFrame.collect`` leaves its socket to the garbage collector."""


@dataclass
class Figures:
    """By story and Spark. The table is rewritten with each."""

    cells: dict[str, dict[str, str]] = field(default_factory=dict)

    def note(self, scenario: str, version: str, text: str) -> None:
        self.cells.setdefault(scenario, {})[version] = text
        rows = [["", *VERSIONS], *([name, *(of.get(v, "-") for v in VERSIONS)] for name, of in self.cells.items())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        TABLE.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def figures() -> Figures:
    SPARKS.mkdir(parents=True, exist_ok=True)
    return Figures()


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with closing(ConnectionPool(REQUEST_TIMEOUT_MS)) as pool:
        yield pool


def compared(sent: list[str], read: list[str], lag: int) -> str:
    """Lost and twice are none, or the test fails."""
    lost, twice = len(set(sent) - set(read)), len(read) - len(set(read))
    text = f"{len(sent)}: lost {lost}, twice {twice}, lag {lag}"
    assert (lost, twice, lag) == (0, 0, 0), text
    return text


@pytest.mark.parametrize("version", EACH)
def test_a_query_that_is_killed_reads_each_message_once(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path, figures: Figures, version: str
) -> None:
    job = KilledJob(cluster, topic, group, tmp_path)
    job.python = python_of(version)
    with closing(Topic(cluster, topic)) as messages:
        with steady_messages(messages) as sent:
            for point in INSIDE:
                job.crash_at(point, 1, jvm_only=False)
        job.run_to_end()
        figures.note("killed twice", version, compared(sent, job.messages(), messages.lag(group)))


@pytest.mark.parametrize("version", EACH)
def test_core_scenarios(figures: Figures, version: str) -> None:
    """Start and restarts, times, filters, recreated topics, Java members, killed brokers; runs to the end; metrics."""
    python = python_of(version)
    scenarios = [f"{SCENARIOS}::{name}[5.5.0 default]" for name in vars(core_scenarios) if name.startswith("test_")]
    others = [str(SCENARIOS.with_name(name)) for name in ("test_available_now_runs.py", "test_metrics.py")]
    command = [str(python), "-m", "pytest", "-q", "-m", "versions or full", "-p", "no:cacheprovider"]
    if version in COLLECT_LEAVES_SOCKETS:
        command += ["-W", "ignore:unclosed <socket.socket:ResourceWarning"]
    run = subprocess.run(
        [*command, *scenarios, *others],
        cwd=SPARKS.parents[1],
        env=environment_of(python),
        capture_output=True,
        text=True,
        timeout=SCENARIOS_S,
        check=False,
    )
    (log := SPARKS / f"stories-{version}.log").write_text(run.stdout, encoding="utf-8")
    assert run.returncode == 0, f"see {log}: {run.stdout[-5000:]}"
    passed = int(re.findall(r"(\d+) passed", run.stdout)[-1])
    assert passed > len(scenarios)
    figures.note("core stories", version, f"{passed} passed")


@pytest.mark.parametrize("version", EACH)
def test_messages_that_are_shared_are_read_though_the_query_is_killed(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path, figures: Figures, version: str
) -> None:
    job = KilledJob(cluster, topic, group, tmp_path, "loadBalance=message", "invisibleDurationMs=30000")
    job.python = python_of(version)

    def read_again() -> set[str]:
        job.run_to_end()
        return set(job.messages())

    with closing(Topic(cluster, topic)) as messages:
        sent = messages.send_batches(2_000)
        job.crash_at(INSIDE[1], 1, jvm_only=False)
    eventually(lambda: read_again() >= set(sent), "every message in the sink")
    read = job.messages()
    figures.note("by message, killed", version, f"{len(sent)}: lost 0, twice {len(read) - len(set(read))}")


@pytest.mark.parametrize("version", EACH)
def test_rows_are_written_though_the_query_is_killed(
    cluster: EmbeddedCluster, topic: str, tmp_path: Path, pool: ConnectionPool, figures: Figures, version: str
) -> None:
    job = WritingJob(cluster.namesrv_addr, topic, FiledRows(ROW_COUNT), tmp_path / "job")
    job.python = python_of(version)
    job.request_stop_in(1)
    with job.started() as program:
        job.await_stopped_worker(1)
        assert kill_tree(program) == []
    with job.started() as program:
        assert program.wait(WRITTEN_S) == 0, job.log[-3000:]
    columns = [
        (batch["msgId"].to_pylist(), batch["body"].to_pylist()) for batch in stored_batches(cluster, topic, pool)
    ]
    ids = Counter(id_ for of_batch, _ in columns for id_ in of_batch)
    bodies = {int(body) for _, of_batch in columns for body in of_batch}
    assert bodies == set(range(ROW_COUNT))
    assert len(ids) == ROW_COUNT, "copies of a row share its id"
    figures.note("written, killed", version, f"{ROW_COUNT}: lost 0, copies {ids.total() - ROW_COUNT}")


@pytest.mark.xdist_group("all of them")
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
def test_a_query_that_hops_between_sparks_reads_each_message_once(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path, figures: Figures, kills: int
) -> None:
    """Killed at each of them, in the middle of a batch that is planned there and read again by the next."""
    job = KilledJob(cluster, topic, group, tmp_path)
    with closing(Topic(cluster, topic)) as messages:
        with steady_messages(messages) as sent:
            for number, version in enumerate(islice(cycle(HOPS), kills)):
                job.python = python_of(version)
                job.crash_at(INSIDE[number // len(HOPS) % 2], number % 2, jvm_only=False)
        job.python = python_of(HOPS[kills % len(HOPS)])
        job.run_to_end()
        text = compared(sent, job.messages(), messages.lag(group))
    for version in VERSIONS:
        figures.note(f"hop at each of {kills} kills", version, text)
