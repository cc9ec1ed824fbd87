"""``rocketmq-spark-python``, by which the tests' sessions start Python: no process of Spark's compiles PySpark
again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

pytestmark = pytest.mark.full

Reported = dict[str, str | None]


def reported_here() -> Reported:
    import pyspark

    return {"pyspark": pyspark.__file__, "threads": os.environ.get("OMP_NUM_THREADS")}


class TellingReader(DataSourceStreamReader):
    """Has no rows; the process that plans its batches writes down what it is."""

    def __init__(self, into: str) -> None:
        self._into = into

    def initialOffset(self) -> dict[str, int]:
        Path(self._into).write_text(json.dumps(reported_here()), encoding="utf-8")
        return {"offset": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        return {"offset": 0}

    def partitions(self, start: Any, end: Any) -> Any:
        return []

    def read(self, partition: Any) -> Any:
        return iter(())


class TellingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "telling"

    def schema(self) -> str:
        return "number INT"

    def streamReader(self, schema: Any) -> TellingReader:
        return TellingReader(self.options["into"])


EXPECTED: Reported = {"pyspark": pyspark.__file__, "threads": "1"}


def test_a_task_imports_pyspark_from_its_files(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: reported_here()).collect() == [EXPECTED]


def test_so_does_the_process_that_plans_batches(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(TellingSource)
    report = tmp_path / "told"
    stream = spark.readStream.format("telling").option("into", str(report)).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert json.loads(report.read_text(encoding="utf-8")) == EXPECTED
