"""How JVMs run that live for a minute."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What C2 would compile better pays in none of them: Spark's took a sixth more of the processor. Nor do G1's threads,
with which it took a twelfth more."""

QUIET_ARCHIVE: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")

ARCHIVES: Final = Path(__file__).parents[2] / "build" / "classes"
"""Classes that a JVM loads at its start, for it to map into memory: Spark's takes half of the processor time then, a
broker's 1.5 s instead of 2.1. Make's."""

SPARK: Final = "spark.jsa"
ROCKETMQ: Final = "rocketmq.jsa"


def spark_options() -> str:
    """For ``SPARK_SUBMIT_OPTS``."""
    return joined(options_with(ARCHIVES / SPARK))


def rocketmq_options() -> tuple[str, ...]:
    """For a cluster of 5.5.0. A broker's class path is the first part of its proxy's, so one archive serves both."""
    return options_with(ARCHIVES / ROCKETMQ)


def rocketmq_environment() -> dict[str, str]:
    """For a process that starts a cluster of its own. Java's launcher adds to its command line what it has there."""
    return {**os.environ, "JDK_JAVA_OPTIONS": joined(rocketmq_options())}


def joined(options: Iterable[str]) -> str:
    """For a variable that Spark or Java's launcher splits at blanks that are not in quotes: this repository may be in a
    folder whose name has one."""
    return " ".join(f'"{one}"' if " " in one else one for one in options)


def options_with(archive: Path) -> tuple[str, ...]:
    """A JVM that cannot use the archive, of another Java or with other classes, starts without it."""
    if not archive.exists():
        return SHORT_LIVED
    return (*SHORT_LIVED, f"-XX:SharedArchiveFile={archive}", *QUIET_ARCHIVE)


def options_writing(archive: Path) -> tuple[str, ...]:
    """Java writes the archive when its JVM ends by itself or by SIGTERM."""
    return (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={archive}", *QUIET_ARCHIVE)
