"""Jars of Kafka's broker and of Spark's Kafka connector, by Maven coordinates, kept in this user's cache."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rocketmq_spark.embedded.jars import cache_dir, hold_file_lock, open_ivy

KAFKA_VERSION: Final = "4.1.0"
CONNECTOR_VERSION: Final = "4.2.0"
BROKER: Final = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",)
CONNECTOR: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.apache.commons:commons-pool2:2.12.0",
)


def broker_jars() -> list[Path]:
    """With all that they need but Scala's library, which comes with PySpark."""
    return cached_jars(BROKER, transitive=True)


def connector_jars() -> list[Path]:
    """The connector's own; what else it needs is in PySpark."""
    return cached_jars(CONNECTOR, transitive=False)


def cached_jars(coordinates: Sequence[str], *, transitive: bool) -> list[Path]:
    """Files of ``group:artifact:version`` coordinates, and with ``transitive`` of what they need; fetched once."""
    base = cache_dir() / "benchmark"
    folder = base / coordinates[0].replace(":", "_")
    base.mkdir(parents=True, exist_ok=True)
    with hold_file_lock(base / "fetching"):
        if not folder.is_dir():
            _fetch(coordinates, folder, base / "ivy", transitive=transitive)
    return sorted(folder.glob("*.jar"))


def _fetch(coordinates: Sequence[str], folder: Path, ivy_folder: Path, *, transitive: bool) -> None:
    """Raises IvyError. The folder gets its name when everything is in it."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        with open_ivy(ivy_folder) as ivy:
            for file in ivy.resolve(coordinates, transitive=transitive):
                file.rename(unfinished / file.name)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(ivy_folder, ignore_errors=True)
