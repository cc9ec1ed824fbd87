"""The demo's numbers add up, and it leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from connector_tests.examples.conftest import Run, up_to
from connector_tests.support.process_tree import kill_tree
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PROCESS_S

pytestmark = pytest.mark.full

PLAYERS = ("first", "second")
PRODUCTS = ["books", "games", "music"]
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


def readers_by_act(printed: list[str]) -> list[set[str]]:
    """Which members have read orders alone, after the second has joined, and after it has left."""
    text = "\n".join(printed)
    acts = re.split("orders come in|a second query has joined the group|the second query has left|no more orders", text)
    return [set(re.findall(r" (first|second) +batch +\d+ +[1-9]\d* rows ", act)) for act in acts[1:4]]


def assert_left_empty(folder: Path) -> None:
    """A source process may end, and remove its folder, after the program that started it."""
    eventually(lambda: not list(folder.iterdir()), f"nothing in {folder}")


ALONE_SHARED_AND_ALONE = [{"first"}, {"first", "second"}, {"first"}]


def test_the_demo_counts_and_bills_every_order_shows_queues_move_and_cleans_up(run: Run, tmp_path: Path) -> None:
    printed = run(sys.executable, "-m", "rocketmq_spark.cli.main", "demo", "--seconds", "4").splitlines()
    assert_numbers_add_up(printed[-1], at_least=400)
    assert readers_by_act(printed) == ALONE_SHARED_AND_ALONE
    moves = re.findall(r" (first|second) +batch .* queues (\S+)$", "\n".join(printed), re.MULTILINE)
    first, second = ([queues for queues, _ in groupby(q for name, q in moves if name == one)] for one in PLAYERS)
    assert [len(queues.split(",")) for queues in (*first, *second)] == [4, 2, 4, 2]
    assert sorted(f"{first[1]},{second[0]}".split(",")) == first[0].split(",")
    assert any(re.search(r" billing +batch +\d+ +[1-9]\d* rows ", line) for line in printed)
    assert re.findall(r"^\| *(\w+)\| *\d+\|$", "\n".join(printed), re.MULTILINE) == PRODUCTS
    assert_left_empty(tmp_path)


def test_members_of_the_demo_share_messages_through_a_proxy(run: Run, tmp_path: Path) -> None:
    command = ("demo", "--seconds", "4", "--rate", "20", "--load-balance", "message", "--proxy")
    printed = run(sys.executable, "-m", "rocketmq_spark.cli.main", *command).splitlines()
    assert_numbers_add_up(printed[-1], at_least=80)
    assert readers_by_act(printed) == ALONE_SHARED_AND_ALONE
    counts = r" second +batch .* received +[1-9]\d* +prefetched +\d+ +acknowledged +\d+ +expired +\d+$"
    assert any(re.search(counts, line) for line in printed)
    assert_left_empty(tmp_path)


def test_a_demo_without_a_proxy_reports_that_its_broker_died(tmp_path: Path, environment: dict[str, str]) -> None:
    """It used to report that nothing answers at some port. Orders come in once all queries share messages there."""
    demo_of_messages = ("demo", "--seconds", "600", "--load-balance", "message")
    command = [sys.executable, "-u", "-m", "rocketmq_spark.cli.main", *demo_of_messages]
    with subprocess.Popen(
        command, env=environment, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True
    ) as demo:
        try:
            assert demo.stdout is not None
            assert "orders come in" in "".join(up_to("orders come in", demo.stdout))
            children = psutil.Process(demo.pid).children()
            (broker,) = (child for child in children if "py4j.GatewayServer" in child.cmdline())
            broker.kill()
            _, output_text = demo.communicate(timeout=PROCESS_S)
        finally:
            kill_tree(demo)
    assert demo.returncode == 1
    assert "[ROCKETMQ_EMBEDDED_JVM_FAILED] The embedded broker's JVM failed: Java was ended by SIGKILL" in output_text
    assert "Traceback" not in output_text
    assert_left_empty(tmp_path)
