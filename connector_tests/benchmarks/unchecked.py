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
from connector_tests.benchmarks.queries import connectors, narrow
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.run import Contestant, Failure, Outcome, Run
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, UNCHECKED_SETTINGS, spark_session
from connector_tests.benchmarks.stand import Stand
from connector_tests.benchmarks.workload import Workload

ROUNDS: Final = 3
READERS: Final = frozenset({OUR_LIKE_KAFKA, OUR_BODIES, KAFKA, KAFKA_VALUES})


def read_unchecked(part: str, stand: Stand, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """Both with Kafka's columns, and with the body and its offset."""
    asked = {
        "part": part,
        "workload": asdict(stand.workload),
        "rounds": min(rounds, ROUNDS),
        "sides": [side and asdict(replace(side, sender=None)) for side in (stand.rocketmq, stand.kafka)],
        "jars": [str(jar) for jar in jars],
    }
    for line in run_apart(__name__, json.dumps(asked)).splitlines():
        told = json.loads(line)
        yield Run(**told) if "figures" in told else Failure(**told)


def main(text: str) -> None:
    """Prints an outcome a line."""
    asked = json.loads(text)
    ours, kafka = (side and Side(**side) for side in asked["sides"])
    stand = Stand(Workload(**asked["workload"]), ours, kafka)
    settings = {**RECOMMENDED_SETTINGS, **UNCHECKED_SETTINGS}
    with spark_session(settings, [Path(jar) for jar in asked["jars"]]) as spark:
        for outcome in alternate(asked["part"], stand.workload.name, readers(spark, stand), asked["rounds"]):
            sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


def readers(spark: SparkSession, stand: Stand) -> dict[str, Contestant]:
    racing = connectors(spark, stand) | narrow(spark, stand)
    return {f"{name}{UNCHECKED_SUFFIX}": run for name, run in racing.items() if name in READERS}


if __name__ == "__main__":
    main(sys.argv[1])
