"""Looking at something again and again while something else runs."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Sampler:
    """Looks at the beginning of each interval but the first, on a thread of its own, until it is stopped."""

    def __init__(self, sample: Callable[[], None], interval_s: float) -> None:
        self._sample = sample
        self._interval_s = interval_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No look is under way any more when it returns."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._interval_s):
            self._sample()
