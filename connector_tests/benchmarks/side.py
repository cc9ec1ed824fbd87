"""One of the two brokers that are compared, with a filled topic, and what both have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TOPIC: Final = "benchmark"
HEADED_TOPIC: Final = "benchmark-headers"
"""Kafka's, with the same messages and headers."""

BROKER_JVM: Final = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:-UseSerialGC", "-XX:+UseG1GC")


@dataclass(frozen=True)
class Side:
    """A broker with one filled topic.

    Parameters
    ----------
    source : name of Spark's source, and ``options`` what it needs beside a group
    stored_at : the column with the time at which a row was stored
    sender : the Java object that stores more: ``fill(count)``, ``pace(count, per_second)``
    """

    source: str
    options: Mapping[str, str]
    stored_at: str
    address: str
    broker_pid: int
    sender: Any
    fill_seconds: float
