"""The two connectors once more, with other settings of Spark's, and in a JVM whose Arrow does not check each access to
what Python has sent.

Options of a JVM, and the Python that it starts, are the same for all sessions of a Python; so this is a program of its
own. The topics are those that the others have read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.names import (
    DEFAULTS_SUFFIX,
    KAFKA,
    KAFKA_VALUES,
    OUR_BODIES,
    OUR_LIKE_KAFKA,
    UNCHECKED_SUFFIX,
)
from connector_tests.benchmarks.queries import connectors, narrow
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.run import Contestant, Failure, Outcome, Run
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.spark import (
    DEFAULT_SETTINGS,
    RECOMMENDED_SETTINGS,
    UNCHECKED_SETTINGS,
    spark_session,
)
from connector_tests.benchmarks.stand import Stand
from connector_tests.benchmarks.workload import Workload

ROUNDS: Final = 3
READERS: Final = frozenset({OUR_LIKE_KAFKA, OUR_BODIES, KAFKA, KAFKA_VALUES})
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    DEFAULTS_SUFFIX: DEFAULT_SETTINGS,
    UNCHECKED_SUFFIX: {**RECOMMENDED_SETTINGS, **UNCHECKED_SETTINGS},
}
"""By what is added to the readers' names."""


def read_with_other_settings(part: str, stand: Stand, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """Both with Kafka's columns, and with the body and its offset."""
    for suffix in SETTINGS:
        yield from read_with(suffix, part, stand, rounds, jars)


def read_with(suffix: str, part: str, stand: Stand, rounds: int, jars: Sequence[Path]) -> Iterator[Outcome]:
    """With one of ``SETTINGS``."""
    option = {
        "suffix": suffix,
        "part": part,
        "workload": asdict(stand.workload),
        "rounds": min(rounds, ROUNDS),
        "sides": [side and asdict(replace(side, sender=None)) for side in (stand.rocketmq, stand.kafka)],
        "jars": [str(jar) for jar in jars],
    }
    for line in run_apart(__name__, json.dumps(option)).splitlines():
        result = json.loads(line)
        yield Run(**result) if "figures" in result else Failure(**result)


def main(text: str) -> None:
    """Prints an outcome a line."""
    option = json.loads(text)
    ours, kafka = (side and Side(**side) for side in option["sides"])
    stand = Stand(Workload(**option["workload"]), ours, kafka)
    with spark_session(SETTINGS[option["suffix"]], [Path(jar) for jar in option["jars"]]) as spark:
        racing = readers(spark, stand, option["suffix"])
        for outcome in alternate(option["part"], stand.workload.name, racing, option["rounds"]):
            sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


def readers(spark: SparkSession, stand: Stand, suffix: str) -> dict[str, Contestant]:
    racing = connectors(spark, stand) | narrow(spark, stand)
    return {f"{name}{suffix}": run for name, run in racing.items() if name in READERS}


if __name__ == "__main__":
    main(sys.argv[1])
