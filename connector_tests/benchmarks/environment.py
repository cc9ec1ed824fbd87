"""Where and with what a benchmark was run: versions, machine, settings."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import psutil

from connector_tests.benchmarks import kafka_jars, kafka_side, rocketmq_side
from connector_tests.benchmarks.java_clients import CLIENT_JVM, SOURCES
from connector_tests.benchmarks.side import BROKER_JVM
from connector_tests.benchmarks.spark import DEFAULT_SETTINGS, RECOMMENDED_SETTINGS, UNCHECKED_SETTINGS
from rocketmq_spark._version import __version__
from rocketmq_spark.embedded.jars import read_lock, version_of
from rocketmq_spark.embedded.jvm import find_java
from rocketmq_spark.wire.implementation import column_decoder

PACKAGES = ("pyspark", "pyarrow", "numpy", "py4j")


def environment() -> dict[str, Any]:
    """As JSON takes it."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "settings": settings(),
    }


def machine() -> dict[str, Any]:
    """With the load before the benchmark: on a busy machine ratios are as doubtful as numbers."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "load_before": [round(load, 1) for load in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    java = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True)
    return {
        "rocketmq_spark": f"{__version__} (decoder: {column_decoder().implementation})",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "java": java.stderr.splitlines()[0],
        "rocketmq": version_of(read_lock()),
        "kafka": kafka_jars.KAFKA_VERSION,
        "spark-sql-kafka": kafka_jars.CONNECTOR_VERSION,
    }


def settings() -> dict[str, Any]:
    return {
        "spark": {"master": "local[2]", **RECOMMENDED_SETTINGS},
        "spark, default settings": {"master": "local[2]", **DEFAULT_SETTINGS},
        "spark, Arrow unchecked": {"master": "local[2]", **RECOMMENDED_SETTINGS, **UNCHECKED_SETTINGS},
        "both brokers' JVM": " ".join(BROKER_JVM),
        "RocketMQ": dict(rocketmq_side.SETTINGS),
        "Kafka": dict(kafka_side.SETTINGS),
        "Java clients' JVM": " ".join(CLIENT_JVM),
        "Java pull consumers": pull_settings(),
    }


def pull_settings() -> dict[str, int]:
    """The constants of ``PullLoops.java``."""
    lines = (SOURCES / "PullLoops.java").read_text(encoding="utf-8").splitlines()
    constants = [line.strip().rstrip(";") for line in lines if "public static final int" in line]
    pairs = [line.removeprefix("public static final int ").split(" = ") for line in constants]
    return {name: int(value.replace("_", "")) for name, value in pairs}
