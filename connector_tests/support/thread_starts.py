"""A process that can start no thread, as Python 3.12 while it exits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

UNAVAILABLE_BYTES: Final = 2**46
"""Of a stack: no process has so much."""


@contextmanager
def starting_no_thread() -> Iterator[None]:
    """No thread of this process can be started in the block: ``Thread.start`` raises RuntimeError."""
    before_bytes = threading.stack_size(UNAVAILABLE_BYTES)
    try:
        yield
    finally:
        threading.stack_size(before_bytes)
