"""The demo's numbers add up, and it leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from connector_tests.examples.conftest import Run, up_to
from connector_tests.support.patience import PROCESS_S
from connector_tests.support.process_tree import kill_tree

pytestmark = pytest.mark.full

LAST_LINE = re.compile(
    r"demo: produced=(\d+) read=(\d+) distinct=(\d+) duplicates=(\d+) lost=(\d+) group_lag=(\d+)"
    r" written=(\d+) invoices=(\d+) unbilled=(\d+)"
)


def assert_numbers_add_up(last_line: str, at_least: int) -> None:
    """``at_least`` orders were produced; each was counted and billed, and copies of an invoice have one id."""
    numbers = LAST_LINE.fullmatch(last_line)
    assert numbers is not None, last_line
    produced, read, distinct, duplicates, lost, group_lag, written, invoices, unbilled = map(int, numbers.groups())
    assert (distinct, lost, group_lag) == (produced, 0, 0)
    assert produced >= at_least
    assert duplicates == read - distinct
    assert (invoices, unbilled) == (produced, 0)
    assert written >= invoices


def assert_members_shared_messages(printed: list[str]) -> None:
    shares = [line for line in printed if " receives, " in line]
    assert [line.count(" receives, ") for line in shares] == [1, 2, 1], "alone, shared, and alone again"
    assert any(
        re.search(r" second +batch .* received +\d+ +waiting +\d+ +acknowledged +\d+ ", line) for line in printed
    )


def test_the_demo_counts_and_bills_every_order_shows_queues_move_and_cleans_up(run: Run, tmp_path: Path) -> None:
    printed = run(sys.executable, "-m", "rocketmq_spark.cli.main", "demo", "--seconds", "8").splitlines()
    assert_numbers_add_up(printed[-1], at_least=800)
    moves = [line for line in printed if " reads " in line]
    assert len(moves) >= 3, "alone, shared, and alone again"
    assert sum(line.count(" reads none") for line in moves) == 1
    assert any(re.match(r"\s+window\s+books\s+games\s+music", line) for line in printed)
    assert any(re.search(r" billing +batch +\d+ +[1-9]\d* rows .* written$", line) for line in printed)
    assert list(tmp_path.iterdir()) == []


def test_members_of_the_demo_share_the_messages_of_one_queue(run: Run, tmp_path: Path) -> None:
    command = ("demo", "--seconds", "8", "--load-balance", "message")
    printed = run(sys.executable, "-m", "rocketmq_spark.cli.main", *command).splitlines()
    assert_numbers_add_up(printed[-1], at_least=800)
    assert_members_shared_messages(printed)
    assert list(tmp_path.iterdir()) == []


def test_members_of_the_demo_share_messages_through_a_proxy(run: Run, tmp_path: Path) -> None:
    command = ("demo", "--seconds", "4", "--rate", "20", "--load-balance", "message", "--proxy")
    printed = run(sys.executable, "-m", "rocketmq_spark.cli.main", *command).splitlines()
    assert_numbers_add_up(printed[-1], at_least=80)
    assert_members_shared_messages(printed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_broker_that_dies_under_the_demo_is_what_the_demo_says(tmp_path: Path, environment: dict[str, str]) -> None:
    """It used to say that nobody answers at some port."""
    command = [sys.executable, "-u", "-m", "rocketmq_spark.cli.main", "demo", "--seconds", "600"]
    with subprocess.Popen(
        command, env=environment, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True
    ) as demo:
        try:
            assert demo.stdout is not None
            assert "orders come in" in "".join(up_to("orders come in", demo.stdout))
            children = psutil.Process(demo.pid).children()
            (broker,) = (child for child in children if "py4j.GatewayServer" in child.cmdline())
            broker.kill()
            _, said = demo.communicate(timeout=PROCESS_S)
        finally:
            kill_tree(demo)
    assert demo.returncode == 1
    assert "[ROCKETMQ_JVM_FAILED] The embedded broker's JVM failed: Java was ended by SIGKILL" in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
