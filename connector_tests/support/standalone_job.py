"""A job on a standalone cluster: a stream whose second batch waits inside its tasks for an executor to be killed, then
a batch read. Run as a program, see ``main``.

Files of its folder connect it with the test: ``hold`` exists while tasks wait, ``held`` has a file for each task that
waits, named by the pid of its Python worker, and ``retried`` shows that a task was read by a later attempt.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from connector_tests.support.jvm_options import SHORT_LIVED
from connector_tests.support.spark_daemons import QUICK
from connector_tests.support.spark_session import local_session
from rocketmq_spark import run_available_now

HELD_BATCH: Final = 1
OFFSETS_PER_BATCH: Final = 400
SETTINGS: Final = {
    "spark.pyspark.python": "",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
}


def main() -> None:
    master, namesrv_addr, topic, group, folder = sys.argv[1:]
    options = {"namesrvAddr": namesrv_addr, "subscribe": topic, "startingOffsets": "earliest"}
    with local_session("standalone", QUICK | SETTINGS | {"spark.master": master}) as spark:
        run_stream(spark, options | {"consumerGroup": group}, Path(folder))
        batch = spark.read.format("rocketmq").options(**options).load()
        bodies = [row.body.decode() for row in batch.select("body").collect()]
    Path(folder, "batch.json").write_text(json.dumps(bodies), encoding="utf-8")


def run_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    """Read to the end in batches that ``process_tree.written_bodies`` finds; a task for each queue."""

    @udf("binary")
    def held(body: bytes) -> bytes:
        task = TaskContext.get()
        if task is not None and task.attemptNumber() > 0:
            (folder / "retried").touch()
        if (folder / "hold").exists():
            wait_in_task(folder)
        return body

    def write(batch: DataFrame, batch_id: int) -> None:
        if batch_id == HELD_BATCH:
            (folder / "hold").touch()
        rows = batch.select(held("body").alias("body"))
        rows.write.mode("overwrite").parquet(f"{folder}/out/batch={batch_id}")

    limits = {"maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH), "minPartitions": "4"}
    stream = spark.readStream.format("rocketmq").options(**options, **limits).load()
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    run_available_now(writer).awaitTermination()


def wait_in_task(folder: Path) -> None:
    (folder / "held" / str(os.getpid())).touch()
    while (folder / "hold").exists():
        time.sleep(0.05)


if __name__ == "__main__":
    # By its importable name: Spark's other processes must find the function there.
    import_module("connector_tests.support.standalone_job").main()
