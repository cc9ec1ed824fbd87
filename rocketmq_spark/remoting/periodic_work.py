"""PeriodicWork: tasks of one thread, each repeated at its own interval. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Task = Callable[[], object]


class PeriodicWork:
    """Tasks and their intervals (ms), in the order in which due ones run. All are due at the start.

    Threads: one thread calls ``run_due``, any thread the other methods.
    """

    def __init__(self, intervals_ms: Mapping[Task, int], clock: Callable[[], int]) -> None:
        self._intervals_ms = intervals_ms
        self._clock = clock
        self._due_ms = dict.fromkeys(intervals_ms, 0)

    @property
    def next_due_ms(self) -> int:
        """Return the time, by the clock, at which the next task is due; a past time if one is due now."""
        return min(self._due_ms.values())

    def make_due(self, task: Task) -> None:
        """Make one of the tasks due now. The caller wakes the thread."""
        self._due_ms[task] = 0

    def run_due(self) -> None:
        """Call each due task, which is due again one interval after the begin of the call. Raises what a task raises;
        later tasks then do not run."""
        for task, interval_ms in self._intervals_ms.items():
            now_ms = self._clock()
            if now_ms >= self._due_ms[task]:
                self._due_ms[task] = now_ms + interval_ms
                task()
