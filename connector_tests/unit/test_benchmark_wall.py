from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.benchmarks.names import (
    KAFKA,
    OUR_BODIES,
    OUR_BODY_DECODES,
    OUR_DECODES,
    OUR_LIKE_KAFKA,
    OUR_LIKE_KAFKA_DECODES,
    OUR_PULLS,
    OUR_PULLS_AT_ONCE,
    OURS,
)
from connector_tests.benchmarks.report import report
from connector_tests.benchmarks.roles import BROKER
from connector_tests.benchmarks.run import Run
from connector_tests.benchmarks.wall import (
    IDLE,
    IDLE_AROUND,
    IDLE_IN_BATCHES,
    OTHER,
    PULL,
    STEAL,
    wall,
)
from connector_tests.unit.test_benchmark_report import CASE, ENVIRONMENT, section

QUERY = {
    "broker cpu_s": 1.0,
    "worker cpu_s": 2.5,
    "JVM cpu_s": 0.6,
    "planning cpu_s": 0.15,
    "source runner cpu_s": 0.1,
    "benchmark cpu_s": 0.05,
    "machine cores": 2.0,
    "machine core_s": 8.0,
    "machine busy_cpu_s": 5.0,
    "machine steal_cpu_s": 0.2,
}


def measured(contestant: str, seconds: float, figures: Mapping[str, float]) -> list[Run]:
    """A round with a million rows."""
    return [Run("reading", CASE, contestant, 1, {"rows": 1_000_000, "seconds": seconds, **figures})]


def client(name: str, cpu_s: float) -> list[Run]:
    """With a broker as busy as that of a query; the machine had two seconds."""
    machine = {"machine cores": 2.0, "machine core_s": 2.0, "machine busy_cpu_s": 1.75, "machine steal_cpu_s": 0.0}
    return measured(name, 1.0, {"client cpu_s": cpu_s, "broker cpu_s": 1.0, **machine})


def all_contestants() -> list[Run]:
    kafka = QUERY | {"worker cpu_s": 0.0, "planning cpu_s": 0.17, "machine busy_cpu_s": 2.0}
    runs = measured(OURS, 4.0, QUERY) + client(OUR_PULLS, 0.5) + client(OUR_DECODES, 1.5)
    runs += client(OUR_PULLS_AT_ONCE, 0.5)
    bodies = measured(OUR_BODIES, 4.0, QUERY) + client(OUR_BODY_DECODES, 0.7)
    runs += measured(OUR_LIKE_KAFKA, 4.0, QUERY) + client(OUR_LIKE_KAFKA_DECODES, 0.9)
    return runs + bodies + measured(KAFKA, 2.0, kafka)


def test_the_parts_are_all_that_the_machine_had() -> None:
    found = wall(measured(OURS, 4.0, QUERY), client(OUR_PULLS, 0.5), client(OUR_DECODES, 1.5))
    assert found.core_s == 8.0
    assert sum(found.parts.values()) == pytest.approx(8.0)
    assert found.parts[IDLE] == pytest.approx(8.0 - 5.0 - 0.2)


def test_idle_time_around_the_batches_is_distinguished() -> None:
    found = wall(measured(OURS, 4.0, QUERY | {IDLE_IN_BATCHES: 1.0}))
    assert found.parts[IDLE] == pytest.approx(1.0)
    assert found.parts[IDLE_AROUND] == pytest.approx(2.8 - 1.0)
    assert sum(found.parts.values()) == pytest.approx(8.0)


def test_what_no_process_of_the_query_used_is_unexplained() -> None:
    found = wall(measured(OURS, 4.0, QUERY))
    assert found.parts[OTHER] == pytest.approx(5.0 - 4.4)
    assert found.parts[STEAL] == 0.2
    assert found.unexplained == pytest.approx(0.8 / 8.0)


def test_it_is_made_of_medians_by_the_million_rows() -> None:
    rounds = [run for used in (1.0, 9.0, 2.0) for run in measured(OURS, 1.0, QUERY | {"broker cpu_s": used})]
    doubled = [
        Run(run.part, run.case, run.contestant, run.round, {**run.figures, "rows": 2_000_000.0}) for run in rounds
    ]
    assert wall(rounds).parts[BROKER] == 2.0
    assert wall(doubled).parts[BROKER] == 1.0
    assert wall(doubled).cores == 2.0


def test_a_clients_time_is_all_pull() -> None:
    pulls = client(OUR_PULLS, 0.5)
    found = wall(pulls, pulls)
    assert {part: used for part, used in found.parts.items() if used} == {
        BROKER: 1.0,
        PULL: 0.5,
        OTHER: 0.25,
        IDLE: 0.25,
    }
    assert found.bound == 2.0


def test_the_report_shows_where_the_time_goes_beside_kafka() -> None:
    rows = section(report(all_contestants(), [], ENVIRONMENT, "chart.png"), f"Where the processor time goes: {CASE}")
    columns = [OURS, OUR_LIKE_KAFKA, OUR_BODIES, OUR_PULLS_AT_ONCE, KAFKA]
    assert rows[""] == [cell for name in columns for cell in (f"{name}, s/M", "share")]
    assert rows["pull"][:2] == ["0.5", "6.2 %"]
    assert rows["Python to JVM"][:2] == ["1", "12.5 %"]
    assert rows["planning (start of the query)"][::2] == ["0.15", "0.15", "0.15", "0", "0.17"]
    assert rows["source runner"][::2] == ["0.1", "0.1", "0.1", "0", "0.1"]
    assert rows["decode"] == ["1", "12.5 %", "0.4", "5.0 %", "0.2", "2.5 %", "0", "0.0 %", "0", "0.0 %"]
    assert rows["idle"] == ["2.8", "35.0 %", "2.8", "35.0 %", "2.8", "35.0 %", "0.25", "12.5 %", "5.8", "72.5 %"]
    assert rows["unexplained"] == ["", "10.0 %", "", "10.0 %", "", "10.0 %", "", "12.5 %", "", "3.5 %"]
    assert rows["M rows/s"] == ["0.25", "", "0.25", "", "0.25", "", "1", "", "0.5", ""]
    assert rows["M rows/s, bound"] == ["1.25", "", "1.25", "", "1.25", "", "2", "", "1.25", ""]


def test_without_our_parts_alone_there_is_nothing_to_show() -> None:
    runs = [run for run in all_contestants() if run.contestant != OUR_DECODES]
    assert "Where the processor time goes" not in report(runs, [], ENVIRONMENT, "chart.png")
