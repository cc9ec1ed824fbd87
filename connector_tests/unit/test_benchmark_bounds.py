from __future__ import annotations

from typing import Any

import pytest

from connector_tests.benchmarks import decode, starting
from connector_tests.benchmarks.bounds import BATCH_RATE, BOUNDS, LOAD, RATE, SPARK_CPU, Bound
from connector_tests.benchmarks.names import (
    DEFAULTS_SUFFIX,
    EMPTY,
    JAVA_BATCHES,
    JAVA_PULL,
    KAFKA,
    KAFKA_HEADERS,
    LITE_PULL,
    OUR_LIKE_KAFKA,
    OUR_MAPS,
    OURS,
)
from connector_tests.benchmarks.other_settings import SETTINGS, readers
from connector_tests.benchmarks.queries import connectors
from connector_tests.benchmarks.reading import all_contestants
from connector_tests.benchmarks.report import report
from connector_tests.benchmarks.roles import RUNNER, cpu_s
from connector_tests.benchmarks.run import Run
from connector_tests.benchmarks.side import Side
from connector_tests.benchmarks.stand import Stand
from connector_tests.benchmarks.workload import FULL, Workload
from connector_tests.benchmarks.writing import sinks
from connector_tests.unit.test_benchmark_report import CASE, ENVIRONMENT, reading, section

NO_SESSION: Any = None
"""Contestants are made without one; they would need it to run."""


def stand_of(workload: Workload) -> Stand:
    rocketmq, kafka = (Side(name, {}, "timestamp", "127.0.0.1:1", 1, None, 0.0) for name in ("rocketmq", "kafka"))
    return Stand(workload, rocketmq, kafka)


def contestants_of_a_whole_run() -> set[tuple[str, str, str]]:
    """Part, case, contestant; Java's clients and what decodes natively by their names."""
    found = set()
    for workload in FULL.bases:
        stand = stand_of(workload)
        names = {*all_contestants(NO_SESSION, stand), LITE_PULL, JAVA_PULL}
        names |= {name for suffix in SETTINGS for name in readers(NO_SESSION, stand, suffix)}
        found |= {("reading", workload.name, name) for name in names}
    for workload in (*FULL.variations, *FULL.cold):
        found |= {("reading", workload.name, name) for name in connectors(NO_SESSION, stand_of(workload))}
    for workload in FULL.writing:
        names = {*sinks(NO_SESSION, stand_of(workload), workload), JAVA_BATCHES}
        found |= {("writing", workload.name, name) for name in names}
    for name in decode.PROJECTIONS:
        cases = [f"{size} B, {count} a pull" for size in (100, 1024) for count in decode.PULL_MESSAGES]
        found |= {("decode", case, title) for case in cases for title in (name, f"{name}, native")}
    return found | {
        ("starting", case, name) for case in (starting.CASE, starting.CASE + DEFAULTS_SUFFIX) for name in (OURS, EMPTY)
    }


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.cells([])[0])
def test_a_whole_run_measures_what_has_a_bound(bound: Bound) -> None:
    names = [bound.contestant] + ([] if bound.reference is None else [bound.reference])
    assert {(bound.part, bound.case, name) for name in names} <= contestants_of_a_whole_run()


def test_figures_of_a_start_are_called_as_they_are_measured() -> None:
    names = {bound.figure for bound in BOUNDS if bound.part == "starting"}
    assert names == {LOAD, starting.FIRST_BATCH, f"query {cpu_s(RUNNER)}"}


@pytest.mark.parametrize(("seconds", "shown"), [(1.0, ("≥ 2 ×", "2 ×", "met")), (1.25, ("≥ 2 ×", "1.6 ×", "not met"))])
def test_a_rate_is_that_of_medians_to_the_other_connectors(seconds: float, shown: tuple[str, ...]) -> None:
    runs = reading(OURS, seconds, seconds, 99.0) + reading(KAFKA, 2.0, 2.0, 0.1)
    assert tuple(Bound("reading", CASE, OURS, KAFKA, RATE, 2.0).cells(runs)[1:]) == shown


def test_of_processor_time_less_is_better() -> None:
    bound = Bound("reading", CASE, OUR_MAPS, KAFKA_HEADERS, SPARK_CPU, 1.0)
    for used_s, met in ((1.0, "met"), (1.5, "not met")):
        runs = reading(OUR_MAPS, 1.0, used_s={"JVM cpu_s": used_s})
        runs += reading(KAFKA_HEADERS, 1.0, used_s={"JVM cpu_s": 1.0})
        assert bound.cells(runs)[1:] == ("≤ 1 ×", f"{used_s:g} ×", met)


def test_without_another_connector_the_figure_itself_is_bounded() -> None:
    runs = [Run("decode", "100 B", "all", 1, {"rows": 1_000_000, "seconds": 0.5})]
    assert Bound("decode", "100 B", "all", None, RATE, 2.0).cells(runs)[1:] == ("≥ 2", "2", "met")


@pytest.mark.parametrize("alone", [OUR_LIKE_KAFKA, KAFKA])
def test_what_was_not_run_is_neither_met_nor_not_met(alone: str) -> None:
    runs = reading(alone, 1.0, batch_seconds=1.0)
    assert Bound("reading", CASE, OUR_LIKE_KAFKA, KAFKA, BATCH_RATE, 1.0).cells(runs)[2:] == ("not run", "")


def test_the_report_begins_with_what_it_should_show() -> None:
    runs = reading(OUR_LIKE_KAFKA, 1.0, batch_seconds=1.0) + reading(KAFKA, 2.0, batch_seconds=2.0)
    page = report(runs, [], ENVIRONMENT, "chart.png")
    assert page.split("\n## ")[1].startswith("What it should show\n")
    rows = section(page, "What it should show")
    assert len(rows) == len(BOUNDS) + 2
    assert rows[f"reading {CASE}: {OUR_LIKE_KAFKA} to {KAFKA}, {BATCH_RATE}"] == ["≥ 1.3 ×", "2 ×", "met"]
