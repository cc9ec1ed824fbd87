"""The clock that deadlines are measured with. A test passes its own."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def monotonic_ms() -> int:
    """Milliseconds that never go back; they stand still while the machine sleeps, so they are no clock for leases."""
    return time.monotonic_ns() // 1_000_000
