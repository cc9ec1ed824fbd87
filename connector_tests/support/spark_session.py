"""The Spark session of the tests: small, quiet, and with every file in a folder of the test run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession


@contextmanager
def test_session(folder: Path, **settings: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark's workers are whatever "python3" is on the path
    builder = SparkSession.builder.master("local[2]").appName("connector tests")
    defaults = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
    }
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
