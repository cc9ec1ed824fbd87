"""What Prometheus' client collects, from the events that Spark sends to a listener."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rocketmq_spark.metrics.metric_table import METRICS, PREFIX
from rocketmq_spark.metrics.prometheus import PrometheusListener

RECORDED: Final = Path(__file__).parents[1] / "vectors" / "progress"
"""Progress of queries that read 40 messages on Spark 4.3: in queue mode 10 a batch, after the second; in message
mode after all."""


def recorded(mode: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RECORDED / f"{mode}_mode.json").read_text(encoding="utf-8"))
    return read


class Session:
    """A Spark session with one query, or none."""

    def __init__(self) -> None:
        self.queries: dict[str, Any] = {}
        self.streams = self

    def get(self, query_id: str) -> Any:
        return self.queries.get(query_id)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def listener(session: Any, registry: CollectorRegistry) -> PrometheusListener:
    return PrometheusListener(session, registry)


def event(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def scraped(registry: CollectorRegistry) -> Iterator[tuple[str, dict[str, str], float]]:
    """Each sample of the text that Prometheus gets."""
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        yield from ((sample.name, sample.labels, sample.value) for sample in family.samples)


def value_of(registry: CollectorRegistry, name: str) -> list[float]:
    return [value for sample, _, value in scraped(registry) if sample == PREFIX + name]


def test_a_scrape_has_the_figures_of_a_query_in_queue_mode(
    registry: CollectorRegistry, listener: PrometheusListener
) -> None:
    progress = recorded("queue")
    listener.onQueryProgress(event(progress=progress))
    shown = json.loads(progress["sources"][0]["latestOffset"])
    by_queue = shown["lagByQueue"]["orders"]["broker-a"]
    assert shown["lag"] == sum(lag["messages"] for lag in by_queue.values()) == 20
    common = {"query_id": progress["id"], "query_name": "", "source": "0"}
    found = {name.removeprefix(PREFIX): value for name, labels, value in scraped(registry) if labels == common}
    longest_ms = max(lag["ms"] for lag in by_queue.values())
    expected = {"lag_messages": 20, "rows_total": 10, "assigned_queues": 4, "lag_seconds": longest_ms / 1000, "up": 1}
    assert {name: found[name] for name in expected} == expected
    of_queues = {
        labels["queue"]: value for name, labels, value in scraped(registry) if name.endswith("queue_lag_messages")
    }
    assert of_queues == {queue: lag["messages"] for queue, lag in by_queue.items()}


def test_a_scrape_has_the_counters_of_a_query_in_message_mode(
    registry: CollectorRegistry, listener: PrometheusListener
) -> None:
    listener.onQueryProgress(event(progress=recorded("message")))
    assert value_of(registry, "received_messages_total") == [40]
    assert value_of(registry, "acknowledged_messages_total") == [40]
    assert value_of(registry, "in_flight_messages") == [0]
    assert value_of(registry, "lag_messages") == []


def test_an_idle_query_has_the_progress_that_spark_does_not_send(
    session: Session, registry: CollectorRegistry, listener: PrometheusListener
) -> None:
    progress = recorded("queue")
    query_id = progress["id"]
    listener.onQueryIdle(event(id=query_id))
    session.queries[query_id] = event(lastProgress=None)
    listener.onQueryIdle(event(id=query_id))
    assert list(scraped(registry)) == []
    session.queries[query_id] = event(lastProgress=progress)
    listener.onQueryIdle(event(id=query_id))
    assert value_of(registry, "outages") == [0]
    assert value_of(registry, "rows_total") == [0]


def test_a_query_that_failed_is_down_and_one_that_was_stopped_has_no_metrics(
    registry: CollectorRegistry, listener: PrometheusListener
) -> None:
    progress = recorded("queue")
    listener.onQueryStarted(event(id=progress["id"]))
    listener.onQueryProgress(event(progress=progress))
    listener.onQueryTerminated(event(id=progress["id"], exception="[ROCKETMQ_CLUSTER_TIMEOUT] ..."))
    assert value_of(registry, "up") == [0]
    listener.onQueryTerminated(event(id=progress["id"], exception=None))
    assert list(scraped(registry)) == []


def test_metrics_of_queues_can_be_omitted(session: Any, registry: CollectorRegistry) -> None:
    listener = PrometheusListener(session, registry, queue_metrics=False)
    listener.onQueryProgress(event(progress=recorded("queue")))
    assert {name for name, labels, _ in scraped(registry) if "queue" in labels} == set()
    assert value_of(registry, "lag_messages") == [20]


def test_each_metric_of_the_table_is_described_by_its_name(listener: PrometheusListener) -> None:
    described = {f"{one.name}_total" if one.type == "counter" else one.name for one in listener.describe()}
    assert described == {PREFIX + name for name in METRICS}


def test_a_registry_has_one_listener(session: Any, registry: CollectorRegistry, listener: PrometheusListener) -> None:
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        PrometheusListener(session, registry)
