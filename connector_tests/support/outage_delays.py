"""How long it takes until an outage is said: measured on a query that waits for messages, one that reads what comes,
and one that writes, at the defaults of Spark and of the connector.

As a program, ``python -m connector_tests.support.outage_delays [rounds]``: a row for each kind of outage.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.support.spark_session import test_session
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import END_TO_END_S, PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster

RECOVERED = "Recovered"
ROUNDS = 5
POLL_S = 0.02
LOG_TIMEOUT_S = END_TO_END_S
STARTED_S = PROCESS_S
RESOLVED_S = 5.0
PHASE_S = 20.0
"""Outages come at any moment of what is done every so often."""


class Outage(NamedTuple):
    """What happens to servers, and how it is mended."""

    name: str
    begin: Callable[[EmbeddedCluster], None]
    end: Callable[[EmbeddedCluster], None]


OUTAGES = (
    Outage("broker killed", EmbeddedCluster.kill_broker, EmbeddedCluster.start_broker),
    Outage("broker stopped (SIGSTOP)", EmbeddedCluster.pause_broker, EmbeddedCluster.resume_broker),
    Outage("name server killed", EmbeddedCluster.kill_name_server, EmbeddedCluster.start_name_server),
)


class Indicator(NamedTuple):
    """Where somebody may see that something is waited for."""

    name: str
    is_there: Callable[[], bool]


def is_outage_logged(log: Path, log_context: str) -> bool:
    """Whether the last line about waits of ``log_context`` states that something is waited for."""
    lines = log.read_text("utf-8", errors="replace").splitlines()
    outage_lines = [
        line for line in lines if f"[{log_context} " in line and ("aiting for " in line or RECOVERED in line)
    ]
    return bool(outage_lines) and RECOVERED not in outage_lines[-1]


def is_outage_in_progress(query: StreamingQuery) -> bool:
    progress = query.lastProgress
    latest_offset = None if progress is None else progress.sources[0].latestOffset
    return latest_offset is not None and bool(json.loads(latest_offset)["outages"])


def delays_s(indicators: list[Indicator]) -> dict[str, float]:
    """Wait for all indicators; return the seconds until each is there, without those that are not in LOG_TIMEOUT_S."""
    began, found = time.monotonic(), dict[str, float]()
    while len(found) < len(indicators) and time.monotonic() < began + LOG_TIMEOUT_S:
        for indicator in indicators:
            if indicator.name not in found and indicator.is_there():
                found[indicator.name] = time.monotonic() - began
        time.sleep(POLL_S)
    return found


@contextmanager
def queries(spark: SparkSession, cluster: EmbeddedCluster, folder: Path) -> Iterator[list[Indicator]]:
    """One that is idle, one that writes, and one that reads what that writes, all at work; what may tell of them."""
    log = folder / "log"
    for name in ("idle", "busy"):
        cluster.create_topic(name, 4)
    idle, busy = (reading(spark, cluster, name, folder) for name in ("idle", "busy"))
    sink = writing(spark, cluster, "busy", folder)
    try:
        eventually(lambda: all(query.lastProgress is not None for query in (idle, busy, sink)), "progress", STARTED_S)
        yield [
            Indicator("a query that waits for messages, line", lambda: is_outage_logged(log, "group=idle")),
            Indicator("a query that waits for messages, progress", lambda: is_outage_in_progress(idle)),
            Indicator("a query that reads what comes, line", lambda: is_outage_logged(log, "group=busy")),
            Indicator("a query that reads what comes, progress", lambda: is_outage_in_progress(busy)),
            Indicator("a query that writes, line", lambda: is_outage_logged(log, "producerGroup=rocketmq-spark")),
        ]
    finally:
        for query in (idle, busy, sink):
            query.stop()


def reading(spark: SparkSession, cluster: EmbeddedCluster, topic: str, folder: Path) -> StreamingQuery:
    reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr)
    rows = reader.option("consumerGroup", topic).option("subscribe", topic).option("startingOffsets", "earliest").load()
    return rows.writeStream.format("noop").option("checkpointLocation", str(folder / f"read {topic}")).start()


def writing(spark: SparkSession, cluster: EmbeddedCluster, topic: str, folder: Path) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 4).option("numPartitions", 1).load()
    writer = rows.selectExpr("CAST(value AS STRING) AS body").writeStream.format("rocketmq").option("topic", topic)
    writer = writer.option("namesrvAddr", cluster.namesrv_addr)
    return writer.option("checkpointLocation", str(folder / f"write {topic}")).start()


def measured(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Of each outage, the delays of each round. What is written on standard error goes to a file from now on."""
    found: dict[str, list[dict[str, float]]] = {outage.name: [] for outage in OUTAGES}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        with (folder / "log").open("wb") as log:
            os.dup2(log.fileno(), sys.stderr.fileno())
        cluster = stack.enter_context(EmbeddedCluster(separate_jvms=True))
        indicators = stack.enter_context(queries(stack.enter_context(test_session(folder)), cluster, folder))
        for _ in range(rounds):
            for outage in OUTAGES:
                time.sleep(RESOLVED_S + random.uniform(0, PHASE_S))
                outage.begin(cluster)
                found[outage.name].append(delays_s(indicators))
                sys.stdout.write(f"{outage.name}: {found[outage.name][-1]}\n")
                sys.stdout.flush()
                outage.end(cluster)
                eventually(
                    lambda: not any(indicator.is_there() for indicator in indicators), "that it is over", LOG_TIMEOUT_S
                )
    return found


def shown(seconds: list[float], rounds: int) -> str:
    """Median, smallest and largest; and how many rounds had none."""
    if not seconds:
        return "not said"
    missing = f", {rounds - len(seconds)} of {rounds} not" if len(seconds) < rounds else ""
    return f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f}){missing}"


def main(rounds: str = str(ROUNDS)) -> None:
    found = measured(int(rounds))
    names = list(dict.fromkeys(name for delays in found.values() for one in delays for name in one))
    rows = [["", *found], ["---"] * (1 + len(found))]
    rows += [
        [name, *(shown([one[name] for one in all_of if name in one], len(all_of)) for all_of in found.values())]
        for name in names
    ]
    sys.stdout.writelines(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
