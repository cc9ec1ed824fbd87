"""Metrics of all queries, from the progress of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rocketmq_spark.metrics.metric_table import IS_ACTIVE, METRICS, ROWS, TIMESTAMP
from rocketmq_spark.source.stream.shown_progress import progress_of


class Sample(NamedTuple):
    """One value. ``labels``: values of the common labels, then of the metric's own."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Source:
    """One source of a query: its latest fields, {} before it showed any, and its rows in all micro-batches."""

    shown: Mapping[str, Any] = field(default_factory=dict)
    row_count: int = 0


@dataclass(frozen=True)
class Query:
    """A query as of its latest progress."""

    run_id: str
    name: str
    timestamp: str
    sources: tuple[Source, ...]
    is_active: bool = True

    def samples(self, query_id: str) -> Iterator[Sample]:
        """Return the values of all sources of this connector."""
        of_query = {IS_ACTIVE: self.is_active, TIMESTAMP: self.timestamp}
        for number, source in enumerate(self.sources):
            if source.shown:
                fields = {**source.shown, **of_query, ROWS: source.row_count}
                for name, metric in METRICS.items():
                    for labels, value in metric.values(fields):
                        yield Sample(name, (query_id, self.name, str(number), *labels), value)


class QueryMetrics:
    """Latest progress of each query. Not thread-safe."""

    def __init__(self) -> None:
        self._queries: dict[str, Query] = {}

    def update(self, progress: Mapping[str, Any], *, is_new_batch: bool) -> None:
        """Add a progress. Count its rows only if ``is_new_batch``: the progress of an idle query may repeat a batch
        whose rows were counted before.

        If a source shows no fields, it keeps the fields of the last progress of the same run. Its row count continues
        in later runs of the query.
        """
        query_id, run_id = str(progress["id"]), str(progress["runId"])
        before = self._queries.get(query_id)
        is_same_run = before is not None and before.run_id == run_id
        sources = dict(enumerate(before.sources)) if before is not None else {}
        self._queries[query_id] = Query(
            run_id,
            str(progress["name"] or ""),
            str(progress["timestamp"]),
            tuple(
                _updated(
                    sources.get(number, Source()),
                    shown,
                    int(of_source["numInputRows"]) if is_new_batch else 0,
                    is_same_run=is_same_run,
                )
                for number, (shown, of_source) in enumerate(
                    zip(progress_of(dict(progress)), progress["sources"], strict=True)
                )
            ),
        )

    def end(self, query_id: str, *, has_failed: bool) -> None:
        """Keep the last values of a query that failed, as not active, until it is restarted; drop one that was
        stopped."""
        query = self._queries.pop(query_id, None)
        if query is not None and has_failed:
            self._queries[query_id] = replace(query, is_active=False)

    def samples(self) -> dict[str, list[Sample]]:
        """Return the values of each metric that has any."""
        found: dict[str, list[Sample]] = {}
        for query_id, query in self._queries.items():
            for sample in query.samples(query_id):
                found.setdefault(sample.name, []).append(sample)
        return found


def _updated(before: Source, shown: Mapping[str, Any], row_count: int, *, is_same_run: bool) -> Source:
    """Return a source with the fields and the rows of one more progress."""
    return Source(shown or (before.shown if is_same_run else {}), before.row_count + row_count)
