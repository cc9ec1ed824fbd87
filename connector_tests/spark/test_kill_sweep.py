"""Alone in its group, a query's idempotent sink holds each message exactly once: tested by killing things."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from connector_tests.support.crashing_job import POINTS
from connector_tests.support.process_tree import is_jvm, kill_tree, written_bodies
from connector_tests.support.streams import Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

REPOSITORY = Path(__file__).parents[2]
REACHED_WITHIN_S = 300


class Job:
    """A Spark driver in a process of its own, with everything that it starts."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, group: str, folder: Path, *more: str) -> None:
        self._arguments = (cluster.namesrv_addr, topic, group, str(folder))
        self._more = more
        self._folder = folder

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
            assert process.wait(300) == 0, self._log()

    def messages(self) -> list[str]:
        return written_bodies(self._folder)

    @contextmanager
    def _started(self, until_end: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        command = [
            sys.executable,
            "-m",
            "connector_tests.support.crashing_job",
            *self._arguments,
            until_end,
            *self._more,
        ]
        settings = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self._folder)}
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **settings, **environment}, stdout=log, stderr=log, cwd=self._folder
            )
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


def sweep(cluster: EmbeddedCluster, topic: str, group: str, folder: Path, crashes: list[tuple[str, int, bool]]) -> None:
    job = Job(cluster, topic, group, folder)
    with closing(Topic(cluster, topic)) as messages:
        with steady_messages(messages) as sent:
            for point, passes, jvm_only in crashes:
                if point in POINTS:
                    job.crash_at(point, passes, jvm_only=jvm_only)
                else:
                    job.crash_after(8 + passes)
        job.run_to_end()
        lag = messages.lag(group)
    read = job.messages()
    assert set(read) == set(sent), f"lost {len(set(sent) - set(read))} of {len(sent)}"
    assert len(read) == len(sent), f"{len(read) - len(set(read))} read twice"
    assert lag == 0


SHORT_FORM = [("during the batch", 1, True)]
EACH_POINT = [(point, number % 2, point == "during the batch") for number, point in enumerate(POINTS)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "crashes",
    [pytest.param(SHORT_FORM, id="short"), pytest.param(EACH_POINT, id="each-point", marks=pytest.mark.long)],
)
def test_killed_at_named_points_every_message_is_in_the_sink_once(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path, crashes: list[tuple[str, int, bool]]
) -> None:
    sweep(cluster, topic, group, tmp_path, crashes)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_sixty_times_every_message_is_in_the_sink_once(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path
) -> None:
    chance = random.Random(1)
    places = [*POINTS, "anywhere"]
    crashes = [(places[n % len(places)], chance.randrange(3), chance.random() < 0.2) for n in range(60)]
    sweep(cluster, topic, group, tmp_path, crashes)


@pytest.mark.timeout(600)
def test_killed_between_log_and_commit_who_shares_messages_loses_nothing(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path
) -> None:
    """With what was in no batch when it was killed, which comes again when it is not invisible any more."""
    job = Job(cluster, topic, group, tmp_path, "loadBalance=message", "invisibleDurationMs=30000")
    with closing(Topic(cluster, topic)) as messages:
        sent = messages.send_batches(3_000)
        for point, passes in (("during the batch", 1), ("before commits/N", 1)):
            job.crash_at(point, passes, jvm_only=False)
    eventually(lambda: run_again(job) >= set(sent), "every message in the sink")
    assert set(job.messages()) == set(sent)


def run_again(job: Job) -> set[str]:
    job.run_to_end()
    return set(job.messages())
