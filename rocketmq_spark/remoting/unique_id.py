"""Message IDs that a producer generates before it sends a message: the property UNIQ_KEY."""

from __future__ import annotations

import os
import secrets
import struct
import time
from collections.abc import Callable
from itertools import count
from typing import Final

_LAYOUT: Final = struct.Struct(">4sHIIH")


class UniqueIds:
    """Generator of IDs of 32 upper-case hex digits: 4 random bytes, process, 4 random bytes, milliseconds of the month,
    counter.

    ``mqadmin queryMsgByUniqueKey`` starts its search at that time. ``unix_ms`` is the wall clock.
    Source: ``common/message/MessageClientIDSetter.java``; differs: random bytes replace IP address and class loader.
    """

    def __init__(self, unix_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._unix_ms = unix_ms
        self._counter = count(secrets.randbits(16))
        self._host = secrets.token_bytes(4)
        self._loader = secrets.randbits(32)

    def next_id(self) -> str:
        """Return an ID with the current time and the next counter, which restarts after 65,536 IDs, the maximum per
        millisecond. Threads: any."""
        span_ms = milliseconds_of_month(self._unix_ms())
        number = next(self._counter) & 0xFFFF
        return _LAYOUT.pack(self._host, os.getpid() & 0xFFFF, self._loader, span_ms, number).hex().upper()


def milliseconds_of_month(unix_ms: int) -> int:
    """Return the milliseconds since the local midnight at the start of the month."""
    local = time.localtime(unix_ms // 1000)
    began_s = int(time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1)))
    return unix_ms - began_s * 1000
