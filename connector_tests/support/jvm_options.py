"""How JVMs run that live for a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1"
"""What C2 would compile better pays in none of them; Spark's took a sixth more of the processor."""

QUIET_ARCHIVE: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"

SPARK_CLASSES: Final = Path(__file__).parents[2] / "build" / "spark-classes.jsa"
"""The classes that Spark loads at its start, mapped into memory: a start takes half of the processor time. Make's."""


def spark_options() -> str:
    """For ``SPARK_SUBMIT_OPTS``. A JVM that cannot use the archive, of another Java for instance, starts without it."""
    if not SPARK_CLASSES.exists():
        return SHORT_LIVED
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={SPARK_CLASSES} {QUIET_ARCHIVE}"
