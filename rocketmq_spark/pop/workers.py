"""Workers: threads for what may take long, each of which there is once at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

PREFIX: Final = "rocketmq-pop-"


class Workers:
    """``fail`` is told what a worker raises.

    Threads: any. ``news`` covers who works, and is notified when somebody has ended.
    """

    def __init__(self, news: threading.Condition, fail: Callable[[Exception], None]) -> None:
        self._news = news
        self._fail = fail
        self._busy: dict[str, threading.Thread] = {}

    @property
    def busy(self) -> set[str]:
        """Who works just now."""
        with self._news:
            return set(self._busy)

    def begin(self, name: str, do: Callable[[], None]) -> None:
        """Have it done by a thread of this name, unless there is one."""
        thread = threading.Thread(target=self._work, args=(name, do), name=f"{PREFIX}{name}", daemon=True)
        with self._news:
            if self._busy.setdefault(name, thread) is thread:
                thread.start()  # before anybody can wait for it

    def _work(self, name: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            log.exception("the thread %s%s failed", PREFIX, name)
            self._fail(error)
        finally:
            with self._news:
                self._busy.pop(name)
                self._news.notify_all()

    def join(self, timeout_s: float) -> None:
        """Until nobody works; each has so long at most."""
        with self._news:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(timeout_s)
