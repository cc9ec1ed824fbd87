from __future__ import annotations

import subprocess
import sys

import pytest

from connector_tests.support.timer_slack import SLACK_NS, late_timers

READ = "import ctypes; print(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0))"


def slack_of_a_child() -> int:
    return int(subprocess.run([sys.executable, "-c", READ], capture_output=True, check=True, text=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has timer slack")
def test_children_of_the_block_have_late_timers_and_later_ones_have_not() -> None:
    before = slack_of_a_child()
    with late_timers():
        assert slack_of_a_child() == SLACK_NS
    assert slack_of_a_child() == before
