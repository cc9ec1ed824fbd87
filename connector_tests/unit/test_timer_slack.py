"""Children that start in the block are woken late; this process is not, afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from connector_tests.support.timer_slack import SLACK_NS, lazy_timers

OWN: Final = Path("/proc/self/timerslack_ns")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has it")


def slack_of_a_child_ns() -> int:
    return int(subprocess.run(["cat", OWN], capture_output=True, text=True, check=True).stdout)


def test_children_of_the_block_are_woken_late_and_others_are_not() -> None:
    before_ns = int(OWN.read_text())
    with lazy_timers():
        assert slack_of_a_child_ns() == SLACK_NS
    assert slack_of_a_child_ns() == int(OWN.read_text()) == before_ns
    assert before_ns < SLACK_NS
