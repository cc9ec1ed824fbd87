"""Who was killed leaves folders; the next one removes them, and no other client's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.jvm_options import rocketmq_environment
from connector_tests.support.process_tree import has_ended
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.embedded.work_folder import OWNER_FILE, work_folder

pytestmark = pytest.mark.full

OWNER = """
import sys, time
from rocketmq_spark.embedded.work_folder import work_folder
with work_folder("test") as work:
    (work.path / "deep").mkdir()
    (work.path / "deep" / "data").touch()
    print(work.path, flush=True)
    time.sleep(600)
"""
OWNER_WITH_A_CHILD = """
import subprocess, sys, time
from rocketmq_spark.embedded.work_folder import work_folder
with work_folder("test") as work:
    child = subprocess.Popen(["sleep", "600"], pass_fds=[work.owner])
    print(work.path, child.pid, flush=True)
    time.sleep(600)
"""
CLUSTER = """
import sys, time
from rocketmq_spark.embedded import EmbeddedCluster
with EmbeddedCluster(separate_jvms=True) as cluster:
    cluster.pause_broker()
    print(cluster.store_dir().parents[1], flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, of this process and of those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@contextmanager
def running(script: str, environ: Mapping[str, str] = os.environ) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A Python that runs ``script``, and the words of the first line that it states."""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=dict(environ))
    with process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def test_what_a_killed_process_left_is_removed_by_the_next(temp: Path) -> None:
    with running(OWNER) as (owner, (left,)):
        owner.send_signal(signal.SIGKILL)
    assert (Path(left) / "deep" / "data").exists()
    with work_folder("test") as work:
        assert list(temp.iterdir()) == [work.path]
    assert list(temp.iterdir()) == []


def test_a_living_owner_keeps_its_folder_though_it_stands_still(temp: Path) -> None:
    with running(OWNER) as (owner, (kept,)):
        owner.send_signal(signal.SIGSTOP)
        with work_folder("test"):
            assert (Path(kept) / "deep" / "data").exists()


def test_a_child_that_outlives_its_owner_keeps_the_folder(temp: Path) -> None:
    with running(OWNER_WITH_A_CHILD) as (owner, (kept, pid)):
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        child = psutil.Process(int(pid))
        with work_folder("test"):
            assert Path(kept).exists()
        child.kill()
        child.wait(WAIT_S)
        with work_folder("test"):
            assert not Path(kept).exists()


def test_what_is_not_known_to_be_abandoned_stays(temp: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / OWNER_FILE).touch()
    (temp / "rocketmq-test-link").symlink_to(elsewhere)
    (temp / "rocketmq-test-without-owner").mkdir()
    (temp / "rocketmq-other-purpose").mkdir()
    (temp / "rocketmq-other-purpose" / OWNER_FILE).touch()
    (temp / "rocketmq-test-file").touch()
    before = set(temp.iterdir())
    with work_folder("test"):
        pass
    assert set(temp.iterdir()) == before
    assert (elsewhere / OWNER_FILE).exists()


@pytest.mark.broker
def test_the_next_cluster_removes_a_killed_one_and_leaves_a_living_one_alone(temp: Path) -> None:
    """The killed one's JVMs die with their Python, also the paused one: the kernel wakes the stopped members of an
    orphaned group. A living one whose JVM was killed removes its folder itself."""
    with running(CLUSTER, rocketmq_environment()) as (python, (left,)):
        jvms = psutil.Process(python.pid).children()
        assert sorted(jvm.status() for jvm in jvms) == [psutil.STATUS_SLEEPING, psutil.STATUS_STOPPED]
        python.send_signal(signal.SIGKILL)
        python.wait()
    _, left_over = psutil.wait_procs(jvms, WAIT_S)
    assert all(has_ended(jvm) for jvm in left_over)
    assert (Path(left) / "stores" / "broker-a" / "commitlog").is_dir()
    with RestingCluster() as living:
        folder = living.store_dir().parents[1]
        assert set(temp.glob("rocketmq-*")) == {folder}
        assert folder.name.startswith("rocketmq-embedded-"), "as the next one's is"
        with work_folder("embedded") as of_next_one:
            assert set(temp.glob("rocketmq-*")) == {folder, of_next_one.path}
            living.create_topic("still-there")
        jvm = next(child for child in psutil.Process().children() if str(folder) in " ".join(child.cmdline()))
        jvm.kill()
        jvm.wait(WAIT_S)
    assert list(temp.glob("rocketmq-*")) == []
