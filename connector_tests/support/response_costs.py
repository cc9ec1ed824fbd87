"""What it costs to read a response: memory and time, which must stay within what was sent, and errors of ours.

Python's own counter (``tracemalloc``) is exact, slow, and blind to what libraries allocate: protobuf, gRPC, Arrow and
the native decoder. The resident size sees all of it; memory that is free before the block and used again in it is not
seen, so free memory is released first.
"""

from __future__ import annotations

import ctypes
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from connector_tests.support.address_space import MIB
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.wire.bounds import DECOMPRESSED_BYTES

LEAST_BYTES: Final = 96 * MIB
"""What the smallest response may make its reader take: a route of 65,536 queues, with two tables of them."""
FACTOR: Final = 64
"""And on top, for each byte that was sent: an entry of two bytes of protobuf takes some 33 bytes for each, a value of
JSON some 30."""
LONGEST_S: Final = 10.0 * TIMEOUT_FACTOR
LONGEST_CHARACTERS: Final = 5_000
"""Of an error, of which a log line and a Spark event have the whole text."""
TRACED: Final = 10
"""So much longer it may take while memory is traced."""
ROWS_BYTES: Final = 4 * DECOMPRESSED_BYTES.maximum
"""What rows may take beyond their messages: decompressed bodies, of one batch and of the next one, each for Python and
for Arrow."""
LARGE_BYTES: Final = MIB
"""A response of which the memory is counted by the byte: what the smallest one takes hardly matters."""

_SELF: Final = Path("/proc/self")
_SEES_RESIDENT: Final = (_SELF / "clear_refs").exists() and "VmHWM" in (_SELF / "status").read_text()


class Cost(NamedTuple):
    """Of one block."""

    sent_bytes: int
    used_bytes: int


COSTS: Final[list[Cost]] = []
"""Of the blocks of a test, which clears it first."""


def figure() -> str:
    """The largest of ``COSTS``, as text."""
    small = max((one.used_bytes for one in COSTS if one.sent_bytes < LARGE_BYTES), default=0)
    each = max((one.used_bytes / one.sent_bytes for one in COSTS if one.sent_bytes >= LARGE_BYTES), default=0.0)
    return f"less than 1 MiB: at most {small / MIB:.1f} MiB; others: at most {each:.1f} bytes for each byte"


@contextmanager
def bounded(sent_bytes: int, *, is_traced: bool = True, more_bytes: int = 0) -> Iterator[None]:
    """AssertionError where the block takes more memory or time than ``sent_bytes`` justify, or raises what is not ours.

    ``is_traced``: memory by Python's counter, else by the resident size. ``more_bytes``: what it may take on top.
    """
    before_bytes = 0
    if is_traced:
        tracemalloc.start()
    else:
        before_bytes = _begin_resident()
    begin_s = time.process_time()
    try:
        yield
    except RocketMQError as error:
        check_error(error)
    finally:
        used_s = time.process_time() - begin_s
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if not is_traced:
        peak_bytes = _resident("VmHWM") - before_bytes
    COSTS.append(Cost(sent_bytes, peak_bytes))
    assert peak_bytes < LEAST_BYTES + FACTOR * sent_bytes + more_bytes
    assert used_s < LONGEST_S * (TRACED if is_traced else 1)


def check_error(error: RocketMQError) -> None:
    """AssertionError for an error of several lines, or a long one."""
    assert one_line(str(error)) == str(error)
    assert len(str(error)) < LONGEST_CHARACTERS


def _begin_resident() -> int:
    """Release free memory, let the peak begin anew, and return the resident size in bytes."""
    pa.default_memory_pool().release_unused()
    if _SEES_RESIDENT:
        ctypes.CDLL(None).malloc_trim(0)
        (_SELF / "clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(name: str) -> int:
    """Bytes, by name in the process's status; 0 on a system without."""
    if not _SEES_RESIDENT:
        return 0
    lines = (_SELF / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
