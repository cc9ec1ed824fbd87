"""Version numbers of RocketMQ: 20 for a minor version, and 2 for a patch, which has a snapshot before it.

Source: ``common/MQVersion.java``.
"""

from __future__ import annotations

from typing import Final

V4_0_0_SNAPSHOT: Final = 212
V4_9_0_SNAPSHOT: Final = 392
V5_0_0_SNAPSHOT: Final = 412
HIGHER_VERSION: Final = 612
_PER_MINOR: Final = 20
"""Ten patch versions, each with a snapshot before it."""


def version_name(number: int) -> str:
    """Return RocketMQ's name of the version with this number, such as ``V5_5_0`` or ``V5_5_0_SNAPSHOT``. For a version
    before 4.0.0 or after 5.9.9 return the number as text. Source: ``common/MQVersion.java``."""
    if not V4_0_0_SNAPSHOT <= number < HIGHER_VERSION:
        return str(number)
    minor, rest = divmod(number - V4_0_0_SNAPSHOT, _PER_MINOR)
    name = f"V{4 + minor // 10}_{minor % 10}_{rest // 2}"
    return name if rest % 2 else f"{name}_SNAPSHOT"


def release_name(number: int) -> str:
    """Return the name of the release with this number, or of its snapshot, for texts: "RocketMQ 5.1.4". For an older
    one, and for 0, return "a RocketMQ before 4.9"."""
    if number < V4_9_0_SNAPSHOT:
        return "a RocketMQ before 4.9"
    major, first = (5, V5_0_0_SNAPSHOT) if number >= V5_0_0_SNAPSHOT else (4, V4_9_0_SNAPSHOT)
    minor, patch = divmod(number - first, _PER_MINOR)
    return f"RocketMQ {major}.{minor if major == 5 else minor + 9}.{patch // 2}"
