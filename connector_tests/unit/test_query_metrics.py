"""Metrics of queries, from the progress that they have had."""

from __future__ import annotations

import json
from typing import Any, Final

from rocketmq_spark.metrics.query_metrics import QueryMetrics, Sample

OURS: Final = {"lag": 3, "lost": {"offsets": 0, "ranges": 0}, "control": {"folder": "f", "host": "h"}}
QUERY: Final = "b9f5"


def progress(*sources: tuple[Any, int], run_id: str = "1", name: str | None = "orders-app") -> dict[str, Any]:
    """Of a query with these ``latestOffset`` and ``numInputRows``."""
    return {
        "id": QUERY,
        "runId": run_id,
        "name": name,
        "timestamp": "2026-01-05T14:05:18.123Z",
        "sources": [{"latestOffset": json.dumps(shown), "numInputRows": rows} for shown, rows in sources],
    }


def metrics_of(*of_batches: dict[str, Any]) -> QueryMetrics:
    metrics = QueryMetrics()
    for one in of_batches:
        metrics.update(one, is_new_batch=True)
    return metrics


def values(metrics: QueryMetrics, name: str) -> list[float]:
    return [sample.value for sample in metrics.samples().get(name, [])]


def test_a_sample_has_the_labels_of_its_query_and_source() -> None:
    metrics = metrics_of(progress((OURS, 5), ({"another": "source"}, 9), (OURS | {"lag": 4}, 6)))
    assert metrics.samples()["lag_messages"] == [
        Sample("lag_messages", (QUERY, "orders-app", "0"), 3),
        Sample("lag_messages", (QUERY, "orders-app", "2"), 4),
    ]
    assert values(metrics, "rows_total") == [5, 6]


def test_a_query_without_a_name_has_an_empty_one() -> None:
    (sample,) = metrics_of(progress((OURS, 5), name=None)).samples()["up"]
    assert sample.labels == (QUERY, "", "0")


def test_a_query_that_reads_from_no_rocketmq_has_no_metrics() -> None:
    assert metrics_of(progress(({"orders": {"0": 12}}, 5))).samples() == {}


def test_rows_of_batches_are_summed_and_those_of_an_idle_progress_are_not() -> None:
    metrics = metrics_of(progress((OURS, 5)), progress((OURS, 6)))
    metrics.update(progress((OURS | {"lag": 8}, 6)), is_new_batch=False)
    assert (values(metrics, "rows_total"), values(metrics, "lag_messages")) == ([11], [8])


def test_rows_of_a_replayed_batch_count_when_the_source_shows_its_fields() -> None:
    metrics = metrics_of(progress((None, 5), run_id="2"))
    assert metrics.samples() == {}
    metrics.update(progress((OURS, 1), run_id="2"), is_new_batch=True)
    assert values(metrics, "rows_total") == [6]


def test_a_source_that_shows_nothing_keeps_its_fields_in_the_same_run_only() -> None:
    metrics = metrics_of(progress((OURS, 5)), progress((None, 5)))
    assert values(metrics, "lag_messages") == [3]
    metrics.update(progress((None, 5), run_id="2"), is_new_batch=True)
    assert values(metrics, "lag_messages") == []


def test_a_restart_with_other_sources_has_metrics_of_these() -> None:
    metrics = metrics_of(progress((OURS, 5)), progress((OURS, 1), (OURS, 2), run_id="2"))
    assert values(metrics, "rows_total") == [6, 2]


def test_a_failed_query_is_not_up_until_it_is_restarted() -> None:
    metrics = metrics_of(progress((OURS, 5)))
    assert values(metrics, "up") == [1]
    metrics.end(QUERY, has_failed=True)
    assert (values(metrics, "up"), values(metrics, "lag_messages")) == ([0], [3])
    metrics.update(progress((OURS, 5), run_id="2"), is_new_batch=True)
    assert values(metrics, "up") == [1]


def test_a_stopped_query_has_no_metrics() -> None:
    metrics = metrics_of(progress((OURS, 5)))
    metrics.end(QUERY, has_failed=False)
    metrics.end("one without progress", has_failed=True)
    assert metrics.samples() == {}
