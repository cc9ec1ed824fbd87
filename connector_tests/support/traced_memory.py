"""Python's own count of memory (``tracemalloc``), which includes what other threads of the process allocate."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Final

CALLS: Final = 3


def least_peak_bytes(call: Callable[[], object]) -> int:
    """Call it three times, and return the smallest of the peaks: threads that an earlier test left, and modules that
    the first call imports, raise one of them."""
    return min(_peak_bytes(call) for _ in range(CALLS))


def _peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
