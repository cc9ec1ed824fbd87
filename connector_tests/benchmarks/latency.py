"""Part ``latency``: how long a message is stored before it is processed, at a steady rate."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.benchmarks.names import KAFKA, OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.run import Contestant, Figures, Outcome
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.small_batches import await_first_batch, check
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, checkpoint, spark_session, stream_of
from connector_tests.benchmarks.stand import Stand, open_stand
from connector_tests.benchmarks.workload import Workload

PART: Final = "latency"
UNCOUNTED_SECONDS: Final = 3
UNCOUNTED_MESSAGES: Final = 100
"""For the first batch with rows, in which Spark starts what later ones find running."""

TIMEOUT_S: Final = 60


def run_latencies(
    rates_per_second: Sequence[int], seconds: int, rounds: int, jars: Sequence[Path]
) -> Iterator[Outcome]:
    with (
        open_stand(Workload(100, 0), with_kafka=bool(jars)) as stand,
        spark_session(RECOMMENDED_SETTINGS, jars) as spark,
    ):
        yield from stand.failures
        for per_second in rates_per_second:
            racing = contestants(spark, stand, per_second, seconds)
            yield from alternate(PART, f"{per_second} messages a second", racing, rounds, warm_up=False)


def contestants(spark: SparkSession, stand: Stand, per_second: int, seconds: int) -> dict[str, Contestant]:
    racing: dict[str, Contestant] = {OURS: lambda: latencies(spark, stand.rocketmq, per_second, seconds)}
    if (kafka := stand.kafka) is not None:
        racing[KAFKA] = lambda: latencies(spark, kafka, per_second, seconds)
    return racing


def latencies(spark: SparkSession, side: Side, per_second: int, seconds: int) -> Figures:
    """Percentiles over messages, of those sent after the first seconds: from the broker's store time to when all rows
    of their batch had arrived in Python (``foreachBatch``)."""
    witness = Witness(side.stored_at)
    count = per_second * (UNCOUNTED_SECONDS + seconds)
    with checkpoint() as folder:
        stream = stream_of(spark, side, startingOffsets="latest")
        query = stream.writeStream.foreachBatch(witness.note).option("checkpointLocation", folder).start()
        try:
            await_first_batch(query)
            side.sender.fill(UNCOUNTED_MESSAGES)
            await_rows(query, witness, UNCOUNTED_MESSAGES)
            begin_s = time.time()
            side.sender.pace(count, per_second)
            await_rows(query, witness, UNCOUNTED_MESSAGES + count)
        finally:
            query.stop()
    waited_ms = witness.waited_ms(begin_s + UNCOUNTED_SECONDS)
    p50, p99 = np.percentile(waited_ms, [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "messages": len(waited_ms), "batches": len(witness.batches)}


def await_rows(query: StreamingQuery, witness: Witness, rows: int) -> None:
    deadline = monotonic() + TIMEOUT_S
    while witness.row_count < rows:
        check(query, deadline)


class Witness:
    """Sees every batch. ``batches``: when it had arrived, in seconds, and the store time of each of its rows."""

    def __init__(self, stored_at: str) -> None:
        self.batches: list[tuple[float, npt.NDArray[np.float64]]] = []
        self._stored_at = stored_at

    @property
    def row_count(self) -> int:
        return sum(len(stored_s) for _, stored_s in self.batches)

    def note(self, batch: DataFrame, _batch_id: int) -> None:
        stored = batch.select(self._stored_at).toArrow().column(0).cast(pa.int64())
        processed_s = time.time()
        if len(stored):
            self.batches.append((processed_s, stored.to_numpy() / 1e6))

    def waited_ms(self, since_s: float) -> npt.NDArray[np.float64]:
        """Of the messages that were stored at ``since_s`` or later."""
        return np.concatenate(
            [(processed_s - stored_s[stored_s >= since_s]) * 1000 for processed_s, stored_s in self.batches]
        )
