"""Threads of message mode that end by themselves: ``Workers``, of each name one at a time; ``RunningThreads``, of one
name any number."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

PREFIX: Final = "rocketmq-pop-"


class Workers:
    """Worker threads of one receiver, at most one at a time of each name. ``fail``: called with what a worker raises.

    Threads: any. ``changed`` guards the set of workers, and is notified when one ends.
    """

    def __init__(self, changed: threading.Condition, fail: Callable[[Exception], None]) -> None:
        self._changed = changed
        self._fail = fail
        self._busy: dict[str, threading.Thread] = {}

    @property
    def busy(self) -> set[str]:
        """Return the names of the running workers."""
        with self._changed:
            return set(self._busy)

    def start(self, name: str, do: Callable[[], None]) -> None:
        """Run ``do`` on a daemon thread ``rocketmq-pop-<name>``, and do not wait. Do nothing if a worker of this name
        runs. If no thread can be started, as while Python 3.12 exits, run ``do`` on the calling thread."""
        thread = threading.Thread(target=self._work, args=(name, do), name=f"{PREFIX}{name}", daemon=True)
        this_thread = threading.current_thread()
        with self._changed:
            if self._busy.setdefault(name, thread) is not thread:
                return
            try:
                thread.start()  # before another thread can join it
            except RuntimeError:
                self._busy[name] = this_thread
            else:
                return
        self._work(name, do)

    def _work(self, name: str, do: Callable[[], None]) -> None:
        """Run ``do``; log an exception and pass it to ``fail``, which fails the query. Then, in any case, remove this
        worker, so that ``start`` may start one of its name again, and notify ``changed``."""
        try:
            do()
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread %s%s; the query fails. Report it.", PREFIX, name)
            self._fail(error)
        finally:
            with self._changed:
                self._busy.pop(name)
                self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait for each worker that runs now until it has ended, at most ``timeout_s`` seconds for each; raise
        nothing."""
        with self._changed:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(timeout_s)


class RunningThreads:
    """Daemon threads of one name, of which any number runs at once.

    Threads: any. ``_lock`` guards the list of threads, and is held until a thread that is started runs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._running: list[threading.Thread] = []

    def start(self, do: Callable[[], object]) -> None:
        """Run ``do`` on a new thread, and do not wait. Raises RuntimeError if no thread can be started."""
        thread = threading.Thread(target=do, name=self._name, daemon=True)
        with self._lock:
            thread.start()  # before another thread can join it
            self._running = [*(one for one in self._running if one.is_alive()), thread]

    def join(self, timeout_s: float) -> None:
        """Wait for each thread that runs now until it has ended, at most ``timeout_s`` seconds for each; raise
        nothing."""
        with self._lock:
            threads = list(self._running)
        for thread in threads:
            thread.join(timeout_s)
