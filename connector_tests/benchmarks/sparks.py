"""Part ``sparks``: the same topic read on Spark 4.1 and on ours, in turns.

Each time in a Python and a JVM of their own, of whose two reads the second counts, with settings that both have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version as installed
from typing import Final

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.names import OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.rocketmq_side import rocketmq_side
from connector_tests.benchmarks.run import Contestant, Figures, Outcome
from connector_tests.benchmarks.workload import Workload
from connector_tests.support.other_sparks import python_of

PART: Final = "sparks"
OLDER: Final = "4.1.4"
PROGRAM: Final = "connector_tests.benchmarks.read_twice"


def run_sparks(workload: Workload, rounds: int) -> Iterator[Outcome]:
    with rocketmq_side(workload) as side:
        racing: dict[str, Contestant] = {
            f"{OURS}, Spark {version}": partial(read_with, version, side.options, workload.count)
            for version in (OLDER, installed("pyspark"))
        }
        yield from alternate(PART, workload.name, racing, rounds, warm_up=False)


def read_with(version: str, options: Mapping[str, str], count: int) -> Figures:
    """What ``read_twice`` prints where this PySpark is installed."""
    printed = run_apart(PROGRAM, json.dumps(dict(options)), str(count), python=python_of(version))
    figures: Figures = json.loads(printed.splitlines()[-1])
    return figures
