"""A job that stops at a named point of its micro-batch and waits there to be killed. Run as a program, see ``main``.

The points come from a subclass of the source and from foreachBatch; the product has no hooks. Which point, and how
often it is passed before, stands in ``CRASH_POINT`` ("name:passes"); the job states in ``CRASH_MARKER`` that it is
there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from connector_tests.support.spark_session import test_session
from rocketmq_spark import run_available_now
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader
from rocketmq_spark.spark_version import HAS_READ_LIMITS

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

POINTS: Final = (
    "before offsets/N",
    "after offsets/N",
    "during the batch",
    "before commits/N",
    "after commits/N",
    "after the broker commit",
)
"""In the order in which one micro-batch passes them."""
BATCH_SIZE: Final = 500
"""Messages."""

_passed: dict[str, int] = {}


def pass_by(point: str) -> None:
    """Go on, unless this is the point and the time to stop for ever."""
    target, _, passes = os.environ.get("CRASH_POINT", "").partition(":")
    _passed[point] = _passed.get(point, 0) + 1
    if point == target and _passed[point] > int(passes):
        Path(os.environ["CRASH_MARKER"]).touch()
        time.sleep(3600)


class CrashingStreamReader(RocketMQStreamReader):
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if start["queues"]:
            pass_by("after commits/N")
        end = super().latestOffset(start, limit)
        if end != start:
            if start["queues"]:
                pass_by("after the broker commit")
            pass_by("before offsets/N")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pass_by("after offsets/N")
        return super().partitions(start, end)


class CrashingSource(RocketMQDataSource):
    @classmethod
    def name(cls) -> str:
        return "crashing_rocketmq"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Where messages are shared, and on Spark 4.0 and 4.1, only the points inside the batch are passed."""
        options = self.read_options()
        if options.is_message_based or not HAS_READ_LIMITS:
            return super().streamReader(schema)
        return CrashingStreamReader(options, schema)


def run(
    spark: SparkSession, namesrv_addr: str, topic: str, group: str, folder: str, until_end: str, *more: str
) -> None:
    """Read ``topic`` into ``folder``/out, ``BATCH_SIZE`` a batch; up to what is there, or until killed. ``more``:
    options, ``name=value``."""

    def write(batch: DataFrame, batch_id: int) -> None:
        pass_by("during the batch")
        batch.write.mode("overwrite").parquet(f"{folder}/out/batch={batch_id}")
        pass_by("before commits/N")

    reader = spark.readStream.format("crashing_rocketmq").option("namesrvAddr", namesrv_addr)
    reader = reader.option("consumerGroup", group).option("subscribe", topic).option("startingOffsets", "earliest")
    reader = reader.options(**dict(option.split("=") for option in more))
    writer = reader.option("maxOffsetsPerTrigger", BATCH_SIZE).load().writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    query = run_available_now(writer) if until_end == "yes" else writer.start()
    query.awaitTermination()


def main() -> None:
    folder = sys.argv[4]
    with test_session(Path(folder)) as spark:
        spark.dataSource.register(CrashingSource)
        run(spark, *sys.argv[1:])


if __name__ == "__main__":
    # By its importable name: Spark's other processes must find the classes there.
    import_module("connector_tests.support.crashing_job").main()
