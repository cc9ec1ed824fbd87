"""The Java programs of the benchmark. Python calls them once for each run; whatever is repeated is a loop in Java."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from connector_tests.support.java_program import java_program
from rocketmq_spark.embedded.jvm import ChildJvm

SOURCES: Final = Path(__file__).with_name("java")
CLIENT_JVM: Final = ("-Xms512m", "-Xmx1g", "-XX:+UseG1GC")


def java_client(name: str, sources: Sequence[str], class_path: Sequence[str]) -> AbstractContextManager[ChildJvm]:
    """See ``java_program``; ``sources`` are file names in ``java/``."""
    return java_program(name, [SOURCES / source for source in sources], class_path, CLIENT_JVM)
