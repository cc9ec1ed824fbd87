"""One ``load()`` twice in a query, and two of one group: two members, which Spark asks one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic
from connector_tests.support.timeouts import TIMEOUT_FACTOR

pytestmark = pytest.mark.full

LIMIT_S = int(120 * TIMEOUT_FACTOR)


@dataclass
class TwoLoads(Stream):
    def load(self) -> DataFrame:
        return super().load().unionAll(super().load())


def test_load_that_is_joined_with_itself_has_each_row_on_both_sides(
    messages: Topic, stream: StreamOf, group: str, tmp_path: Path
) -> None:
    """One source, which Spark scans once for each side."""
    rows = stream().load().selectExpr("CAST(body AS STRING) AS text", "queueId")
    joined = rows.join(rows.select("text"), "text")
    writer = joined.writeStream.format("parquet").option("path", str(tmp_path / "joined"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    sent: list[str] = []
    for count in (8, 4):
        sent += messages.send(count)
        query = writer.start()
        assert query.awaitTermination(LIMIT_S)
        assert {len(progress.sources) for progress in query.recentProgress} == {1}
        assert sum(progress.numInputRows for progress in query.recentProgress) == 2 * count
        written = pq.read_table(tmp_path / "joined", columns=["text"])
        assert sorted(written["text"].to_pylist()) == sorted(sent)
    assert messages.lag(group) == 0


@pytest.mark.parametrize("orderly", ["false", "true"])
def test_an_available_now_run_of_two_loads_reads_all_and_does_not_wait_for_itself(
    messages: Topic, stream: StreamOf, group: str, orderly: str
) -> None:
    """The load without anything to read waited for the other, which Spark did not ask meanwhile."""
    one = stream(consumeOrderly=orderly, clusterTimeoutMs=str(1_000 * LIMIT_S))
    both = TwoLoads(**vars(one))
    began_s = time.monotonic()
    sent = messages.send(8)
    both.run_to_end()
    assert set(both.bodies()) == set(sent)
    sent += messages.send(1)
    both.run_to_end()
    assert time.monotonic() - began_s < LIMIT_S
    assert set(both.bodies()) == set(sent)
    assert messages.lag(group) == 0
