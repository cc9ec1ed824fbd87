"""SourceRun: the life of a query in its source runner process, from the first call for an offset to the last breath.

PySpark 4.3 does not call ``stop()`` when a query stops: the JVM sends SIGTERM and goes on. And a JVM that dies
leaves the process behind as an orphan that would keep its queues: it notices when it next turns to its socket, but it
may be waiting inside a call for minutes. So the parent is watched. Both end the run here.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from rocketmq_spark.consumer.member import Member
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.waits import Wait
from rocketmq_spark.source.log_lines import speak_as
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.graceful_stop import DrainRequest


class SourceRun:
    """A member that has joined, and the planner that works with it. Must be made on the process's main thread."""

    def __init__(self, options: ReadOptions) -> None:
        unwind_on_sigterm()
        self._member = Member(options, ParentWatch().leave_as_orphan)
        speak_as(options.log_level, group=options.consumer_group, clientId=self._member.client_id)
        self.drain = DrainRequest()
        self.planner = BatchPlanner(self._member, options, self.drain, monotonic_ms)
        # For a signal that comes on the way to ``stop``, or in it.
        atexit.register(self.stop)
        self._member.start()

    @property
    def client_id(self) -> str:
        return self._member.client_id

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What is waited for now, by ``monotonic_ms``."""
        return self._member.waits

    def stop(self) -> None:
        """Leave the group and remove what is ours on this machine. May be called again."""
        ignore_sigterm()
        try:
            self._member.stop()
        finally:
            self.drain.close()
            atexit.unregister(self.stop)


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

    def leave(_signal: int, _frame: FrameType | None) -> None:
        ignore_sigterm()
        raise SystemExit(0)

    _on_sigterm(leave)


def ignore_sigterm() -> None:
    """The process is ending already. The JVM closes our socket and sends the signal, in either order, and twice."""
    _on_sigterm(signal.SIG_IGN)


def _on_sigterm(action: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, action)
