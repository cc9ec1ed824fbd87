"""Queries and writes that are aborted, again and again in one Spark session: none of them leaves anything.

Spark itself leaves something of each query with a Python source and of each ``foreachBatch``. So the same is done with
a source that does nothing, and the growth of the driver's two processes is compared to that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.held_resources import DRIVER, MARGIN, MARGINS, RUNNER, SPREAD, Held, held
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

ROUNDS_BEFORE = 2
"""They start workers, connections and threads that stay."""
FEW, MANY = 2, 10
"""Rounds that are compared with those. Only many show what Spark's own descriptors and threads would hide."""
MESSAGES = 400
BEYOND_THE_BROKERS_LIMIT_S = 30 * 86_400
"""Of ``delaySeconds``, which only the broker checks."""
REFUSED = "WHEEL_TIMER_MSG_ILLEGAL|MESSAGE_ILLEGAL"
MODES = ({"loadBalance": "queue"}, {"loadBalance": "message", "invisibleDurationMs": "10000"})


class SinkError(Exception):
    """What a user's sink raises."""


class Source(NamedTuple):
    """Rows with a body, a new checkpoint, and the options of the sink of the abort in ``folder``."""

    rows: DataFrame
    folder: Path
    sink_options: dict[str, str]

    def start(self, sink: Callable[[DataFrame, int], None]) -> StreamingQuery:
        writer = self.rows.writeStream.foreachBatch(sink)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()


def stop_in_mid_batch(source: Source) -> None:
    """While a worker reads and another part of its task takes its time."""
    begun = source.folder / "begun"
    source.folder.mkdir(parents=True)

    def take_long(_: Row) -> None:
        begun.touch()
        time.sleep(0.2)

    query = source.start(lambda batch, _: batch.foreach(take_long))
    try:
        eventually(begun.exists, "a row in the sink")
    finally:
        query.stop()
    assert not query.isActive


def fail_in_the_sink(source: Source) -> None:
    def fail(batch: DataFrame, _: int) -> None:
        assert batch.count() > 0
        raise SinkError("the sink's own")

    query = source.start(fail)
    with pytest.raises(StreamingQueryException, match="the sink's own"):
        query.awaitTermination(int(TIMEOUT_S))


def write_what_the_broker_refuses(source: Source) -> None:
    """By ``df.write``, in a ``foreachBatch`` and as a stream."""

    def late(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("CAST('x' AS BINARY) AS body", f"{BEYOND_THE_BROKERS_LIMIT_S} AS delaySeconds")

    def write(batch: DataFrame, _: int = 0) -> None:
        late(batch).write.format("rocketmq").mode("append").options(**source.sink_options).save()

    with pytest.raises(PythonException, match=REFUSED):
        write(source.rows.sparkSession.range(1))
    writer = late(source.rows).writeStream.format("rocketmq").options(**source.sink_options)
    for query in (source.start(write), writer.option("checkpointLocation", str(source.folder / "streamed")).start()):
        with pytest.raises(StreamingQueryException, match=REFUSED):
            query.awaitTermination(int(TIMEOUT_S))


ABORTS = (stop_in_mid_batch, fail_in_the_sink, write_what_the_broker_refuses)


def register_source(spark: SparkSession) -> None:
    """``control``: what Spark has for a Python source, without anything of ours. By value, as workers know no tests."""

    class Control(DataSource):
        @classmethod
        def name(cls) -> str:
            return "control"

        def schema(self) -> str:
            return "body BINARY"

        def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:
            class Reader(SimpleDataSourceStreamReader):
                def initialOffset(self) -> dict[str, int]:
                    return {"n": 0}

                def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[bytes]], dict[str, int]]:
                    return iter([(b"x",)] * 100), {"n": start["n"] + 1}

                def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[bytes]]:
                    return iter([(b"x",)] * 100)

            return Reader()

    spark.dataSource.register(Control)


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_aborted_queries_leave_nothing_however_often(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    messages: Topic,
    stream: StreamOf,
    group: str,
    tmp_path: Path,
    count: int,
) -> None:
    ports = {int(address.rpartition(":")[2]) for address in (cluster.namesrv_addr, cluster.broker_addr())}
    sink_options = {"namesrvAddr": cluster.namesrv_addr, "topic": messages.name}
    messages.send_batches(MESSAGES)
    register_source(spark)

    def control(name: str, number: int) -> Source:
        rows = spark.readStream.format("control").load()
        return Source(rows, tmp_path / f"control-{name}-{number}", sink_options)

    def ours(name: str, number: int) -> Source:
        mode = MODES[number % len(MODES)]
        one = stream(f"{name}-{number}", consumerGroup=f"{group}-{name}-{number % len(MODES)}", **mode)
        return Source(one.load().select("body"), one.folder, sink_options)

    def rounds(source: Callable[[str, int], Source], number_of: int) -> list[Held]:
        after: list[Held] = []
        for number in range(number_of):
            for abort in ABORTS:
                abort(source(abort.__name__, number))
            eventually(lambda: held(ports)[RUNNER] == 0, "the end of each source runner")
            after.append(held(ports))
        return after

    of_control = rounds(control, ROUNDS_BEFORE + MANY // 3) if count == MANY else []
    of_ours = rounds(ours, ROUNDS_BEFORE + count)
    assert grown(of_control, of_ours) == {}, (of_control, of_ours)


def grown(of_control: list[Held], of_ours: list[Held]) -> dict[str, tuple[float, float]]:
    """How many there are more with each round, by kind: with control and with ours, where ours are more. Without
    control only kinds of which Spark has no more with each round."""
    kinds = {kind for counts in of_ours for kind in counts} - (set() if of_control else MARGINS.keys())
    both = {kind: (by_round(kind, of_control) if kind in DRIVER else 0.0, by_round(kind, of_ours)) for kind in kinds}
    rounds = len(of_ours) - ROUNDS_BEFORE
    allowed = {kind: MARGINS.get(kind, MARGIN) + SPREAD.get(kind, 0) / rounds for kind in both}
    return {kind: (control, ours) for kind, (control, ours) in both.items() if ours - control > allowed[kind]}


def by_round(kind: str, after: list[Held]) -> float:
    return (after[-1][kind] - after[ROUNDS_BEFORE - 1][kind]) / (len(after) - ROUNDS_BEFORE)
