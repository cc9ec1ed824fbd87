"""A standalone cluster: what an executor that is killed was reading is read by another one, and each message once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from connector_tests.support.process_tree import is_jvm, kill_tree, written_bodies
from connector_tests.support.spark_daemons import WORKER_COUNT, spark_environment, standalone_cluster
from connector_tests.support.standalone_job import OFFSETS_PER_BATCH
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone_cluster(tmp_path / "spark") as master:
        yield master


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the job."""
    folder = tmp_path / "job"
    (folder / "held").mkdir(parents=True)
    return folder


@contextmanager
def running_job(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    folder = Path(arguments[-1])
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "connector_tests.support.standalone_job", *arguments],
            env=spark_environment(folder),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    except AssertionError as failure:
        failure.add_note((folder / "log").read_text(errors="replace")[-5000:])
        raise
    finally:
        kill_tree(process)


def executor_of(pid: int) -> psutil.Process:
    """The JVM whose Python worker this is."""
    return next(filter(is_jvm, psutil.Process(pid).parents()))


def held_executors(folder: Path) -> set[psutil.Process]:
    return {executor_of(int(file.name)) for file in (folder / "held").iterdir()}


def test_an_executor_killed_in_mid_batch_costs_no_message_and_repeats_none(
    cluster: EmbeddedCluster, messages: Topic, group: str, master: str, folder: Path
) -> None:
    sent = sorted(messages.send_batches(3 * OFFSETS_PER_BATCH))
    with running_job(master, cluster.namesrv_addr, messages.name, group, str(folder)) as job:
        eventually(lambda: job.poll() is not None or len(held_executors(folder)) == WORKER_COUNT, "tasks of a batch")
        assert job.poll() is None, "it ended before"
        victim, *_ = held_executors(folder)
        victim.send_signal(signal.SIGKILL)
        eventually(lambda: not is_jvm(victim), "the executor gone")
        (folder / "hold").unlink()
        assert job.wait(PROCESS_S) == 0
    assert (folder / "retried").exists(), "the executor had read nothing that was lost with it"
    assert sorted(written_bodies(folder)) == sent
    assert messages.lag(group) == 0
    assert sorted(json.loads((folder / "batch.json").read_text(encoding="utf-8"))) == sent
