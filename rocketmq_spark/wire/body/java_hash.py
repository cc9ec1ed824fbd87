"""``String.hashCode`` of Java, which RocketMQ's brokers filter tags by."""

from __future__ import annotations

from array import array
from sys import byteorder


def java_hash_code(text: str) -> int:
    """Signed 32-bit hash over the UTF-16 code units of ``text``. Source: ``java/lang/String.java#hashCode``."""
    units = array("H", text.encode("utf-16-le", "surrogatepass"))
    if byteorder == "big":
        units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
