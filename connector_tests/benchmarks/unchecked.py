"""The two connectors once more, in a JVM whose Arrow does not check each access to what Python has sent.

These are options of a JVM, which all sessions of a Python share; so this is a program of its own. The topics are those
that the others have read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.names import KAFKA, KAFKA_VALUES, OUR_BODIES, OUR_LIKE_KAFKA, UNCHECKED_SUFFIX
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.run import Contestant, Failure, Outcome, Run
from connector_tests.benchmarks.schemas import BODY_ONLY, LIKE_KAFKA
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, UNCHECKED_SETTINGS, spark_session, stream_of
from connector_tests.benchmarks.stand import Stand
from connector_tests.benchmarks.throughput import read_all

ROUNDS: Final = 3


def read_unchecked(part: str, stand: Stand, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """Both with Kafka's columns, and with the body and its offset."""
    sides = [side and asdict(replace(side, sender=None)) for side in (stand.rocketmq, stand.kafka)]
    asked = {
        "part": part,
        "case": stand.workload.name,
        "rows": stand.workload.count,
        "rounds": min(rounds, ROUNDS),
        "sides": sides,
        "jars": [str(jar) for jar in jars],
    }
    for line in run_apart(__name__, json.dumps(asked)).splitlines():
        told = json.loads(line)
        yield Run(**told) if "figures" in told else Failure(**told)


def main(text: str) -> None:
    """Prints an outcome a line."""
    asked = json.loads(text)
    ours, kafka = (side and Side(**side) for side in asked["sides"])
    settings = {**RECOMMENDED_SETTINGS, **UNCHECKED_SETTINGS}
    with spark_session(settings, [Path(jar) for jar in asked["jars"]]) as spark:
        racing = readers(spark, ours, kafka, asked["rows"])
        for outcome in alternate(asked["part"], asked["case"], racing, asked["rounds"]):
            sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


def readers(spark: SparkSession, ours: Side, kafka: Side | None, rows: int) -> dict[str, Contestant]:
    racing: dict[str, Contestant] = {
        OUR_LIKE_KAFKA: lambda: read_all(spark, ours, stream_of(spark, ours, LIKE_KAFKA), rows),
        OUR_BODIES: lambda: read_all(spark, ours, stream_of(spark, ours, BODY_ONLY), rows),
    }
    if kafka is not None:
        racing[KAFKA] = lambda: read_all(spark, kafka, stream_of(spark, kafka), rows)
        racing[KAFKA_VALUES] = lambda: read_all(spark, kafka, stream_of(spark, kafka).select("value", "offset"), rows)
    return {f"{name}{UNCHECKED_SUFFIX}": run for name, run in racing.items()}


if __name__ == "__main__":
    main(sys.argv[1])
