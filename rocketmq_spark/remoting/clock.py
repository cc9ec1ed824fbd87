"""Clock for deadlines. Tests pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def monotonic_ms() -> int:
    """Return monotonic milliseconds. The clock stops while the machine sleeps, so it does not suit leases."""
    return time.monotonic_ns() // 1_000_000
