"""Each metric's values in the fields of a source, and what the files for operators name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from rocketmq_spark.metrics.metric_table import COMMON_LABELS, METRICS, PREFIX, MetricType, Mode

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = {f"{PREFIX}{name}" for name in METRICS}
OUTAGE: Final = {"resource": "broker a", "since": "1970-01-01T00:00:10.250Z", "until": None, "reason": "it is down"}
FIELDS: Final[dict[str, Any]] = {
    "isActive": True,
    "timestamp": "1970-01-01T00:01:00.500Z",
    "numInputRows": 7,
    "maxOffsets": {"orders": {"broker-a": {"0": 10, "1": 4}, "broker-b": {"0": 1}}},
    "lag": 4,
    "lagByQueue": {
        "orders": {
            "broker-a": {"0": {"messages": 3, "ms": 1_500}, "1": {"messages": 0, "ms": 0}},
            "broker-b": {"0": {"messages": 1, "ms": 250}},
        }
    },
    "completedAfterRebalance": 2,
    "lost": {
        "offsets": 465,
        "ranges": 3,
        "byCondition": {
            "QUEUE_TRUNCATED": {"offsets": 460, "ranges": 1},
            "TOPIC_RECREATED": {"offsets": 7, "ranges": 2},
        },
    },
    "outages": [OUTAGE, OUTAGE | {"since": "1970-01-01T00:00:20Z", "until": "1970-01-01T00:05:20Z"}],
    "received": 11,
    "acknowledged": 12,
    "extended": 13,
    "released": 14,
    "expired": 15,
    "deadLetters": 16,
    "prefetched": 17,
    "inFlight": 18,
}
NUMBERS: Final = {
    "up": 1,
    "rows_total": 7,
    "last_progress_timestamp_seconds": 60.5,
    "outages": 2,
    "outage_start_timestamp_seconds": 10.25,
    "outage_deadline_timestamp_seconds": 320,
    "assigned_queues": 3,
    "lag_messages": 4,
    "lag_seconds": 1.5,
    "lost_offsets_total": 465,
    "lost_ranges_total": 3,
    "completed_after_rebalance_total": 2,
    "received_messages_total": 11,
    "acknowledged_messages_total": 12,
    "invisible_duration_extensions_total": 13,
    "released_messages_total": 14,
    "expired_messages_total": 15,
    "dead_letter_messages_total": 16,
    "prefetched_messages": 17,
    "in_flight_messages": 18,
}
BY_QUEUE: Final = {"queue_lag_messages": (3, 0, 1), "queue_lag_seconds": (1.5, 0, 0.25)}
BY_CONDITION: Final = {"data_loss_offsets_total": (460, 7), "data_loss_ranges_total": (1, 2)}
QUEUES: Final = (("orders", "broker-a", "0"), ("orders", "broker-a", "1"), ("orders", "broker-b", "0"))


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_a_metric_has_the_value_of_its_field(name: str, number: float) -> None:
    assert list(METRICS[name].values(FIELDS)) == [((), number)]


@pytest.mark.parametrize(("name", "numbers"), BY_QUEUE.items())
def test_a_metric_of_queues_has_the_value_of_each(name: str, numbers: tuple[float, ...]) -> None:
    assert list(METRICS[name].values(FIELDS)) == list(zip(QUEUES, numbers, strict=True))
    assert METRICS[name].labels == ("topic", "broker", "queue")


@pytest.mark.parametrize(("name", "numbers"), BY_CONDITION.items())
def test_a_metric_of_losses_has_the_value_of_each_condition(name: str, numbers: tuple[float, ...]) -> None:
    assert list(METRICS[name].values(FIELDS)) == [
        (("QUEUE_TRUNCATED",), numbers[0]),
        (("TOPIC_RECREATED",), numbers[1]),
    ]
    assert METRICS[name].labels == ("condition",)


def test_each_metric_is_tested() -> None:
    assert {*NUMBERS, *BY_QUEUE, *BY_CONDITION} == set(METRICS)


@pytest.mark.parametrize("name", [name for name, row in METRICS.items() if row.mode is not Mode.BOTH])
def test_a_metric_of_one_mode_has_no_value_where_its_field_is_missing(name: str) -> None:
    assert list(METRICS[name].values({})) == []


def test_an_unknown_lag_has_no_value() -> None:
    assert list(METRICS["lag_messages"].values({"lag": None})) == []


def test_without_outages_there_is_no_time_of_one() -> None:
    fields: dict[str, Any] = {"outages": []}
    assert list(METRICS["outages"].values(fields)) == [((), 0)]
    assert list(METRICS["outage_start_timestamp_seconds"].values(fields)) == []
    assert list(METRICS["outage_deadline_timestamp_seconds"].values({"outages": [OUTAGE]})) == []


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, row in METRICS.items():
        assert re.fullmatch("[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (row.metric_type is MetricType.COUNTER)
        assert name.endswith("_seconds") == (row.unit in {"s", "epoch s"})


# ---------------------------------------------------------------------------------------- files for operators


def unknown_in(expression: str) -> set[str]:
    """Names of metrics and labels in an expression that no metric has."""
    labels = {*COMMON_LABELS, "instance"}.union(*(row.labels for row in METRICS.values()))
    used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=(?!=))", expression)
    used += [
        name for names in re.findall(r"\b(?:on|by|ignoring)\s*\(([^)]*)\)", expression) for name in names.split(",")
    ]
    return set(re.findall(rf"{PREFIX}\w+", expression)) - NAMES | {name.strip() for name in used} - labels


def alert_rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((ROOT / "conf" / "prometheus-alerts.yml").read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return read


def shown_expressions() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def test_alert_rules_name_metrics_and_labels_that_exist() -> None:
    rules = alert_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert PREFIX in rule["expr"]
        assert unknown_in(rule["expr"]) == set()
        assert rule["labels"]["severity"] in {"warning", "critical"}
        own = {label for name, row in METRICS.items() if PREFIX + name in rule["expr"] for label in row.labels}
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= {*COMMON_LABELS, *own}
        assert rule["annotations"].keys() == {"summary", "action"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))


def test_the_dashboard_shows_each_metric_and_no_other() -> None:
    expressions = shown_expressions()
    assert [unknown_in(expression) for expression in expressions] == [set()] * len(expressions)
    assert {name for name in NAMES if any(re.search(rf"{name}\b", one) for one in expressions)} == NAMES


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard()["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("rocketmq_spark_lags > 0", {"rocketmq_spark_lags"}),
        ('rocketmq_spark_up{group="g"} == 0', {"group"}),
        ("sum by (topic, cluster) (rocketmq_spark_queue_lag_messages)", {"cluster"}),
        ("rocketmq_spark_up unless on (query) rocketmq_spark_outages", {"query"}),
    ],
)
def test_an_unknown_name_is_found(expression: str, unknown: set[str]) -> None:
    assert unknown_in(expression) == unknown
