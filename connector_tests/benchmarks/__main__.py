"""``python -m connector_tests.benchmarks``: everything that is measured, in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from connector_tests.benchmarks import (
    decode,
    idle,
    latency,
    memory,
    planning,
    reading,
    small_batches,
    sparks,
    starting,
    writing,
)
from connector_tests.benchmarks.environment import environment
from connector_tests.benchmarks.kafka_jars import connector_jars
from connector_tests.benchmarks.output import FOLDER, write
from connector_tests.benchmarks.run import Failure, Outcome, Run, failure_of
from connector_tests.benchmarks.workload import FULL, QUICK, Scale

Part = Callable[[Scale, Sequence[Path]], Iterator[Outcome]]


def run_reading(scale: Scale, jars: Sequence[Path]) -> Iterator[Outcome]:
    for workload in scale.bases:
        yield from reading.read_base(workload, scale.rounds, jars)
    for workload in scale.variations:
        yield from reading.read_variation(workload, scale.rounds, jars)
    for workload in scale.cold:
        yield from reading.read_cold(workload, scale.rounds, jars)


PARTS: Final[Mapping[str, Part]] = {
    reading.PART: run_reading,
    writing.PART: lambda scale, jars: writing.run_writing(scale.writing, scale.rounds, jars),
    sparks.PART: lambda scale, _jars: sparks.run_sparks(scale.bases[0], scale.rounds),
    starting.PART: lambda scale, _jars: starting.run_starting(scale.rounds),
    small_batches.PART: lambda scale, jars: small_batches.run_small_batches(scale.small_batches, scale.rounds, jars),
    latency.PART: lambda scale, jars: latency.run_latencies(
        scale.latency_rates_per_second, scale.latency_seconds, scale.rounds, jars
    ),
    decode.PART: lambda scale, _jars: decode.run_decode_apart(scale.decode_rounds),
    planning.PART: lambda _scale, _jars: planning.run_planning(),
    memory.PART: lambda scale, _jars: memory.run_memory(scale.memory),
    idle.PART: lambda scale, _jars: idle.run_idle(scale.idle_topics, scale.idle_seconds),
}


def main(argv: Sequence[str]) -> int:
    arguments = new_parser().parse_args(argv)
    scale = (QUICK if arguments.quick else FULL).times(arguments.times)
    where = environment()
    runs: list[Run] = []
    failures: list[Failure] = []
    try:
        for outcome in outcomes(arguments.only or list(PARTS), scale):
            keep(outcome, runs, failures)
    finally:
        write(runs, failures, where, arguments.into)
    sys.stdout.write((arguments.into / "README.md").read_text(encoding="utf-8"))
    return 1 if failures else 0


def keep(outcome: Outcome, runs: list[Run], failures: list[Failure]) -> None:
    """In the list where it belongs; a failure is told at once."""
    if isinstance(outcome, Run):
        runs.append(outcome)
    else:
        failures.append(outcome)
        sys.stderr.write(f"{outcome.name} did not take part: {outcome.problem}\n")


def outcomes(names: Sequence[str], scale: Scale) -> Iterator[Outcome]:
    """Of one part after another; one that breaks does not end the others."""
    jars: list[Path] = []
    try:
        jars = connector_jars()
    except Exception as error:  # noqa: BLE001  # everything but Kafka goes on
        yield failure_of("Spark's Kafka connector", error)
    for name in names:
        try:
            yield from PARTS[name](scale, jars)
        except Exception as error:  # noqa: BLE001  # the other parts go on
            yield failure_of(name, error)


def new_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m connector_tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer messages and rounds, less than 5 minutes")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part; may be given again")
    parser.add_argument("--times", type=float, default=1.0, metavar="FACTOR", help="so many times the messages")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="where the report goes")
    return parser


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
