"""The end of a source runner process: whatever signal comes when, the member leaves and its folder is removed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
TIMEOUT_S = PROCESS_S
RUNNER = """
import logging, os, shutil, signal, sys
from rocketmq_spark.errors import TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream import source_run
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.source_run import SourceRun

def end():
    os.kill(os.getpid(), signal.Signals[signal_name])

def terminated_before(step):
    def interrupted(*arguments, **named):
        end()
        step(*arguments, **named)
    return interrupted

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a suite below "nohup" ignores it
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
namesrv_addr, group, topic, moment, signal_name = sys.argv[1:]
run = SourceRun(ReadOptions.parse({"namesrvAddr": namesrv_addr, "consumerGroup": group, "subscribe": topic}))
run.latest_offset(SourceOffset(), None)
print(run.drain.control.folder, flush=True)
if moment == "before the stop":
    run.stop = terminated_before(run.stop)
elif moment in ("in a call", "between calls", "too long"):
    start = SourceOffset()
    if moment == "in a call":
        run.planner.latest_offset = terminated_before(run.planner.latest_offset)
    else:
        end()
    for _ in range(3):
        assert run.latest_offset(start, None) is start
    assert run.recover(start, []) == ()
    if moment == "too long":
        source_run.OUTLIVED_LIMIT_MS = 0
        try:
            run.latest_offset(start, None)
        except TransportError as error:
            print(error)
elif moment == "in the stop":
    shutil.rmtree = terminated_before(shutil.rmtree)
run.stop()
"""


MOMENTS = ("never", "before the stop", "in the stop", "in a call", "between calls", "too long")


@pytest.mark.parametrize(
    ("moment", "signal_name"),
    [
        *((moment, "SIGTERM") for moment in MOMENTS),
        *((moment, "SIGHUP") for moment in ("in the stop", "in a call", "between calls")),
    ],
)
def test_a_signal_at_any_moment_leaves_nothing(
    moment: str, signal_name: str, cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = (sys.executable, "-c", RUNNER, cluster.namesrv_addr, group, topic, moment, signal_name)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\n{tmp_path}" in done.stdout
    assert done.stdout.count(":GROUP_LEFT: Left the group\n") == 1
    assert list(tmp_path.iterdir()) == []
    printed = re.search(r"^\[ROCKETMQ_SOURCE_PROCESS_TERMINATED\] .*$", done.stdout, re.MULTILINE)
    assert (printed is not None) == (moment == "too long")
    if printed is not None:
        assert re.sub(r"\b[1-9]\d* ms ago", "N ms ago", printed[0]) == (
            f"[ROCKETMQ_SOURCE_PROCESS_TERMINATED] The source's Python process on {platform.node()} received "
            "SIGTERM or SIGHUP N ms ago and left the group, while Spark kept running. Restart the query: no data is "
            "lost. Check what terminates processes on that host."
        )
