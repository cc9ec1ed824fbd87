"""A source run whose parent may be killed: run as a program, see ``main``. The parent stands for Spark's JVM.

The child does what PySpark's source runner does, with a look at its parent for the socket that breaks with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from typing import Final

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.source_run import SourceRun

PARENT: Final = "parent"
CHILD: Final = "child"
IN_A_CALL: Final = "in a call"
BETWEEN_CALLS: Final = "between calls"


def be_parent(namesrv_addr: str, topic: str, group: str, place: str) -> None:
    subprocess.Popen([sys.executable, "-m", __name__, CHILD, namesrv_addr, topic, group, place])
    time.sleep(3600)


def be_source_runner(namesrv_addr: str, topic: str, group: str, place: str) -> None:
    """AvailableNow: when its own queues are read it waits, in one call, for the other members. ``BETWEEN_CALLS``
    something that is not ours holds it up before that."""
    given = {"namesrvAddr": namesrv_addr, "subscribe": topic, "consumerGroup": group, "startingOffsets": "earliest"}
    run = SourceRun(ReadOptions.parse({**given, "instanceName": str(os.getpid())}))
    try:
        run.planner.stop_at_current_end()
        offset = SourceOffset()
        parent = os.getppid()
        while os.getppid() == parent:
            offset = run.latest_offset(offset, None)
            if place == BETWEEN_CALLS:
                time.sleep(3600)
    finally:
        run.stop()


def main() -> None:
    {PARENT: be_parent, CHILD: be_source_runner}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    import_module("connector_tests.support.orphan").main()
