"""A PySpark that is too old, as a folder of that name with the modules that 4.1 has and ours are imported from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connector_tests.support.patience import PROCESS_S
from rocketmq_spark.source.spark_version import check_spark

ROOT = Path(__file__).parents[2]
OF_4_1 = {
    "__init__.py": '__version__ = "4.1.1"',
    "sql/__init__.py": "",
    "sql/datasource.py": (
        "class DataSource:\n    def __init__(self, options): self.options = options\n"
        "class DataSourceStreamReader: pass\n"
        "class InputPartition: pass\n"
    ),
    "sql/types.py": "class StructType: pass\n",
    "sql/streaming/__init__.py": "",
}
TOLD = (
    "[ROCKETMQ_SPARK_TOO_OLD] PySpark 4.1.1 is installed, and it has no pyspark.sql.streaming.datasource. "
    "rocketmq_spark needs PySpark 4.2 or newer, on the driver and on the cluster: pip install 'pyspark>=4.2,<4.4'."
)
PROGRAM = """
from pyspark_rocketmq import DefaultSource
source = DefaultSource({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "t"})
reader = source.streamReader(None)
sink = DefaultSource({"namesrvAddr": "n:9876", "topic": "t"})
writers = (lambda: sink.writer(None, False), lambda: sink.streamWriter(None, False))
for call in (source.schema, reader.initialOffset, reader.latestOffset, *writers):
    try:
        call()
    except ValueError as error:
        print(error)
"""


@pytest.fixture
def path_of_4_1(tmp_path: Path) -> str:
    for name, text in OF_4_1.items():
        file = tmp_path / "pyspark" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return os.pathsep.join((str(tmp_path), str(ROOT)))


def test_an_old_pyspark_finds_the_source_and_is_told_which_version_is_needed(path_of_4_1: str) -> None:
    """Spark 4.0 and 4.1 scan for sources too: an import that failed would take all other sources with it. A writer once
    said which of PySpark's classes could not be imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": path_of_4_1},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [TOLD] * 5


def test_the_pyspark_of_these_tests_is_new_enough() -> None:
    check_spark()
