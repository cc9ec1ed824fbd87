"""How late the kernel may wake a process that sleeps: processes that wake a thousand times a second take less then.

Linux has it for each thread, and a new thread or process takes that of the one that starts it. On other systems
nothing changes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PR_SET_TIMERSLACK: Final = 29
SLACK_NS: Final = 10_000_000
"""By default 50 us. A broker looks each ms whether a message was stored that it can hand out: now within 11 ms."""
DEFAULT: Final = 0


@contextmanager
def lazy_timers() -> Iterator[None]:
    """A block in which this thread's timers, and those of the processes that it starts, end up to ``SLACK_NS`` late:
    several end together."""
    _set_slack_ns(SLACK_NS)
    try:
        yield
    finally:
        _set_slack_ns(DEFAULT)


def _set_slack_ns(slack_ns: int) -> None:
    if sys.platform == "linux":
        unused = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), unused, unused, unused)
