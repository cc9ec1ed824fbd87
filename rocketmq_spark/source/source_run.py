"""SourceRun: the life of a query in its source runner process, from the first call for an offset to the last breath.

PySpark 4.3 does not call ``stop()`` when a query stops: the JVM sends SIGTERM and goes on. And a JVM that dies
leaves the process behind as an orphan that would keep its queues: it notices when it next turns to its socket, but it
may be waiting inside a call for minutes. So the parent is watched. Both end the run here.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from rocketmq_spark.consumer.member import Member
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.batch_planner import BatchPlanner
from rocketmq_spark.source.graceful_stop import DrainRequest


class SourceRun:
    """A member that has joined, and the planner that works with it. Must be made on the process's main thread."""

    def __init__(self, options: ReadOptions) -> None:
        self._member = Member(options, ParentWatch().leave_as_orphan)
        self.drain = DrainRequest()
        self.planner = BatchPlanner(self._member, options, self.drain)
        unwind_on_sigterm()
        self._member.start()

    @property
    def client_id(self) -> str:
        return self._member.client_id

    def stop(self) -> None:
        self.drain.close()
        self._member.stop()


class ParentWatch:
    """The process that has started this one, the JVM, must live on."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def leave_as_orphan(self) -> None:
        """Without it, unwind as for ``query.stop()``. Threads: any; what unwinds is the main thread."""
        if os.getppid() != self._parent:
            os.kill(os.getpid(), signal.SIGTERM)


def unwind_on_sigterm() -> None:
    """Let SIGTERM unwind the main thread once, so that ``finally: reader.stop()`` of PySpark's runner is reached."""
    if threading.current_thread() is not threading.main_thread():
        return

    def leave(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
