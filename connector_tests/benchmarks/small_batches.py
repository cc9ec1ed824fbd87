"""Part ``small batches``: what a micro-batch costs that has hardly anything to do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.benchmarks.names import DEFAULTS_SUFFIX, KAFKA, OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.run import Contestant, Figures, Outcome
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.spark import (
    DEFAULT_SETTINGS,
    RECOMMENDED_SETTINGS,
    checkpoint,
    spark_session,
    stream_of,
)
from connector_tests.benchmarks.stand import Stand, open_stand
from connector_tests.benchmarks.workload import Workload

PART: Final = "small batches"
ROWS: Final = 100
UNCOUNTED_BATCHES: Final = 2
TIMEOUT_S: Final = 60
POLL_S: Final = 0.05
TRIGGER: Final = "1 second"
"""Messages that are sent right after a batch wait together for the next one."""


def run_small_batches(batches: int, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    with open_stand(Workload(100, 0), with_kafka=bool(jars)) as stand:
        yield from stand.failures
        for settings, suffix in ((RECOMMENDED_SETTINGS, ""), (DEFAULT_SETTINGS, DEFAULTS_SUFFIX)):
            with spark_session(settings, jars) as spark:
                racing = contestants(spark, stand, batches, suffix)
                yield from alternate(PART, f"{ROWS} messages, 4 queues", racing, rounds, warm_up=False)


def contestants(spark: SparkSession, stand: Stand, batches: int, suffix: str) -> dict[str, Contestant]:
    racing: dict[str, Contestant] = {f"{OURS}{suffix}": lambda: trigger_times(spark, stand.rocketmq, batches)}
    if (kafka := stand.kafka) is not None:
        racing[f"{KAFKA}{suffix}"] = lambda: trigger_times(spark, kafka, batches)
    return racing


def trigger_times(spark: SparkSession, side: Side, batches: int) -> Figures:
    """Medians over batches of exactly ``ROWS`` messages, in ms, of ``triggerExecution`` and of each of its parts."""
    with checkpoint() as folder:
        stream = stream_of(spark, side, startingOffsets="latest")
        writer = stream.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(processingTime=TRIGGER).start()
        try:
            await_first_batch(query)
            progress = [next_batches(query, side) for _ in range(batches + UNCOUNTED_BATCHES)]
        finally:
            query.stop()
    whole = [one["durationMs"] for one in progress[UNCOUNTED_BATCHES:] if one["numInputRows"] == ROWS]
    names = {name for durations in whole for name in durations}
    return {f"{name}_ms": median(durations.get(name, 0) for durations in whole) for name in sorted(names)}


def await_first_batch(query: StreamingQuery) -> None:
    """The query then knows where the topic ends."""
    deadline = monotonic() + TIMEOUT_S
    while query.lastProgress is None:
        check(query, deadline)


def next_batches(query: StreamingQuery, side: Side) -> Any:
    """Send, and wait until it is processed: the progress of the last batch that took part."""
    last = query.recentProgress[-1]["batchId"]
    side.sender.fill(ROWS)
    deadline = monotonic() + TIMEOUT_S
    while rows_of(done := batches_after(query, last)) < ROWS:
        check(query, deadline)
    return done[-1]


def batches_after(query: StreamingQuery, batch_id: int) -> list[Any]:
    return [one for one in query.recentProgress if one["batchId"] > batch_id and one["numInputRows"]]


def rows_of(progress: Sequence[Any]) -> int:
    return sum(one["numInputRows"] for one in progress)


def check(query: StreamingQuery, deadline: float) -> None:
    """Wait a little. Raises what ended the query, and TimeoutError after the deadline."""
    if (error := query.exception()) is not None:
        raise error
    if monotonic() > deadline:
        raise TimeoutError(f"nothing was processed for {TIMEOUT_S} s")
    time.sleep(POLL_S)
