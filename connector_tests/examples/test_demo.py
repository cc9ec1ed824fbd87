"""The demo's numbers add up, and it leaves nothing behind."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from connector_tests.examples.conftest import Run

LAST_LINE = re.compile(r"demo: produced=(\d+) read=(\d+) distinct=(\d+) duplicates=(\d+) lost=(\d+) group_lag=(\d+)")


def test_the_demo_counts_every_order_shows_queues_move_and_cleans_up(run: Run, tmp_path: Path) -> None:
    printed = run(sys.executable, "-m", "rocketmq_spark.cli.main", "demo", "--seconds", "8").splitlines()
    numbers = LAST_LINE.fullmatch(printed[-1])
    assert numbers is not None, printed[-1]
    produced, read, distinct, duplicates, lost, group_lag = map(int, numbers.groups())
    assert (distinct, lost, group_lag) == (produced, 0, 0)
    assert produced >= 800
    assert duplicates == read - distinct
    moves = [line for line in printed if " reads " in line]
    assert len(moves) >= 3, "alone, shared, and alone again"
    assert sum(line.count(" reads none") for line in moves) == 1
    assert any(re.match(r"\s+window\s+books\s+games\s+music", line) for line in printed)
    assert list(tmp_path.iterdir()) == []
