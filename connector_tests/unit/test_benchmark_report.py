from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from connector_tests.benchmarks.figures import (
    Summary,
    a_million,
    cases,
    contestants,
    idle_figures,
    memory_figures,
    rates,
    ratio,
    summary,
    values,
)
from connector_tests.benchmarks.names import (
    COUNTED,
    DEFAULTS_SUFFIX,
    EMPTY,
    JAVA_BATCHES,
    KAFKA,
    KAFKA_HEADERS,
    KAFKA_VALUES,
    LITE_PULL,
    OUR_BODIES,
    OUR_ENCODES,
    OUR_LIKE_KAFKA,
    OUR_MAPS,
    OURS,
    PYTHON_SUFFIX,
    UNCHECKED_SUFFIX,
)
from connector_tests.benchmarks.report import report
from connector_tests.benchmarks.results import as_json
from connector_tests.benchmarks.roles import JVM
from connector_tests.benchmarks.run import Failure, Run, failure_of
from connector_tests.benchmarks.workload import FULL, RARE_EVERY

CASE = "100 B, 4 queues"
NOTHING: Mapping[str, float] = MappingProxyType({})
ENVIRONMENT = {"date": "2026-01-02", "versions": {"pyspark": "4.3.0"}, "settings": {"spark": {"master": "local[2]"}}}


def reading(
    contestant: str, *seconds: float, case: str = CASE, used_s: Mapping[str, float] = NOTHING, **figures: float
) -> list[Run]:
    """A million rows in each of so many seconds."""
    return [
        Run("reading", case, contestant, number, {"rows": 1_000_000, "seconds": elapsed, **used_s, **figures})
        for number, elapsed in enumerate(seconds, 1)
    ]


def section(page: str, heading: str) -> dict[str, list[str]]:
    """The cells of a section's table by the first one."""
    text = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize(
    ("given", "expected"),
    [([3.0], Summary(3, 3, 3)), ([5.0, 1.0, 3.0], Summary(3, 1, 5)), ([1.0, 2.0, 4.0, 9.0], Summary(3, 1, 9))],
)
def test_a_summary_is_the_median_and_the_extremes(given: list[float], expected: Summary) -> None:
    assert summary(given) == expected


def test_nothing_has_no_summary_and_no_ratio() -> None:
    assert summary([]) is None
    assert ratio(None, Summary(1, 1, 1)) is None
    assert ratio(Summary(1, 1, 1), None) is None
    assert ratio(Summary(1, 1, 1), Summary(0, 0, 0)) is None


def test_rates_and_costs_are_by_the_million_rows() -> None:
    run = Run("reading", CASE, OURS, 1, {"rows": 500_000, "seconds": 2.0, "batch_seconds": 1.0, "broker cpu_s": 1.5})
    assert rates([run]) == [0.25]
    assert rates([run], "batch_seconds") == [0.5]
    assert a_million([run], "broker cpu_s") == [3.0]


def test_a_figure_that_a_run_does_not_have_is_omitted() -> None:
    (run,) = reading(OURS, 1.0)
    assert values([run], "nothing") == a_million([run], "nothing") == rates([run], "nothing") == []


def test_cases_and_contestants_keep_the_order_in_which_they_were_run() -> None:
    runs = reading(OURS, 1.0, case="b") + reading(KAFKA, 2.0, 3.0, case="b") + reading(OURS, 1.0, case="a")
    assert cases(runs, "reading") == ["b", "a"]
    assert {name: len(rounds) for name, rounds in contestants(runs, "reading", "b").items()} == {OURS: 1, KAFKA: 2}


def test_the_report_compares_with_both_other_connectors() -> None:
    runs = reading(OURS, 1.0, 2.0, 3.0, batch_seconds=1.0) + reading(KAFKA, 4.0, batch_seconds=4.0)
    runs += reading(LITE_PULL, 8.0)
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), f"Reading {CASE}")
    assert rows[OURS][:5] == ["0.5 (0.333 to 1)", "2.00 ×", "4.00 ×", "1 (1 to 1)", "4.00 ×"]
    assert rows[LITE_PULL][:5] == ["0.125 (0.125 to 0.125)", "0.50 ×", "1.00 ×", "", ""]


@pytest.mark.parametrize(
    ("ours", "peer", "others"),
    [
        (OURS, KAFKA, [KAFKA_VALUES, KAFKA_HEADERS]),
        (OUR_LIKE_KAFKA, KAFKA, [KAFKA_VALUES, KAFKA_HEADERS]),
        (OUR_BODIES, KAFKA_VALUES, [KAFKA, KAFKA_HEADERS]),
        (OUR_MAPS, KAFKA_HEADERS, [KAFKA, KAFKA_VALUES]),
        (OUR_MAPS, KAFKA, []),
        (OUR_BODIES + PYTHON_SUFFIX, KAFKA_VALUES, [KAFKA]),
        (OURS + DEFAULTS_SUFFIX, KAFKA + DEFAULTS_SUFFIX, [KAFKA]),
        (OUR_BODIES + UNCHECKED_SUFFIX, KAFKA_VALUES + UNCHECKED_SUFFIX, [KAFKA, KAFKA_VALUES]),
    ],
)
def test_a_reader_is_compared_with_the_other_connector_of_its_kind(ours: str, peer: str, others: list[str]) -> None:
    runs = reading(ours, 2.0) + reading(peer, 3.0) + [run for other in others for run in reading(other, 7.0)]
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), f"Reading {CASE}")
    assert rows[ours][1] == "1.50 ×"


def test_what_spark_takes_is_that_of_workers_and_jvm_and_no_clients() -> None:
    runs = reading(OURS, 1.0, used_s={"worker cpu_s": 0.5, "JVM cpu_s": 1.0, "broker cpu_s": 9.0})
    runs += reading(KAFKA, 1.0, used_s={"JVM cpu_s": 3.0}) + reading(LITE_PULL, 1.0, used_s={"client cpu_s": 1.0})
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), f"Reading {CASE}")
    at = rows["reader"].index("Spark CPU s/M")
    assert rows[OURS][at : at + 2] == ["1.5", "0.50 ×"]
    assert rows[KAFKA][at : at + 2] == ["3", "1.00 ×"]
    assert rows[LITE_PULL][at : at + 2] == ["", ""]


def test_a_writer_is_compared_with_kafkas_sink_and_with_javas_producer() -> None:
    seconds = ((OURS, 1.0, "JVM"), (KAFKA, 2.0, "JVM"), (JAVA_BATCHES, 5.0, "client"))
    runs = [
        Run(
            "writing",
            CASE,
            name,
            1,
            {"rows": 1_000_000, "seconds": elapsed, f"{role} cpu_s": 0.5, "broker cpu_s": 0.25},
        )
        for name, elapsed, role in seconds
    ]
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), f"Writing {CASE}")
    assert rows[OURS] == ["1 (1 to 1)", "2.00 ×", "5.00 ×", "0.25", "", "", "0.5", ""]
    assert rows[JAVA_BATCHES] == ["0.2 (0.2 to 0.2)", "0.40 ×", "1.00 ×", "0.25", "", "", "0.5", ""]


def test_the_parts_of_a_write_are_distinguished_by_which_version_does_fewer_of_them() -> None:
    workers = ((OURS, 0.5), (COUNTED, 0.125), (OUR_ENCODES, 0.375), (KAFKA, 0.0))
    runs = [
        Run("writing", CASE, name, 1, {"rows": 1_000_000, "seconds": 1, "worker cpu_s": used_s, "JVM cpu_s": 2.0})
        for name, used_s in workers
    ]
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), f"Where the processor time of a write goes: {CASE}")
    assert rows["take the rows"] == ["0.125"]
    assert rows["encode them"] == ["0.25"]
    assert rows["send them"] == ["0.125"]
    assert rows[JVM] == rows[f"{KAFKA}: {JVM}"] == ["2"]
    assert "Where the processor time of a write" not in report(runs[:1], [], ENVIRONMENT, "chart.png")


def test_a_start_is_compared_with_that_of_an_empty_source() -> None:
    runs = [Run("starting", "a query", name, 1, {"load_s": took_s}) for name, took_s in ((OURS, 3.0), (EMPTY, 2.0))]
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), "Starting: a query")
    assert (rows[""], rows["load_s"]) == ([OURS, EMPTY, f"{OURS} to {EMPTY}"], ["3 (3 to 3)", "2 (2 to 2)", "1.50 ×"])


def test_reads_on_an_older_spark_are_compared_with_those_on_the_newest() -> None:
    took = {"Spark 4.1": (2.0, 1.0), "Spark 4.3": (1.0, 0.8)}
    runs = [
        Run("sparks", CASE, name, 1, {"rows": 1_000_000, "seconds": whole_s, "batch_seconds": batches_s})
        for name, (whole_s, batches_s) in took.items()
    ]
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), f"Reading {CASE}, other Sparks")
    assert rows["Spark 4.1"] == ["0.5 (0.5 to 0.5)", "0.50 ×", "1 (1 to 1)", "0.80 ×"]
    assert rows["Spark 4.3"] == ["1 (1 to 1)", "1.00 ×", "1.25 (1.25 to 1.25)", "1.00 ×"]


def test_decoding_shows_what_a_row_costs() -> None:
    runs = [Run("decode", "100 B", "all", 1, {"rows": 1000, "seconds": 0.0005})]
    rows = section(report(runs, [], ENVIRONMENT, "chart.png"), "Decode: 100 B")
    assert rows["all"] == ["2 (2 to 2)", "500"]


def test_a_workers_memory_is_shown_at_tenths_of_its_time_and_at_its_peak() -> None:
    samples = [number * 2**20 for number in (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 5)]
    assert set(memory_figures(samples[:1]).values()) == {10}
    run = Run("memory", "1000 messages", OURS, 1, {"rows": 1000, "seconds": 0.5, **memory_figures(samples)})
    rows = section(report([run], [], ENVIRONMENT, "chart.png"), "Memory: 1000 messages")
    assert rows["worker, MiB"] == ["at 10 % of its time", "at 50 % of its time", "at 90 % of its time", "peak"]
    assert rows[OURS] == ["20", "60", "100", "100"]


def idle(topics: int, requests: int, held_ms: int) -> Run:
    """40 counted pulls, which do not count, beside ``requests`` others in 20 s, and a held pull of each of 4 queues."""
    figures = idle_figures({"PULL_MESSAGE": 40, "HEART_BEAT": requests}, [held_ms] * 4, 20)
    return Run("idle", f"{topics} topics", OURS, 1, {"topics": topics, **figures})


def test_a_held_pull_counts_as_often_as_its_time_is_over() -> None:
    figures = idle(1, requests=2, held_ms=20_000).figures
    assert figures["PULL_MESSAGE a_second"] == 0.2
    assert figures["requests a_second"] == pytest.approx(0.3)
    assert figures["pulls counted"] == 40


def test_the_report_states_up_to_how_many_topics_a_broker_is_left_alone() -> None:
    runs = [idle(1, 2, 20_000), idle(10, 36, 20_000), idle(50, 38, 20_000)]
    page = report(runs, [], ENVIRONMENT, "chart.png")
    assert section(page, "Idle")["10"] == ["4", "2", "0.2", "1.8", "HEART_BEAT 1.8"]
    assert "At most 2 requests a second a broker: up to 10 topics, of those that were tried." in page
    assert "up to 0 topics" in report(runs[2:], [], ENVIRONMENT, "chart.png")


def test_a_caller_that_could_not_take_part_is_named() -> None:
    failure = failure_of("Kafka", RuntimeError("no repository answers\nand more"))
    assert failure == Failure("Kafka", "no repository answers")
    page = report(reading(OURS, 1.0), [failure], ENVIRONMENT, "chart.png")
    assert "* **Kafka** did not take part: no repository answers\n" in page
    assert section(page, f"Reading {CASE}")[OURS][1] == ""


def test_the_json_holds_every_run_on_a_line_of_its_own() -> None:
    text = as_json(reading(OURS, 1.25, 2.5), [Failure("Kafka", "gone")], ENVIRONMENT)
    found = json.loads(text)
    assert found["failures"] == [{"name": "Kafka", "problem": "gone"}]
    assert [run["figures"]["seconds"] for run in found["runs"]] == [1.25, 2.5]
    assert sum(OURS in line for line in text.splitlines()) == 2


def test_a_scaled_workload_is_shared_evenly_by_the_rare_tag() -> None:
    assert all(workload.count % RARE_EVERY == 0 for workload in FULL.times(0.01234).bases)
