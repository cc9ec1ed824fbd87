"""``String.hashCode`` of Java, which RocketMQ's brokers filter tags by."""

from __future__ import annotations

import struct


def java_hash_code(text: str) -> int:
    """Signed 32-bit hash over the UTF-16 code units of ``text``. Source: ``java/lang/String.java#hashCode``."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
