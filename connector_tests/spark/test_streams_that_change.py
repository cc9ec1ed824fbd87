"""Queries whose sources change between two starts, or have nothing to read beside others that have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from connector_tests.support.streams import TIMEOUT_S, Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

Run = Callable[..., list[str]]


@pytest.fixture
def sources(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, others: Topic, group: str, tmp_path: Path
) -> tuple[DataFrame, DataFrame]:
    """A load of each topic, in a group of its own, with few messages a batch."""
    limit = {"maxOffsetsPerTrigger": "6"}
    first, second = (
        Stream(spark, cluster, topic.name, f"{group}-{number}", tmp_path, limit).load()
        for number, topic in enumerate((messages, others))
    )
    return first, second


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Reads the union of the sources to the end, on one checkpoint, and returns the bodies of all runs."""

    def run_to_end(*sources: DataFrame) -> list[str]:
        united = sources[0]
        for source in sources[1:]:
            united = united.unionAll(source)
        writer = united.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert writer.start().awaitTermination(int(TIMEOUT_S))
        return sorted(body.decode() for body in pq.read_table(tmp_path / "rows")["body"].to_pylist())

    return run_to_end


def test_exhausted_source_is_neither_repeated_nor_a_stop(
    messages: Topic, others: Topic, sources: tuple[DataFrame, DataFrame], run: Run
) -> None:
    """One source has messages for one batch, the other for three; then the first has some, and the other none."""
    sent = messages.send(4) + others.send(16)
    assert run(*sources) == sorted(sent)
    sent += messages.send(8)
    assert run(*sources) == sorted(sent)
    assert run(*sources) == sorted(sent)


def test_swapped_sources_are_refused_with_both_groups(
    messages: Topic, others: Topic, sources: tuple[DataFrame, DataFrame], group: str, run: Run
) -> None:
    sent = messages.send(4) + others.send(4)
    assert run(*sources) == sorted(sent)
    sent += messages.send(4) + others.send(4)
    changed = rf"CHECKPOINT_OPTION_CHANGED.*consumerGroup='{group}-\d'.*consumerGroup='{group}-\d'"
    with pytest.raises(StreamingQueryException, match=changed):
        run(*reversed(sources))
    assert run(*sources) == sorted(sent)


def test_added_and_removed_sources_are_refused_by_spark(
    messages: Topic, others: Topic, sources: tuple[DataFrame, DataFrame], run: Run
) -> None:
    first, second = sources
    sent = messages.send(4)
    assert run(first) == sorted(sent)
    sent += messages.send(4)
    others.send(4)
    with pytest.raises(StreamingQueryException, match=r"(?i)sources"):
        run(first, second)
    assert run(first) == sorted(sent)


BUSY, IDLE = 0, 1
DROPPED = 50
"""A time in seconds that is below the watermark when its message is read."""


def test_idle_queue_holds_no_watermark_back_and_a_restart_keeps_it(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    """Spark has one watermark for a source: the latest time in any queue, minus the delay. So a window is complete
    though one queue has no message, and what that queue gets for it later is late, also after a restart."""

    def run(name: str) -> list[tuple[int, int]]:
        """Count messages by the 10 s of their time to the end; return (begin, count) of all windows so far."""
        source = Stream(spark, cluster, messages.name, f"{group}-{name.split()[0]}", tmp_path / name)
        times = source.load().selectExpr("timestamp_seconds(CAST(CAST(body AS STRING) AS BIGINT)) AS at")
        counts = times.withWatermark("at", "10 seconds").groupBy(window("at", "10 seconds")).count()
        rows = counts.selectExpr("unix_timestamp(window.start) AS begin_s", "count")
        writer = rows.writeStream.format("parquet").option("path", str(tmp_path / name / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / name / "checkpoint")).trigger(availableNow=True)
        assert writer.start().awaitTermination(int(TIMEOUT_S))
        found = pq.read_table(tmp_path / name / "rows")
        return sorted(zip(found["begin_s"].to_pylist(), found["count"].to_pylist(), strict=True))

    messages.send_to_queue(BUSY, ["0", "5", "100"])
    assert run("resumed") == [(0, 2)]
    messages.send_to_queue(IDLE, [str(DROPPED), "95"])
    messages.send_to_queue(BUSY, ["200"])
    assert run("resumed") == [(0, 2), (90, 1), (100, 1)]
    assert run("at once") == [(0, 2), (DROPPED, 1), (90, 1), (100, 1)]
