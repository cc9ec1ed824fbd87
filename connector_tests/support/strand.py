"""Strands: code that runs in threads, of which only one moves at a time, and only as far as it is let.

Code that may be interrupted calls ``point(name)`` before each thing that others could see. Outside of a strand a point
is nothing. So the same code can be called directly, or be stopped, interleaved with others, and killed at any point.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Final

ENDLESS: Final = 2_000
"""More points than any piece of work has."""


class Killed(BaseException):
    """Unwinds a strand whose process is no more. Nothing catches it but the strand."""


class Strand:
    """Work that has not begun; ``run`` lets it go on for a number of points.

    ``at`` is the point at which it stands: it is about to do what the point names. What it raises (``error``), ``run``
    raises.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self.at = "the beginning"
        self.is_done = False
        self.error: BaseException | None = None
        self._work = work
        self._stops: Collection[str] = ()
        self._points_left = 0
        self._unwinding: BaseException | None = None
        self._may_run = _acquired_lock()
        self._has_run = _acquired_lock()
        self._thread = threading.Thread(target=self._live, name="strand", daemon=True)
        self._thread.start()

    def run(self, points: int = ENDLESS, stops: Collection[str] = ()) -> bool:
        """Continue for ``points``, or to the next point whose name begins with one of ``stops``. Return whether work is
        left; raise the error with which the work ends. False, with no effect, once it is done."""
        if self.is_done:
            return False
        self._points_left, self._stops = points, stops
        self._may_run.release()
        self._has_run.acquire()
        if self.error is not None:
            raise self.error
        return not self.is_done

    def unwind(self, with_what: BaseException) -> None:
        """Raise ``with_what`` at the point where the strand stands, when it is run next; Killed at each later point,
        too."""
        self._unwinding = with_what

    def pause(self, name: str, *, is_blocked: bool) -> None:
        self._unwind_here()
        self.at = name
        self._points_left -= 1
        if is_blocked or self._points_left <= 0 or any(name.startswith(stop) for stop in self._stops):
            self._has_run.release()
            self._may_run.acquire()
            self._unwind_here()

    def _unwind_here(self) -> None:
        unwinding = self._unwinding
        if unwinding is None:
            return
        if not isinstance(unwinding, Killed):
            self._unwinding = None
        raise unwinding

    def _live(self) -> None:
        self._may_run.acquire()
        _here.strand = self
        try:
            if not isinstance(self._unwinding, Killed):
                self._work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  # raised again where the strand is run
            self.error = error
        self.is_done = True
        self.at = "the end"
        self._has_run.release()


def _acquired_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Here(threading.local):
    strand: Strand | None = None


_here = _Here()


def point(name: str, *, is_blocked: bool = False) -> None:
    """Pause the strand that runs before what ``name`` names, if its points are used up or ``name`` is a stop;
    ``is_blocked``: always. Outside of a strand do nothing, or with ``is_blocked`` raise RuntimeError."""
    strand = _here.strand
    if strand is not None:
        strand.pause(name, is_blocked=is_blocked)
    elif is_blocked:
        raise RuntimeError(f"{name} waits for a strand that nobody runs")


def current() -> Strand | None:
    """Return the strand that this code runs in; None outside of one."""
    return _here.strand
