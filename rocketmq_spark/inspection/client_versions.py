"""Names of the versions that clients report. Pure."""

from __future__ import annotations

from typing import Final

V4_0_0_SNAPSHOT: Final = 212
HIGHER_VERSION: Final = 612
_PER_MINOR: Final = 20
"""Ten patch versions, each with a snapshot before it."""


def version_name(number: int) -> str:
    """Return RocketMQ's name of the version with this number, such as ``V5_5_0``; the number as text below 4.0.0 and
    above 5.9.9. Source: ``common/MQVersion.java``."""
    if not V4_0_0_SNAPSHOT <= number < HIGHER_VERSION:
        return str(number)
    minor, rest = divmod(number - V4_0_0_SNAPSHOT, _PER_MINOR)
    name = f"V{4 + minor // 10}_{minor % 10}_{rest // 2}"
    return name if rest % 2 else f"{name}_SNAPSHOT"
