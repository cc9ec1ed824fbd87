"""SourceRun: lifetime of a query in its source runner process, from the first call for an offset to the process's exit.

PySpark 4.3 does not call ``stop()`` when a query stops: the JVM sends SIGTERM and continues. A JVM that dies leaves the
process behind as an orphan that would keep its queues. It notices when it next uses its socket, but a call may block
for minutes. So the parent is watched. Both end the run here.

A signal may also be for the whole process group, as when a notebook's kernel is restarted or a terminal is closed
(SIGHUP). The JVM ends too then, but not at once, and it would show an error response as a failed query. So a run that
has ended keeps returning that there is nothing new, until Spark makes no more calls.
"""

from __future__ import annotations

import atexit
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, TypeVar

from rocketmq_spark.consumer.member import Member
from rocketmq_spark.diagnostics import set_log_context
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.source.data_loss import LostRange
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.graceful_stop import DrainRequest
from rocketmq_spark.source.stream.offsets import SourceOffset

T = TypeVar("T")

OUTLIVED_LIMIT_MS: Final = 30_000
"""Maximum time that Spark may call a run that was ended by a signal: the time for its shutdown hooks."""

OUTLIVED_PAUSE_S: Final = 0.2

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Sent by the JVM, and by a terminal that is closed."""


class Run:
    """Base of a query's run in its source runner process, which ends at a signal, at the exit of the process, or by
    ``stop``. Must be constructed on the process's main thread, which also makes all calls. Construction installs
    handlers of ending signals."""

    def __init__(self) -> None:
        self._is_unwindable = True
        self._ended_ms: int | None = None
        self._parent = ParentWatch()
        unwind_on_signals(self._handle_signal)

    def _start(self, join: Callable[[], None]) -> None:
        """Register ``stop`` for the exit of the process, then call ``join``. A signal before or during this call
        unwinds the main thread; one after it ends the run between two calls."""
        atexit.register(self.stop)
        join()
        self._is_unwindable = False

    def _call_unless_ended(self, call: Callable[[], T], if_ended: T) -> T:
        """Call ``call`` and return its result; once the run has ended, return ``if_ended`` without a call. A signal
        unwinds ``call``, ends the run, and makes this return ``if_ended``."""
        if self._ended_ms is None:
            self._is_unwindable = True
            try:
                return call()
            except SystemExit:
                self.stop()
            finally:
                self._is_unwindable = False
        return if_ended

    def _pause_if_ended(self) -> None:
        """Sleep for ``OUTLIVED_PAUSE_S`` if the run has ended. Raises TransportError[SOURCE_PROCESS_TERMINATED] if it
        ended more than ``OUTLIVED_LIMIT_MS`` ago."""
        if self._ended_ms is None:
            return
        if self._ended_for_ms > OUTLIVED_LIMIT_MS:
            raise TransportError("SOURCE_PROCESS_TERMINATED", host=platform.node(), ended_for_ms=self._ended_for_ms)
        time.sleep(OUTLIVED_PAUSE_S)

    @property
    def _ended_for_ms(self) -> int:
        """Return the time since the run ended; 0 while it runs."""
        return 0 if self._ended_ms is None else monotonic_ms() - self._ended_ms

    def _handle_signal(self) -> bool:
        """End the run at a signal if the main thread is between calls, when it holds no lock and awaits nothing. Return
        whether the process may live on. False: the signal must unwind the main thread, because a call is running, or
        because the parent has exited, so that Spark makes no more calls."""
        if not self._is_unwindable:
            self.stop()
        return not (self._is_unwindable or self._parent.has_exited)

    def stop(self) -> None:
        """Ignore further signals, and record the end of the run; then leave the group, close connections, and remove
        this run's files on this machine. May be called again."""
        ignore_signals()
        self._ended_ms = monotonic_ms() if self._ended_ms is None else self._ended_ms
        try:
            self._leave()
        finally:
            atexit.unregister(self.stop)

    def _leave(self) -> None:
        """Leave the group, close connections, and remove this run's files on this machine. Each kind of run defines
        it. ``stop`` calls it, and may call it again."""
        raise NotImplementedError


class SourceRun(Run):
    """Run of a query with queue-based load balancing: its group member and its planner. Construction installs signal
    handlers, creates the control folder and starts to join the group. ``control_before``: control folder of an earlier
    start of the query, if the progress still shows it. ``may_stop_without_call``: Spark may make no call for an offset
    at the end, as 4.0 and 4.1."""

    def __init__(
        self,
        options: ReadOptions,
        control_before: Control | None = None,
        *,
        checkpoint_id: str | None = None,
        may_stop_without_call: bool = False,
    ) -> None:
        super().__init__()
        leave_as_orphan, restores_resets = self._parent.leave_as_orphan, may_stop_without_call
        self.member = Member(options, leave_as_orphan, checkpoint_id=checkpoint_id, restores_resets=restores_resets)
        set_log_context(options.log_level, group=options.consumer_group, clientId=self.member.client_id)
        self.drain = DrainRequest(control_before)
        self.planner = BatchPlanner(self.member, options, self.drain, monotonic_ms)
        self._start(self.member.start)

    def latest_offset(self, start: SourceOffset, limit: int | None) -> SourceOffset:
        """Call ``BatchPlanner.latest_offset`` and return its result. Once a signal has ended the run, return ``start``
        after a pause of ``OUTLIVED_PAUSE_S``. Raises TransportError[SOURCE_PROCESS_TERMINATED] if Spark still calls
        after ``OUTLIVED_LIMIT_MS``."""
        self._pause_if_ended()
        return self._call_unless_ended(lambda: self.planner.latest_offset(start, limit), start)

    def recover(self, end: SourceOffset, required: Sequence[QueueRange]) -> tuple[LostRange, ...]:
        """Call ``BatchPlanner.recover`` and return its result; do nothing and return () once the run has ended."""
        return self._call_unless_ended(lambda: self.planner.recover(end, required), ())

    def _leave(self) -> None:
        """Leave the group and close connections, see ``Member.stop``; in any case remove the control folder."""
        try:
            self.member.stop()
        finally:
            self.drain.close()


class ParentWatch:
    """Watch on the parent process, the JVM that started this one."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    @property
    def has_exited(self) -> bool:
        return os.getppid() != self._parent

    def leave_as_orphan(self) -> None:
        """If the parent has exited, send SIGTERM to this process, which unwinds the main thread as ``query.stop()``
        does. Threads: any."""
        if self.has_exited:
            os.kill(os.getpid(), signal.SIGTERM)


def unwind_on_signals(is_handled: Callable[[], bool] = lambda: False) -> None:
    """Install a handler of ending signals. The first one raises SystemExit in the main thread, unless ``is_handled``
    returns True, so that ``finally: reader.stop()`` of PySpark's runner is reached. Later ones are ignored. Signals
    that are ignored already (``nohup``) stay ignored."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        """Ignore later signals, and raise SystemExit unless ``is_handled`` returns True."""
        ignore_signals()
        if not is_handled():
            raise SystemExit(0)

    _on_signals(leave)


def ignore_signals() -> None:
    """Ignore ending signals: the process is ending. The JVM closes the socket and sends SIGTERM twice, in any order."""
    _on_signals(signal.SIG_IGN)


def _on_signals(action: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Set the handler of ending signals, except of ignored ones. Do nothing outside the main thread."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, action)
