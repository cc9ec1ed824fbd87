"""How much address space this process takes: what a native library does not release shows there first.

Pages that nobody touched are not resident, and Python's own counters do not see what a library allocates by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

MIB = 1024 * 1024


@contextmanager
def address_space_stays(grows_at_most_bytes: int) -> Iterator[None]:
    """AssertionError if the block leaves the process with so much more. Run the code once before, so that pools and
    imports are there."""
    process = psutil.Process()
    before_bytes = process.memory_info().vms
    yield
    grown_bytes = process.memory_info().vms - before_bytes
    assert grown_bytes <= grows_at_most_bytes, f"the address space grew by {grown_bytes / MIB:.1f} MiB"
